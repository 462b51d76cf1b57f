//! Changed options reach the parts that have a value of their own.
//!
//! | option | who takes it, and when |
//! |---|---|
//! | `maxmemory`, `-policy`, `-samples`, `idem-evictable` | the node, with the next command that writes |
//! | `appendfsync` | the node, for every reply that has not left yet, and the wal thread, from the next group on |
//! | `proto-max-bulk-len`, `client-query-buffer-limit` | the node at once, each connection with its next command |
//! | `client-output-buffer-limit` | each connection looks at once |
//! | `client-buffers-total` | the peers: at once, the largest go |
//! | `maxclients` | the places: who is there stays |
//! | `timeout` | looked up by the sweep, once a second |
//! | `wal-segment-bytes` | the batch and the spares that are made from now on; those that are ready are used up |
//! | `wal-keep-bytes` | housekeeping, which removes at once what is no longer to be kept |
//! | `snapshot-wal-bytes` | the snapshots, with the next event |
//! | `log-level` | the logger |
//! | `slowlog-log-slower-than`, `slowlog-max-len`, `latency-monitor-threshold` | the node; a shorter slow log drops its oldest |
//!
//! Nothing of it can fail: what could has been refused by [`Configuration::check`](crate::config::Configuration::check).

use std::time::Instant;

use idem_engine::{Changes, EvictionPolicy, Node};
use idem_wal::housekeeping::Chore;

use super::Core;
use crate::config::{Options, warnings};
use crate::descriptors::clients_allowed;
use crate::logging::ClientLine;
use crate::places::{Bounds, Places, descriptors_allowed};

impl Core {
    /// Carries out a CONFIG SET. The core loop has to look afterwards at what is due.
    pub fn configure(&mut self, changes: &Changes, places: &Places) {
        let (now, old) = (Instant::now(), self.config.apply(changes));
        let new = self.config.options().clone();
        for (name, value) in changes.iter() {
            self.client_log.write(ClientLine::Configured, now, || {
                tracing::info!("CONFIG SET {name} {value}");
            });
        }
        let warned = warnings(&old);
        for warning in warnings(&new)
            .into_iter()
            .filter(|warning| !warned.contains(warning))
        {
            self.client_log
                .write(ClientLine::Configured, now, || tracing::warn!("{warning}"));
        }
        if new.memory_limit() != old.memory_limit() {
            limit_memory(&mut self.node, &new);
        }
        self.node.set_bulk_bytes_max(new.proto_max_bulk_len);
        self.node.limit_transactions(new.client_query_buffer_limit);
        if new.appendfsync != old.appendfsync {
            self.node.set_policy(new.appendfsync.into());
            self.commit.set_policy(new.appendfsync, now);
            // A weaker promise is kept already.
            self.peers.barrier_moved(self.node.barrier(self.clock.now()));
        }
        if new.maxclients != old.maxclients {
            clients_allowed(new.maxclients);
            places.set_bounds(Bounds::within(descriptors_allowed(), new.maxclients));
        }
        if new.client_buffers_total != old.client_buffers_total {
            self.peers.set_buffers_limit(new.client_buffers_total);
        }
        if new.wal_segment_bytes != old.wal_segment_bytes {
            self.log.batch.set_segment_bytes(new.wal_segment_bytes);
            self.log.space.forget_failures();
        }
        if new.wal_keep_bytes != old.wal_keep_bytes {
            self.housekeeping.send(Chore::Keep {
                bytes: new.wal_keep_bytes,
            });
            self.housekeeping.send(Chore::Retain {
                end: self.node.synced(),
            });
        }
        if new.thresholds() != old.thresholds() {
            self.node.monitor(new.thresholds());
        }
        self.snapshots.set_every_bytes(new.snapshot_wal_bytes);
        self.levels.set(new.log_level);
        if takes_from_clients(&new) != takes_from_clients(&old) {
            self.peers.wake_all();
        }
    }

    /// Carries out a CONFIG RESETSTAT.
    pub fn reset_statistics(&mut self) {
        self.node.reset_counters();
        self.process.reset_totals();
    }
}

/// What connections keep a copy of.
fn takes_from_clients(options: &Options) -> [usize; 3] {
    [
        options.proto_max_bulk_len,
        options.client_query_buffer_limit,
        options.client_output_buffer_limit,
    ]
}

/// Gives the node its memory limit. More data than that is no error: a start that refused it, and a limit that could not be
/// lowered, would both be worse.
pub(crate) fn limit_memory(node: &mut Node, options: &Options) {
    let (used, limit) = (node.used_bytes(), options.maxmemory);
    if limit != 0 && used > limit {
        tracing::warn!(
            "there are {used} bytes of data, and maxmemory is {limit}: with {}, the next writes {}",
            options.maxmemory_policy.name(),
            if options.maxmemory_policy == EvictionPolicy::NoEviction {
                "are refused until something ended or was deleted"
            } else {
                "evict what is too much"
            }
        );
    }
    node.limit_memory(options.memory_limit());
}
