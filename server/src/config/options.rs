//! The settings of one server, and their defaults. Names, help and parsing are in [`table`](super::table).

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use idem_engine::{Durability, EvictionPolicy, MemoryLimit, Thresholds};
use idem_wal::thread::Policy;

/// When the log is synced; what a reply means under each is in `docs/durability.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FsyncPolicy {
    /// Before every reply that reveals a change.
    Always,
    /// At least every 500 ms.
    Everysec,
    /// Never by us; the kernel decides.
    No,
}

impl From<FsyncPolicy> for Policy {
    fn from(policy: FsyncPolicy) -> Policy {
        match policy {
            FsyncPolicy::Always => Policy::Always,
            FsyncPolicy::Everysec => Policy::Everysec,
            FsyncPolicy::No => Policy::No,
        }
    }
}

impl From<FsyncPolicy> for Durability {
    fn from(policy: FsyncPolicy) -> Durability {
        match policy {
            FsyncPolicy::Always => Durability::Always,
            FsyncPolicy::Everysec => Durability::Everysec,
            FsyncPolicy::No => Durability::No,
        }
    }
}

/// Who may use DEBUG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebugAccess {
    /// Nobody.
    No,
    /// Clients of this machine.
    Local,
    /// Everybody.
    Yes,
}

impl DebugAccess {
    /// Whether a client at `address` may.
    pub fn allows(self, address: IpAddr) -> bool {
        match self {
            DebugAccess::No => false,
            // A client of this machine can come as an IPv4 address in IPv6.
            DebugAccess::Local => address.to_canonical().is_loopback(),
            DebugAccess::Yes => true,
        }
    }
}

/// How much is logged to stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Only what a person has to look at.
    Error,
    /// Also what may become that.
    Warn,
    /// Also starts, stops, snapshots, dropped clients.
    Info,
    /// Also each connection.
    Debug,
    /// Everything.
    Trace,
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// The settings of one server, complete and checked one by one (what contradicts what is in `check`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Address to listen on.
    pub bind: IpAddr,
    /// Port to listen on; 0 = any free one, printed in the ready line.
    pub port: u16,
    /// Data directory.
    pub dir: PathBuf,
    /// When the log is synced.
    pub appendfsync: FsyncPolicy,
    /// Number of databases, 1 to 256.
    pub databases: u16,
    /// Longest argument in bytes, 1kb to 256mb.
    pub proto_max_bulk_len: usize,
    /// Bytes that the data may take; 0 = no limit.
    pub maxmemory: u64,
    /// What is done when it takes them.
    pub maxmemory_policy: EvictionPolicy,
    /// Keys compared for each that is evicted, 1 to 64.
    pub maxmemory_samples: usize,
    /// Whether IDEM records may be evicted.
    pub idem_evictable: bool,
    /// Clients at one time, at least 1.
    pub maxclients: usize,
    /// An idle client is closed after this; zero = never.
    pub timeout: Duration,
    /// Bytes that may wait to be sent to one client.
    pub client_output_buffer_limit: usize,
    /// Bytes of one client's unfinished command.
    pub client_query_buffer_limit: usize,
    /// Bytes of all clients' buffers together.
    pub client_buffers_total: usize,
    /// Length of a new segment file, its header included.
    pub wal_segment_bytes: u64,
    /// Log kept behind the snapshot.
    pub wal_keep_bytes: u64,
    /// Log after which a snapshot starts.
    pub snapshot_wal_bytes: u64,
    /// How much is logged.
    pub log_level: LogLevel,
    /// The form of a log line.
    pub log_format: LogFormat,
    /// A command that took so many microseconds is in the slow log; none = no slow log.
    pub slowlog_usec: Option<u64>,
    /// Commands that the slow log keeps.
    pub slowlog_max_len: usize,
    /// What took so many milliseconds is a latency event; 0 = none is kept.
    pub latency_monitor_ms: u64,
    /// Refuse a log whose tail is junk that nothing vouches for (row E of `docs/recovery.md`).
    pub strict_recovery: bool,
    /// Refuse to listen beyond this machine.
    pub protected_mode: bool,
    /// Who may use DEBUG.
    pub enable_debug_command: DebugAccess,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            bind: IpAddr::from([127, 0, 0, 1]),
            port: 6379,
            dir: PathBuf::from("./idem-data"),
            appendfsync: FsyncPolicy::Always,
            databases: 16,
            proto_max_bulk_len: 16 << 20,
            maxmemory: 0,
            maxmemory_policy: EvictionPolicy::NoEviction,
            maxmemory_samples: 5,
            idem_evictable: false,
            maxclients: 10_000,
            timeout: Duration::ZERO,
            client_output_buffer_limit: 64 << 20,
            client_query_buffer_limit: 32 << 20,
            client_buffers_total: 1 << 30,
            wal_segment_bytes: 64 << 20,
            wal_keep_bytes: 1 << 30,
            snapshot_wal_bytes: 256 << 20,
            log_level: LogLevel::Info,
            log_format: LogFormat::Text,
            slowlog_usec: Some(10_000),
            slowlog_max_len: 128,
            latency_monitor_ms: 0,
            strict_recovery: false,
            protected_mode: true,
            enable_debug_command: DebugAccess::No,
        }
    }
}

impl Options {
    /// From when on something is slow, as the node takes it.
    pub fn thresholds(&self) -> Thresholds {
        Thresholds {
            slowlog_usec: self.slowlog_usec,
            slowlog_entries: self.slowlog_max_len,
            latency_ms: self.latency_monitor_ms,
        }
    }

    /// The four options of the memory limit, as the node takes them.
    pub fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit {
            bytes: self.maxmemory,
            policy: self.maxmemory_policy,
            samples: self.maxmemory_samples,
            idem_evictable: self.idem_evictable,
        }
    }
}
