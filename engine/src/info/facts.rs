//! The server's half of INFO, and what else commands ask of the server around the node.

use std::net::SocketAddr;

use idem_protocol::command::errors::Text;
use idem_protocol::{ClusterId, Lsn};

use crate::decide::shown;
use crate::deed::Deed;
use crate::session::Session;
use crate::settings::Changes;

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
    /// Calls `visit` with each connection in rising order of their ids, or with the one of the id `only`; those that are
    /// about to end are left out.
    fn clients(&self, only: Option<u64>, visit: &mut dyn FnMut(&ClientFacts<'_>)) {
        let _ = (only, visit);
    }
    /// What `CONFIG SET` with these names and values would change, when the options are as now and `earlier` has been
    /// carried out. Changes nothing.
    ///
    /// # Errors
    /// The text that the client gets: an unknown option, one that cannot be changed or was named twice, a value that is
    /// none, or options that contradict each other.
    fn check_settings(&self, earlier: &[Deed], pairs: &[(&[u8], &[u8])]) -> Result<Changes, Text> {
        let _ = earlier;
        let unknown = pairs
            .first()
            .map_or_else(Default::default, |(name, _)| shown(name));
        Err(format!("ERR Unknown option or number of arguments for CONFIG SET - '{unknown}'").into())
    }
    /// Writes what was changed since the start, `earlier` included, into the configuration file. Waits for the disk; doing
    /// it again changes nothing more.
    ///
    /// # Errors
    /// The text that the client gets: no file, or one that could not be written. The file is as it was then.
    fn rewrite_config(&self, earlier: &[Deed]) -> Result<(), Text> {
        let _ = earlier;
        Err("ERR The server is running without a config file".into())
    }
}

/// What the server knows of one connection, for `CLIENT LIST`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientFacts<'a> {
    /// Its number.
    pub id: u64,
    /// What it has said about itself; `None` of the one that is executing a command now.
    pub session: Option<&'a Session>,
    /// Where it comes from.
    pub address: Option<SocketAddr>,
    /// Where it came to.
    pub local: Option<SocketAddr>,
    /// Number of its socket in the process.
    pub descriptor: i32,
    /// Seconds since it was accepted.
    pub age_seconds: u64,
    /// Seconds since something came from it.
    pub idle_seconds: u64,
    /// Bytes received that belong to no executed command.
    pub query_bytes: usize,
    /// Memory for what is received, and for what its session keeps.
    pub input_bytes: usize,
    /// Bytes of replies that have not left.
    pub unsent_bytes: usize,
    /// Memory for replies.
    pub output_bytes: usize,
    /// A command waits for the log, or for the end of a pause.
    pub waits: bool,
    /// Replies may leave and its side takes none.
    pub writes: bool,
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
    /// Commands that wait for the log, or for the end of a pause.
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
