//! INFO: Redis's sections and names wherever the meaning is the same, then `Idempotency` and `Wal`.
//!
//! The engine knows half of the numbers, the server the other half; it hands them in as [`ServerFacts`]. Lines end in
//! CRLF; sections come in Redis's order, because tools (Sentinel first of all) read them line by line.
//!
//! Left out: fields whose subject does not exist here (scripts, `rdb_last_cow_size`, tracking …). A number that means
//! nothing is worse than none.

use std::fmt::{Display, Write as _};

use idem_protocol::{ClusterId, Lsn};

use crate::decide::View;

/// What `HELLO` and INFO call this server.
pub const SERVER_NAME: &str = "idemd";

/// The version of Redis that commands behave like: clients parse it to find out what they may use.
pub const REDIS_VERSION: &str = "7.2.0";

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
    pub used_memory_peak: u64,
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

type Section = (&'static str, fn(&mut Page, &ServerFacts, &View<'_>));

const SECTIONS: [Section; 11] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("CPU", cpu),
    ("Cluster", cluster),
    ("Keyspace", keyspace),
    ("Idempotency", idempotency),
    ("Wal", wal),
];

/// The text of INFO with these arguments: section names in any case, `default`, `all` and `everything`; nothing for a
/// name that is no section. Without arguments all sections.
pub(crate) fn render<'a>(wanted: impl ExactSizeIterator<Item = &'a [u8]>, view: &View<'_>) -> String {
    let mut every = wanted.len() == 0;
    let mut chosen = [false; SECTIONS.len()];
    for name in wanted {
        every |= ["default", "all", "everything"]
            .iter()
            .any(|word| name.eq_ignore_ascii_case(word.as_bytes()));
        for (chosen, (section, _)) in chosen.iter_mut().zip(&SECTIONS) {
            *chosen |= name.eq_ignore_ascii_case(section.as_bytes());
        }
    }
    let facts = view.facts().info();
    let mut page = Page {
        text: String::with_capacity(4096),
    };
    for (chosen, (section, fill)) in chosen.into_iter().zip(&SECTIONS) {
        if every || chosen {
            page.begin(section);
            fill(&mut page, &facts, view);
        }
    }
    page.text
}

struct Page {
    text: String,
}

impl Page {
    fn begin(&mut self, section: &str) {
        let gap = if self.text.is_empty() { "" } else { "\r\n" };
        write!(self.text, "{gap}# {section}\r\n").expect("a string takes every write");
    }

    fn line(&mut self, name: impl Display, value: impl Display) {
        write!(self.text, "{name}:{value}\r\n").expect("a string takes every write");
    }

    /// A number of bytes, and the same for people.
    fn bytes(&mut self, name: &str, bytes: u64) {
        self.line(name, bytes);
        self.line(format_args!("{name}_human"), human(bytes));
    }
}

/// `512B`, `1.50K`, `2.00M`, `3.25G`, as Redis prints sizes.
fn human(bytes: u64) -> String {
    let units = [(1_u64 << 40, 'T'), (1 << 30, 'G'), (1 << 20, 'M'), (1 << 10, 'K')];
    match units.into_iter().find(|(size, _)| bytes >= *size) {
        // In integers: hundredths, rounded down, so that no size reads as larger than it is.
        Some((size, unit)) => {
            let hundredths = u128::from(bytes) * 100 / u128::from(size);
            format!("{}.{:02}{unit}", hundredths / 100, hundredths % 100)
        }
        None => format!("{bytes}B"),
    }
}

fn server(page: &mut Page, facts: &ServerFacts, view: &View<'_>) {
    page.line("redis_version", REDIS_VERSION);
    page.line("server_name", SERVER_NAME);
    page.line("idemd_version", env!("CARGO_PKG_VERSION"));
    page.line("redis_mode", "standalone");
    page.line("os", &facts.os);
    page.line("arch_bits", usize::BITS);
    page.line("process_id", facts.process_id);
    page.line("run_id", &facts.run_id);
    page.line("tcp_port", facts.tcp_port);
    page.line("server_time_usec", u128::from(view.now().get()) * 1000);
    page.line("uptime_in_seconds", facts.uptime_in_seconds);
    page.line("uptime_in_days", facts.uptime_in_seconds / 86_400);
    page.line("executable", &facts.executable);
    page.line("config_file", &facts.config_file);
}

