//! Rows: what the server tells about itself, and DEBUG.

use super::{Kind, OptionRow};
use crate::config::values::{DEBUG_ACCESSES, LOG_FORMATS, LOG_LEVELS, set_number, set_word, spell_word};

/// What Redis takes at most, a signed number.
const SLOW_MAX: u64 = i64::MAX as u64;

pub(super) const LOG_LEVEL: OptionRow = OptionRow {
    name: "log-level",
    value: "LEVEL",
    default: "info",
    help: "How much is logged: error, warn, info, debug, trace",
    kind: Kind::Text,
    at_run_time: true,
    set: |options, text| set_word(&mut options.log_level, text, LOG_LEVELS),
    get: |options| spell_word(LOG_LEVELS, options.log_level),
};

pub(super) const LOG_FORMAT: OptionRow = OptionRow {
    name: "log-format",
    value: "FORMAT",
    default: "text",
    help: "Form of a log line on stderr: text or json",
    kind: Kind::Text,
    at_run_time: false,
    set: |options, text| set_word(&mut options.log_format, text, LOG_FORMATS),
    get: |options| spell_word(LOG_FORMATS, options.log_format),
};

pub(super) const SLOWLOG_LOG_SLOWER_THAN: OptionRow = OptionRow {
    name: "slowlog-log-slower-than",
    value: "MICROSECONDS",
    default: "10000",
    help: "A command that took so long is kept for SLOWLOG GET; 0 keeps all, -1 none",
    kind: Kind::Number,
    at_run_time: true,
    set: |options, text| {
        if text == "-1" {
            options.slowlog_usec = None;
            return Ok(());
        }
        let mut usec = 0;
        set_number(&mut usec, text, 0, SLOW_MAX).map_err(|reason| format!("{reason}, nor -1"))?;
        options.slowlog_usec = Some(usec);
        Ok(())
    },
    get: |options| {
        options
            .slowlog_usec
            .map_or_else(|| "-1".to_owned(), |usec| usec.to_string())
    },
};

pub(super) const SLOWLOG_MAX_LEN: OptionRow = OptionRow {
    name: "slowlog-max-len",
    value: "COUNT",
    default: "128",
    help: "How many slow commands are kept (0 to 100000), some 5 kB each at the most",
    kind: Kind::Number,
    at_run_time: true,
    set: |options, text| set_number(&mut options.slowlog_max_len, text, 0, 100_000),
    get: |options| options.slowlog_max_len.to_string(),
};

pub(super) const LATENCY_MONITOR_THRESHOLD: OptionRow = OptionRow {
    name: "latency-monitor-threshold",
    value: "MILLISECONDS",
    default: "0",
    help: "A command or a sync that took so long is an event of LATENCY; 0 = none is kept",
    kind: Kind::Number,
    at_run_time: true,
    set: |options, text| set_number(&mut options.latency_monitor_ms, text, 0, SLOW_MAX),
    get: |options| options.latency_monitor_ms.to_string(),
};

pub(super) const ENABLE_DEBUG_COMMAND: OptionRow = OptionRow {
    name: "enable-debug-command",
    value: "NO|LOCAL|YES",
    default: "no",
    help: "Who may use DEBUG, which can stop the server for half a minute: no (nobody), local (clients on this \
           machine), yes (everybody)",
    kind: Kind::Text,
    at_run_time: false,
    set: |options, text| set_word(&mut options.enable_debug_command, text, DEBUG_ACCESSES),
    get: |options| spell_word(DEBUG_ACCESSES, options.enable_debug_command),
};
