//! Rows: the log and its snapshots.

use super::{Kind, OptionRow};
use crate::config::values::{FSYNC_POLICIES, set_size, set_switch, set_word, spell_switch, spell_word};

pub(super) const APPENDFSYNC: OptionRow = OptionRow {
    name: "appendfsync",
    value: "POLICY",
    default: "always",
    help: "When the log is synced: always (before every reply), everysec (a power loss can take the \
           last second), no (the kernel decides)",
    kind: Kind::Text,
    at_run_time: true,
    set: |options, text| set_word(&mut options.appendfsync, text, FSYNC_POLICIES),
    get: |options| spell_word(FSYNC_POLICIES, options.appendfsync),
};

pub(super) const WAL_SEGMENT_BYTES: OptionRow = OptionRow {
    name: "wal-segment-bytes",
    value: "SIZE",
    default: "64mb",
    help: "Length of a new log segment, its header included (1mb to 4gb)",
    kind: Kind::Size,
    at_run_time: true,
    set: |options, text| set_size(&mut options.wal_segment_bytes, text, 1 << 20, 4 << 30),
    get: |options| options.wal_segment_bytes.to_string(),
};

pub(super) const WAL_KEEP_BYTES: OptionRow = OptionRow {
    name: "wal-keep-bytes",
    value: "SIZE",
    default: "1gb",
    help: "Log kept behind the snapshots, for reading back what happened",
    kind: Kind::Size,
    at_run_time: true,
    set: |options, text| set_size(&mut options.wal_keep_bytes, text, 0, 1 << 50),
    get: |options| options.wal_keep_bytes.to_string(),
};

pub(super) const SNAPSHOT_WAL_BYTES: OptionRow = OptionRow {
    name: "snapshot-wal-bytes",
    value: "SIZE",
    default: "256mb",
    help: "A snapshot starts when so much log has gathered since the last one",
    kind: Kind::Size,
    at_run_time: true,
    set: |options, text| set_size(&mut options.snapshot_wal_bytes, text, 4 << 10, 1 << 50),
    get: |options| options.snapshot_wal_bytes.to_string(),
};

pub(super) const STRICT_RECOVERY: OptionRow = OptionRow {
    name: "strict-recovery",
    value: "YES|NO",
    default: "no",
    help: "Refuse to start on a log whose end is junk that nothing vouches for (UNPROVEN_TAIL), instead of cutting \
           it off",
    kind: Kind::Switch,
    at_run_time: false,
    set: |options, text| set_switch(&mut options.strict_recovery, text),
    get: |options| spell_switch(options.strict_recovery),
};
