//! The sections: each a function that writes its lines, in Redis's order.

use idem_protocol::Lsn;

use super::{Page, REDIS_VERSION, SERVER_NAME, ServerFacts};
use crate::decide::View;

pub(super) fn server(page: &mut Page, facts: &ServerFacts, view: &View<'_>) {
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

pub(super) fn clients(page: &mut Page, facts: &ServerFacts, view: &View<'_>) {
    page.line("connected_clients", facts.connected_clients);
    page.line("cluster_connections", 0);
    page.line("maxclients", facts.maxclients);
    page.line("client_buffers_bytes", facts.client_buffers_bytes);
    page.line("blocked_clients", facts.blocked_clients);
    page.line("pubsub_clients", view.pubsub().listener_count());
}

pub(super) fn memory(page: &mut Page, facts: &ServerFacts, view: &View<'_>) {
    page.bytes("used_memory", view.used_bytes());
    page.bytes("used_memory_rss", facts.used_memory_rss);
    page.bytes("used_memory_rss_peak", facts.used_memory_rss_peak);
    page.bytes("used_memory_peak", view.peak_bytes());
    page.line("used_memory_dataset", view.statistics().memory_bytes());
    page.bytes("total_system_memory", facts.total_system_memory);
    let limit = view.memory_limit();
    page.bytes("maxmemory", limit.bytes);
    page.line("maxmemory_policy", limit.policy.name());
    // What stands empty between entries until others need it, or they move together.
    let keyspace = view.statistics();
    page.line(
        "allocator_frag_bytes",
        keyspace.held_bytes().saturating_sub(keyspace.memory_bytes()),
    );
    page.line("mem_not_counted_for_evict", view.uncounted_bytes());
    page.line("idem_evictable", u8::from(limit.idem_evictable));
}

pub(super) fn persistence(page: &mut Page, facts: &ServerFacts, view: &View<'_>) {
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

pub(super) fn stats(page: &mut Page, facts: &ServerFacts, view: &View<'_>) {
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
    page.line("pubsub_channels", view.pubsub().channel_count());
    page.line("pubsub_patterns", view.pubsub().pattern_count());
    page.line("total_error_replies", view.counters().errors.total());
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

/// `master_repl_offset`, which `ROLE` answers as well.
pub(crate) fn replication_offset(view: &View<'_>) -> u64 {
    offset(view.epoch().number, view.barrier().marks().appended())
}

pub(super) fn replication(page: &mut Page, facts: &ServerFacts, view: &View<'_>) {
    page.line("role", "master");
    page.line("connected_slaves", 0);
    page.line("fenced", 0);
    page.line("master_failover_state", "no-failover");
    // Forty characters, as every reader expects: the cluster's id names the history, the rest is filled up.
    page.line("master_replid", format_args!("{}00000000", facts.cluster));
    page.line("master_replid2", format_args!("{:040}", 0));
    page.line("master_repl_offset", replication_offset(view));
    page.line("second_repl_offset", -1);
    page.line("repl_backlog_active", 0);
}

pub(super) fn cpu(page: &mut Page, facts: &ServerFacts, _view: &View<'_>) {
    page.line("used_cpu_sys", format_args!("{:.6}", facts.used_cpu_sys));
    page.line("used_cpu_user", format_args!("{:.6}", facts.used_cpu_user));
}

/// Errors by their codes, those that there were; their sum is `total_error_replies`.
pub(super) fn errorstats(page: &mut Page, _facts: &ServerFacts, view: &View<'_>) {
    for (code, count) in view.counters().errors.iter() {
        page.line(format_args!("errorstat_{code}"), format_args!("count={count}"));
    }
}

pub(super) fn cluster(page: &mut Page, _facts: &ServerFacts, _view: &View<'_>) {
    page.line("cluster_enabled", 0);
}

pub(super) fn keyspace(page: &mut Page, _facts: &ServerFacts, view: &View<'_>) {
    let keyspace = view.statistics();
    for db in (0..=u8::MAX).filter(|db| keyspace.len(*db) > 0) {
        let (keys, expires) = (keyspace.len(db), keyspace.expires(db));
        page.line(
            format_args!("db{db}"),
            format_args!("keys={keys},expires={expires},avg_ttl=0"),
        );
    }
}

pub(super) fn idempotency(page: &mut Page, _facts: &ServerFacts, view: &View<'_>) {
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

pub(super) fn wal(page: &mut Page, facts: &ServerFacts, view: &View<'_>) {
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
