//! The server's half of INFO, and what else commands ask of the server around the node.

use idem_protocol::{ClusterId, Lsn};

/// What commands ask of the server around the node.
pub trait Facts {
    /// The numbers for INFO.
    fn info(&self) -> ServerFacts;
    /// When the last snapshot was published, or the start when there was none: Unix seconds.
    fn last_save(&self) -> u64;
    /// Whether a snapshot is being made.
    fn snapshot_running(&self) -> bool;
    /// The server's options with their values, as CONFIG GET shows them: names in lower case, each once.
    fn settings(&self) -> &[(&'static str, String)] {
        &[]
    }
}

/// The server's half of INFO. The default is a server that has just started and knows nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerFacts {
    /// 40 hex characters, new for each process.
    pub run_id: String,
    /// The process.
    pub process_id: u32,
    /// The port that clients connect to.
    pub tcp_port: u16,
    /// Seconds since the start.
    pub uptime_in_seconds: u64,
    /// Name and release of the operating system.
    pub os: String,
    /// Path of the binary.
    pub executable: String,
    /// Path of the configuration file, empty for none.
    pub config_file: String,

    /// Connections now.
    pub connected_clients: u64,
    /// Commands that wait for log space.
    pub blocked_clients: u64,
    /// Most connections allowed.
    pub maxclients: u64,
    /// Bytes in all connections' query and output buffers.
    pub client_buffers_bytes: u64,

    /// Resident bytes of the process.
    pub used_memory_rss: u64,
    /// The most bytes that ever were resident.
    pub used_memory_rss_peak: u64,
    /// Bytes of memory in the machine, 0 when unknown.
    pub total_system_memory: u64,

    /// True while state is being loaded.
    pub loading: bool,
    /// Milliseconds that the log's time was ahead of the wall clock at the start.
    pub clock_ahead_ms: u64,
    /// Records since the newest snapshot.
    pub changes_since_last_snapshot: u64,
    /// The last snapshot failed.
    pub last_snapshot_failed: bool,
    /// Seconds that the last snapshot took.
    pub last_snapshot_seconds: Option<u64>,
    /// Seconds that the running snapshot has taken.
    pub current_snapshot_seconds: Option<u64>,
    /// Snapshots since the start.
    pub snapshots: u64,
    /// The log cannot be written now: writes get `MISCONF`.
    pub log_stalled: bool,

    /// Connections since the start.
    pub total_connections_received: u64,
    /// Connections refused because of `maxclients`.
    pub rejected_connections: u64,
    /// Commands a second, over the last second or so.
    pub instantaneous_ops_per_sec: u64,
    /// Bytes received.
    pub total_net_input_bytes: u64,
    /// Bytes sent.
    pub total_net_output_bytes: u64,
    /// Kilobytes received a second, over the last second or so.
    pub instantaneous_input_kbps: f64,
    /// Kilobytes sent a second, over the last second or so.
    pub instantaneous_output_kbps: f64,
    /// Connections closed for a query over its limit.
    pub query_buffer_limit_disconnections: u64,
    /// Connections closed for replies over their limit.
    pub output_buffer_limit_disconnections: u64,

    /// The cluster's id, from which the replication id is made.
    pub cluster: ClusterId,
    /// Seconds of CPU in the kernel.
    pub used_cpu_sys: f64,
    /// Seconds of CPU outside of it.
    pub used_cpu_user: f64,

    /// Segments of the log, the newest included.
    pub wal_segments: u64,
    /// Bytes of the log's files.
    pub wal_bytes: u64,
    /// Successful syncs since the start.
    pub wal_syncs: u64,
    /// Records per group, on average.
    pub wal_group_size_avg: f64,
    /// Half of the syncs took at most so many microseconds.
    pub wal_sync_usec_p50: u64,
    /// 99 of 100 syncs took at most so many microseconds.
    pub wal_sync_usec_p99: u64,
    /// The longest sync in microseconds.
    pub wal_sync_usec_max: u64,
    /// The start of the newest snapshot, zero for none.
    pub wal_last_snapshot_lsn: Lsn,
}
