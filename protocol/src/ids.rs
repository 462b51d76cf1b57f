//! Names of nodes, clusters and epochs.

use std::fmt;

/// Names one data directory: 16 random bytes, made with it and never changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub [u8; 16]);

/// Names one history of records: 16 random bytes, shared by a primary and everything that copies it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(pub [u8; 16]);

/// The reign of one primary. Numbers say which is newer; the random nonce tells two reigns apart that took the same
/// number without knowing of each other. `(0, 0)` stands for "none yet".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch {
    /// Counts up from 1.
    pub number: u64,
    /// Random, made when the epoch opens.
    pub nonce: u64,
}

/// One line of the history of epochs: who opened it, and the position of its EpochStart record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HistoryEntry {
    /// The epoch.
    pub epoch: Epoch,
    /// The node that opened it.
    pub node: NodeId,
    /// The lsn of its EpochStart record.
    pub first_lsn: crate::Lsn,
}

/// A node that counts for promises and acknowledgements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Member {
    /// Its id.
    pub node: NodeId,
    /// The address that it announces, as clients would type it.
    pub address: String,
}

fn hex(bytes: &[u8; 16], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:016x}", self.number, self.nonce)
    }
}
