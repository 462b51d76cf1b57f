//! What one connection is subscribed to, in numbers: how many channels and patterns, and the memory that it is charged.
//!
//! The numbers stand in the session, the names in the registry. A connection is charged no less than what its names take,
//! however it has spread them (`engine/tests/memory_accounting.rs`), and what was added for a name goes with it, so that
//! everything comes back to zero.
//!
//! Deliberately absent: whether a name is subscribed to. Who adds one or takes it away has looked in the registry, and
//! changes both in one call.

use super::Topic;

/// What all subscriptions of one connection may take, in bytes. Without a bound one client could fill the memory with
/// names, and everybody would wait while they go with its connection; within this one are sixty thousand names of ordinary
/// length.
pub const SUBSCRIPTIONS_BYTES_MAX: usize = 16 << 20;

/// What a subscription takes beside its name, in bytes: its entry in two ordered maps, half full, and a number.
const SUBSCRIPTION_BYTES: usize = 256;
/// What the first channel or the first pattern of a connection takes beside that: sets of their own.
const TOPIC_BYTES: usize = 384;
/// What each byte of a pattern takes once it is read.
const GLOB_BYTES: usize = 44;

/// How much one connection is subscribed to. Small, so that a session can be copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subscriptions {
    channels: usize,
    patterns: usize,
    bytes: usize,
}

impl Subscriptions {
    /// Channels, by their names.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Patterns.
    pub fn patterns(&self) -> usize {
        self.patterns
    }

    /// Both together; what the replies of SUBSCRIBE count.
    pub fn len(&self) -> usize {
        self.channels + self.patterns
    }

    /// Whether there is none: the connection is an ordinary one.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory that they take, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn add(&mut self, topic: Topic, name: &[u8]) {
        let count = self.count_mut(topic);
        *count += 1;
        let first = if *count == 1 { TOPIC_BYTES } else { 0 };
        self.bytes += first + subscription_bytes(topic, name);
    }

    pub(super) fn remove(&mut self, topic: Topic, name: &[u8]) {
        let count = self.count_mut(topic);
        *count -= 1;
        let last = if *count == 0 { TOPIC_BYTES } else { 0 };
        self.bytes -= last + subscription_bytes(topic, name);
    }

    fn count_mut(&mut self, topic: Topic) -> &mut usize {
        match topic {
            Topic::Channel => &mut self.channels,
            Topic::Pattern => &mut self.patterns,
        }
    }
}

/// What one subscription takes, in bytes, when it is not the first of its kind.
pub fn subscription_bytes(topic: Topic, name: &[u8]) -> usize {
    let glob = match topic {
        Topic::Channel => 0,
        Topic::Pattern => name.len() * GLOB_BYTES,
    };
    SUBSCRIPTION_BYTES + name.len() + glob
}