fn clients(page: &mut Page, facts: &ServerFacts, _view: &View<'_>) {
    page.line("connected_clients", facts.connected_clients);
    page.line("cluster_connections", 0);
    page.line("maxclients", facts.maxclients);
    page.line("client_buffers_bytes", facts.client_buffers_bytes);
    page.line("blocked_clients", facts.blocked_clients);
}

fn memory(page: &mut Page, facts: &ServerFacts, view: &View<'_>) {
    page.bytes("used_memory", view.used_bytes());
    page.bytes("used_memory_rss", facts.used_memory_rss);
    page.bytes("used_memory_peak", facts.used_memory_peak);
    page.line("used_memory_dataset", view.statistics().memory_bytes());
    page.bytes("total_system_memory", facts.total_system_memory);
    let limit = view.memory_limit();
    page.bytes("maxmemory", limit.bytes);
    page.line("maxmemory_policy", limit.policy.name());
    page.line("mem_not_counted_for_evict", view.uncounted_bytes());
    page.line("idem_evictable", u8::from(limit.idem_evictable));
}

fn persistence(page: &mut Page, facts: &ServerFacts, view: &View<'_>) {
    let status = |failed| if failed { "err" } else { "ok" };
    let seconds =
        |seconds: Option<u64>| seconds.map_or_else(|| "-1".to_owned(), |seconds| seconds.to_string());
    page.line("loading", u8::from(facts.loading));
    page.line("async_loading", 0);
    page.line("clock_ahead_ms", facts.clock_ahead_ms);
    page.line("rdb_changes_since_last_save", facts.changes_since_last_snapshot);
    page.line(
        "rdb_bgsave_in_progress",
        u8::from(view.facts().snapshot_running()),
    );
    page.line("rdb_last_save_time", view.facts().last_save());
    page.line("rdb_last_bgsave_status", status(facts.last_snapshot_failed));
    page.line("rdb_last_bgsave_time_sec", seconds(facts.last_snapshot_seconds));
    page.line(
        "rdb_current_bgsave_time_sec",
        seconds(facts.current_snapshot_seconds),
    );
    page.line("rdb_saves", facts.snapshots);
    page.line("aof_enabled", 1);
    page.line("aof_rewrite_in_progress", 0);
    page.line("aof_last_write_status", status(facts.log_stalled));
}

fn stats(page: &mut Page, facts: &ServerFacts, view: &View<'_>) {
    page.line("total_connections_received", facts.total_connections_received);
    page.line("total_commands_processed", view.counters().commands);
    page.line("instantaneous_ops_per_sec", facts.instantaneous_ops_per_sec);
    page.line("total_net_input_bytes", facts.total_net_input_bytes);
    page.line("total_net_output_bytes", facts.total_net_output_bytes);
    page.line(
        "instantaneous_input_kbps",
        format_args!("{:.2}", facts.instantaneous_input_kbps),
    );
    page.line(
        "instantaneous_output_kbps",
        format_args!("{:.2}", facts.instantaneous_output_kbps),
    );
    page.line("rejected_connections", facts.rejected_connections);
    page.line("sync_full", 0);
    page.line("sync_partial_ok", 0);
    page.line("sync_partial_err", 0);
    page.line("expired_keys", view.counters().expired_keys);
    page.line("evicted_keys", view.counters().evicted_keys);
    page.line("total_error_replies", view.counters().error_replies);
    page.line(
        "client_query_buffer_limit_disconnections",
        facts.query_buffer_limit_disconnections,
    );
    page.line(
        "client_output_buffer_limit_disconnections",
        facts.output_buffer_limit_disconnections,
    );
}

