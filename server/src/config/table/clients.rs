//! Rows: what clients may take.

use std::time::Duration;

use super::{Kind, OptionRow};
use crate::config::values::{set_number, set_size};

/// A bound for sums of buffer sizes, so that they never overflow.
const BUFFER_BYTES_MAX: u64 = 1 << 40;

pub(super) const PROTO_MAX_BULK_LEN: OptionRow = OptionRow {
    name: "proto-max-bulk-len",
    value: "SIZE",
    default: "16mb",
    help: "Longest argument of a command (1kb to 256mb); a result of IDEM stays within 4 MiB",
    kind: Kind::Size,
    at_run_time: true,
    set: |options, text| set_size(&mut options.proto_max_bulk_len, text, 1 << 10, 256 << 20),
    get: |options| options.proto_max_bulk_len.to_string(),
};

pub(super) const MAXCLIENTS: OptionRow = OptionRow {
    name: "maxclients",
    value: "COUNT",
    default: "10000",
    help: "Clients at one time; one more is told so and closed",
    kind: Kind::Number,
    at_run_time: true,
    set: |options, text| set_number(&mut options.maxclients, text, 1, 1_000_000),
    get: |options| options.maxclients.to_string(),
};

pub(super) const TIMEOUT: OptionRow = OptionRow {
    name: "timeout",
    value: "SECONDS",
    default: "0",
    help: "Close a client that was idle for so long; 0 = never. A command that stays unfinished for 60 s closes \
           its client in any case",
    kind: Kind::Number,
    at_run_time: true,
    set: |options, text| {
        let mut seconds = 0_u32;
        set_number(&mut seconds, text, 0, u32::MAX)?;
        options.timeout = Duration::from_secs(u64::from(seconds));
        Ok(())
    },
    get: |options| options.timeout.as_secs().to_string(),
};

pub(super) const CLIENT_OUTPUT_BUFFER_LIMIT: OptionRow = OptionRow {
    name: "client-output-buffer-limit",
    value: "SIZE",
    default: "64mb",
    help: "Replies that may wait for one client; a client with more is dropped",
    kind: Kind::Size,
    at_run_time: true,
    set: |options, text| {
        set_size(
            &mut options.client_output_buffer_limit,
            text,
            16 << 10,
            BUFFER_BYTES_MAX,
        )
    },
    get: |options| options.client_output_buffer_limit.to_string(),
};

pub(super) const CLIENT_QUERY_BUFFER_LIMIT: OptionRow = OptionRow {
    name: "client-query-buffer-limit",
    value: "SIZE",
    default: "32mb",
    help: "Bytes of a client's unfinished command; a client with more is dropped",
    kind: Kind::Size,
    at_run_time: true,
    set: |options, text| {
        set_size(
            &mut options.client_query_buffer_limit,
            text,
            16 << 10,
            BUFFER_BYTES_MAX,
        )
    },
    get: |options| options.client_query_buffer_limit.to_string(),
};

pub(super) const CLIENT_BUFFERS_TOTAL: OptionRow = OptionRow {
    name: "client-buffers-total",
    value: "SIZE",
    default: "1gb",
    help: "Buffers of all clients together; beyond it the client with the largest is dropped",
    kind: Kind::Size,
    at_run_time: true,
    set: |options, text| set_size(&mut options.client_buffers_total, text, 1 << 20, BUFFER_BYTES_MAX),
    get: |options| options.client_buffers_total.to_string(),
};