/// A later epoch compares higher, whatever the positions: failover tools choose by this number.
fn offset(epoch: u64, lsn: Lsn) -> u64 {
    (epoch.min(32_767) << 48) + lsn.get().min((1 << 48) - 1)
}

fn replication(page: &mut Page, facts: &ServerFacts, view: &View<'_>) {
    page.line("role", "master");
    page.line("connected_slaves", 0);
    page.line("fenced", 0);
    page.line("master_failover_state", "no-failover");
    // Forty characters, as every reader expects: the cluster's id names the history, the rest is filled up.
    page.line("master_replid", format_args!("{}00000000", facts.cluster));
    page.line("master_replid2", format_args!("{:040}", 0));
    page.line(
        "master_repl_offset",
        offset(view.epoch().number, view.barrier().marks().appended()),
    );
    page.line("second_repl_offset", -1);
    page.line("repl_backlog_active", 0);
}

fn cpu(page: &mut Page, facts: &ServerFacts, _view: &View<'_>) {
    page.line("used_cpu_sys", format_args!("{:.6}", facts.used_cpu_sys));
    page.line("used_cpu_user", format_args!("{:.6}", facts.used_cpu_user));
}

fn cluster(page: &mut Page, _facts: &ServerFacts, _view: &View<'_>) {
    page.line("cluster_enabled", 0);
}

fn keyspace(page: &mut Page, _facts: &ServerFacts, view: &View<'_>) {
    let keyspace = view.statistics();
    for db in (0..=u8::MAX).filter(|db| keyspace.len(*db) > 0) {
        let (keys, expires) = (keyspace.len(db), keyspace.expires(db));
        page.line(
            format_args!("db{db}"),
            format_args!("keys={keys},expires={expires},avg_ttl=0"),
        );
    }
}

fn idempotency(page: &mut Page, _facts: &ServerFacts, view: &View<'_>) {
    let counters = view.counters();
    page.line("idem_acquired", counters.idem_acquired);
    page.line("idem_pending", counters.idem_pending);
    page.line("idem_conflict", counters.idem_conflict);
    page.line("idem_replayed", counters.idem_replayed);
    page.line("idem_completed", counters.idem_completed);
    page.line("idem_aborted", counters.idem_aborted);
    page.line("idem_refused_complete", counters.idem_refused_complete);
    page.line("idem_records", view.statistics().idem_records());
}

fn wal(page: &mut Page, facts: &ServerFacts, view: &View<'_>) {
    let marks = view.barrier().marks();
    page.line("wal_lsn", marks.appended());
    page.line("wal_written_lsn", marks.written());
    page.line("wal_synced_lsn", marks.synced());
    page.line("wal_epoch", view.epoch().number);
    page.line("wal_time_ms", view.barrier().log_time());
    page.line("wal_segments", facts.wal_segments);
    page.line("wal_bytes", facts.wal_bytes);
    page.line("wal_syncs", facts.wal_syncs);
    page.line(
        "wal_group_size_avg",
        format_args!("{:.2}", facts.wal_group_size_avg),
    );
    page.line("wal_sync_usec_p50", facts.wal_sync_usec_p50);
    page.line("wal_sync_usec_p99", facts.wal_sync_usec_p99);
    page.line("wal_sync_usec_max", facts.wal_sync_usec_max);
    page.line("wal_last_snapshot_lsn", facts.wal_last_snapshot_lsn);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_for_people() {
        for (bytes, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.00K"),
            (1536, "1.50K"),
            (1 << 20, "1.00M"),
            (u64::MAX, "16777215.99T"),
        ] {
            assert_eq!(human(bytes), text);
        }
    }

    #[test]
    fn a_later_epoch_has_the_higher_offset() {
        assert_eq!(offset(1, Lsn::new(64)), (1 << 48) + 64);
        assert!(offset(2, Lsn::ZERO) > offset(1, Lsn::MAX));
        assert_eq!(offset(u64::MAX, Lsn::MAX), (32_767 << 48) + (1 << 48) - 1);
        assert!(
            i64::try_from(offset(u64::MAX, Lsn::MAX)).is_ok(),
            "readers take it as a signed number"
        );
    }
}
