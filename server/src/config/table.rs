//! Every option of `idemd`, once: a row of [`OPTIONS`] gives its name, default, help, how a text sets it and how it is shown.
//!
//! Flags, the configuration file, `--help`, completions and the man page are all made from these rows, so that they
//! cannot disagree. A name that `docs/operations.md` knows and this version has not is a row of [`ABSENT`]: it is
//! refused at start with a sentence, wherever it is given. An option that is accepted and ignored would be a promise
//! that nobody keeps.

use std::path::PathBuf;
use std::time::Duration;

use idem_engine::EvictionPolicy;

use super::options::{DebugAccess, FsyncPolicy, LogFormat, LogLevel, Options};
use super::size::{parse_size, spell_size};

/// One option: everything that is known about it.
pub struct OptionRow {
    /// Name on the command line (after `--`) and in the file.
    pub name: &'static str,
    /// What stands for the value in the help.
    pub value: &'static str,
    /// The default as one would type it; a test holds it equal to [`Options::default`].
    pub default: &'static str,
    /// One or two sentences.
    pub help: &'static str,
    /// A yes/no option: `--name` alone means yes.
    pub switch: bool,
    /// Sets it from text; the error is a sentence without the option's name.
    pub set: fn(&mut Options, &str) -> Result<(), String>,
    /// Its value as text that `set` takes; sizes in bytes, as Redis prints them.
    pub get: fn(&Options) -> String,
}

/// The values of an option that is one of a few words, as they are typed.
type Words<T> = &'static [(&'static str, T)];

const FSYNC_POLICIES: Words<FsyncPolicy> = &[
    ("always", FsyncPolicy::Always),
    ("everysec", FsyncPolicy::Everysec),
    ("no", FsyncPolicy::No),
];

const LOG_LEVELS: Words<LogLevel> = &[
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];

const LOG_FORMATS: Words<LogFormat> = &[("text", LogFormat::Text), ("json", LogFormat::Json)];

const DEBUG_ACCESSES: Words<DebugAccess> = &[
    ("no", DebugAccess::No),
    ("local", DebugAccess::Local),
    ("yes", DebugAccess::Yes),
];

/// All options of this version, in the order of the help.
pub const OPTIONS: &[OptionRow] = &[
    OptionRow {
        name: "bind",
        value: "ADDRESS",
        default: "127.0.0.1",
        help: "IP address to listen on. One that other machines can reach needs --protected-mode no, because this \
               version has neither users nor TLS",
        switch: false,
        set: |options, text| {
            options.bind = text
                .parse()
                .map_err(|_| format!("`{text}` is not an IP address"))?;
            Ok(())
        },
        get: |options| options.bind.to_string(),
    },
    OptionRow {
        name: "port",
        value: "PORT",
        default: "6379",
        help: "TCP port; 0 takes any free one, which the ready line names",
        switch: false,
        set: |options, text| set_number(&mut options.port, text, 0, u16::MAX),
        get: |options| options.port.to_string(),
    },
    OptionRow {
        name: "dir",
        value: "DIR",
        default: "./idem-data",
        help: "Data directory; created when it is missing, and locked while the server runs",
        switch: false,
        set: |options, text| {
            if text.is_empty() {
                return Err("an empty path names no directory".to_owned());
            }
            options.dir = PathBuf::from(text);
            Ok(())
        },
        get: |options| options.dir.display().to_string(),
    },
    OptionRow {
        name: "appendfsync",
        value: "POLICY",
        default: "always",
        help: "When the log is synced: always (before every reply), everysec (a power loss can take the \
               last second), no (the kernel decides)",
        switch: false,
        set: |options, text| set_word(&mut options.appendfsync, text, FSYNC_POLICIES),
        get: |options| spell_word(FSYNC_POLICIES, options.appendfsync),
    },
    OptionRow {
        name: "databases",
        value: "COUNT",
        default: "16",
        help: "Number of databases (1 to 256); a log that has records for more is refused",
        switch: false,
        set: |options, text| set_number(&mut options.databases, text, 1, 256),
        get: |options| options.databases.to_string(),
    },
    OptionRow {
        name: "proto-max-bulk-len",
        value: "SIZE",
        default: "16mb",
        help: "Longest argument of a command (1kb to 256mb); a result of IDEM stays within 4 MiB",
        switch: false,
        set: |options, text| set_size(&mut options.proto_max_bulk_len, text, 1 << 10, 256 << 20),
        get: |options| options.proto_max_bulk_len.to_string(),
    },
    OptionRow {
        name: "maxmemory",
        value: "SIZE",
        default: "0",
        help: "Most memory that the data may take; 0 = no limit. Clients' buffers do not count",
        switch: false,
        set: |options, text| set_size(&mut options.maxmemory, text, 0, 1 << 50),
        get: |options| options.maxmemory.to_string(),
    },
    OptionRow {
        name: "maxmemory-policy",
        value: "POLICY",
        default: "noeviction",
        help: "What is done at maxmemory: noeviction (what would write is refused), or keys are evicted: volatile-ttl, \
               allkeys-lru, volatile-lru, allkeys-random, volatile-random",
        switch: false,
        set: |options, text| set_word(&mut options.maxmemory_policy, text, &EvictionPolicy::ALL),
        get: |options| options.maxmemory_policy.name().to_owned(),
    },
    OptionRow {
        name: "maxmemory-samples",
        value: "COUNT",
        default: "5",
        help: "How many keys are compared for each that is evicted (1 to 64)",
        switch: false,
        set: |options, text| set_number(&mut options.maxmemory_samples, text, 1, 64),
        get: |options| options.maxmemory_samples.to_string(),
    },
    OptionRow {
        name: "idem-evictable",
        value: "YES|NO",
        default: "no",
        help: "Let IDEM records be evicted like other keys; an operation whose record went can be acquired again",
        switch: true,
        set: |options, text| set_switch(&mut options.idem_evictable, text),
        get: |options| spell_switch(options.idem_evictable),
    },
    OptionRow {
        name: "maxclients",
        value: "COUNT",
        default: "10000",
        help: "Clients at one time; one more is told so and closed",
        switch: false,
        set: |options, text| set_number(&mut options.maxclients, text, 1, 1_000_000),
        get: |options| options.maxclients.to_string(),
    },
    OptionRow {
        name: "timeout",
        value: "SECONDS",
        default: "0",
        help: "Close a client that was idle for so long; 0 = never. A command that stays unfinished for 60 s closes \
               its client in any case",
        switch: false,
        set: |options, text| {
            let mut seconds = 0_u32;
            set_number(&mut seconds, text, 0, u32::MAX)?;
            options.timeout = Duration::from_secs(u64::from(seconds));
            Ok(())
        },
        get: |options| options.timeout.as_secs().to_string(),
    },
    OptionRow {
        name: "client-output-buffer-limit",
        value: "SIZE",
        default: "64mb",
        help: "Replies that may wait for one client; a client with more is dropped",
        switch: false,
        set: |options, text| {
            set_size(
                &mut options.client_output_buffer_limit,
                text,
                16 << 10,
                BUFFER_BYTES_MAX,
            )
        },
        get: |options| options.client_output_buffer_limit.to_string(),
    },
    OptionRow {
        name: "client-query-buffer-limit",
        value: "SIZE",
        default: "32mb",
        help: "Bytes of a client's unfinished command; a client with more is dropped",
        switch: false,
        set: |options, text| {
            set_size(
                &mut options.client_query_buffer_limit,
                text,
                16 << 10,
                BUFFER_BYTES_MAX,
            )
        },
        get: |options| options.client_query_buffer_limit.to_string(),
    },
    OptionRow {
        name: "client-buffers-total",
        value: "SIZE",
        default: "1gb",
        help: "Buffers of all clients together; beyond it the client with the largest is dropped",
        switch: false,
        set: |options, text| set_size(&mut options.client_buffers_total, text, 1 << 20, BUFFER_BYTES_MAX),
        get: |options| options.client_buffers_total.to_string(),
    },
    OptionRow {
        name: "wal-segment-bytes",
        value: "SIZE",
        default: "64mb",
        help: "Length of a new log segment, its header included (1mb to 4gb)",
        switch: false,
        set: |options, text| set_size(&mut options.wal_segment_bytes, text, 1 << 20, 4 << 30),
        get: |options| options.wal_segment_bytes.to_string(),
    },
    OptionRow {
        name: "wal-keep-bytes",
        value: "SIZE",
        default: "1gb",
        help: "Log kept behind the snapshots, for reading back what happened",
        switch: false,
        set: |options, text| set_size(&mut options.wal_keep_bytes, text, 0, 1 << 50),
        get: |options| options.wal_keep_bytes.to_string(),
    },
    OptionRow {
        name: "snapshot-wal-bytes",
        value: "SIZE",
        default: "256mb",
        help: "A snapshot starts when so much log has gathered since the last one",
        switch: false,
        set: |options, text| set_size(&mut options.snapshot_wal_bytes, text, 4 << 10, 1 << 50),
        get: |options| options.snapshot_wal_bytes.to_string(),
    },
    OptionRow {
        name: "log-level",
        value: "LEVEL",
        default: "info",
        help: "How much is logged: error, warn, info, debug, trace",
        switch: false,
        set: |options, text| set_word(&mut options.log_level, text, LOG_LEVELS),
        get: |options| spell_word(LOG_LEVELS, options.log_level),
    },
    OptionRow {
        name: "log-format",
        value: "FORMAT",
        default: "text",
        help: "Form of a log line on stderr: text or json",
        switch: false,
        set: |options, text| set_word(&mut options.log_format, text, LOG_FORMATS),
        get: |options| spell_word(LOG_FORMATS, options.log_format),
    },
    OptionRow {
        name: "strict-recovery",
        value: "YES|NO",
        default: "no",
        help: "Refuse to start on a log whose end is junk that nothing vouches for (UNPROVEN_TAIL), instead of cutting \
               it off",
        switch: true,
        set: |options, text| set_switch(&mut options.strict_recovery, text),
        get: |options| spell_switch(options.strict_recovery),
    },
    OptionRow {
        name: "protected-mode",
        value: "YES|NO",
        default: "yes",
        help: "Refuse to listen on an address that other machines can reach",
        switch: true,
        set: |options, text| set_switch(&mut options.protected_mode, text),
        get: |options| spell_switch(options.protected_mode),
    },
    OptionRow {
        name: "enable-debug-command",
        value: "NO|LOCAL|YES",
        default: "no",
        help: "Who may use DEBUG, which can stop the server for half a minute: no (nobody), local (clients on this \
               machine), yes (everybody)",
        switch: false,
        set: |options, text| set_word(&mut options.enable_debug_command, text, DEBUG_ACCESSES),
        get: |options| spell_word(DEBUG_ACCESSES, options.enable_debug_command),
    },
];

/// Options of the operators' page that this version has not, each with what it would belong to.
pub const ABSENT: &[(&str, &str)] = &[
    ("replicaof", "replication"),
    ("force-replicaof", "replication"),
    ("sync-replicas", "replication"),
    ("sync-replicas-timeout-ms", "replication"),
    ("promotion-timeout-ms", "replication"),
    ("min-replicas-to-write", "replication"),
    ("min-replicas-max-lag", "replication"),
    ("replica-priority", "replication"),
    ("replica-announce-ip", "replication"),
    ("replica-announce-port", "replication"),
    ("replica-serve-stale-data", "replication"),
    ("replica-read-max-lag-ms", "replication"),
    ("primaryuser", "replication"),
    ("primaryauth", "replication"),
    ("wal-pin-bytes", "replication"),
    ("users-file", "users"),
    ("requirepass", "users"),
    ("aclfile", "users"),
    ("tls-port", "TLS"),
    ("tls-cert-file", "TLS"),
    ("tls-key-file", "TLS"),
    ("tls-ca-cert-file", "TLS"),
    ("tls-auth-clients", "TLS"),
    ("tls-replication", "TLS"),
    ("metrics-port", "a metrics port"),
];

/// A bound for sums of buffer sizes, so that they never overflow.
const BUFFER_BYTES_MAX: u64 = 1 << 40;

/// The row of the option called `name`.
pub fn option(name: &str) -> Option<&'static OptionRow> {
    OPTIONS.iter().find(|row| row.name == name)
}

/// What the option `name` would belong to, when this version has not got it.
pub fn absent(name: &str) -> Option<&'static str> {
    ABSENT
        .iter()
        .find(|(absent, _)| *absent == name)
        .map(|(_, feature)| *feature)
}

fn set_number<T>(target: &mut T, text: &str, least: T, most: T) -> Result<(), String>
where
    T: std::str::FromStr + PartialOrd + std::fmt::Display,
{
    // `parse` takes a leading plus; an operator who types one means something else.
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<T>() {
        Ok(number) if digits && number >= least && number <= most => {
            *target = number;
            Ok(())
        }
        _ => Err(format!("`{text}` is not a whole number from {least} to {most}")),
    }
}

fn set_size<T: TryFrom<u64>>(target: &mut T, text: &str, least: u64, most: u64) -> Result<(), String> {
    let bytes = parse_size(text)?;
    if bytes < least || bytes > most {
        return Err(format!(
            "`{text}` is not between {} and {}",
            spell_size(least),
            spell_size(most)
        ));
    }
    *target = T::try_from(bytes).map_err(|_| format!("`{text}` is too large for this machine"))?;
    Ok(())
}

fn set_word<T: Copy>(target: &mut T, text: &str, words: Words<T>) -> Result<(), String> {
    let found = words.iter().find(|(word, _)| *word == text);
    let (_, value) = found.ok_or_else(|| {
        let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        format!("`{text}` is none of {}", all.join(", "))
    })?;
    *target = *value;
    Ok(())
}

fn spell_word<T: PartialEq>(words: Words<T>, value: T) -> String {
    words
        .iter()
        .find(|(_, known)| *known == value)
        .map_or_else(String::new, |(word, _)| (*word).to_owned())
}

fn spell_switch(on: bool) -> String {
    if on { "yes" } else { "no" }.to_owned()
}

fn set_switch(target: &mut bool, text: &str) -> Result<(), String> {
    *target = match text {
        "yes" => true,
        "no" => false,
        _ => return Err(format!("`{text}` is neither yes nor no")),
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{ABSENT, OPTIONS, Options, option};

    #[test]
    fn every_row_spells_the_default() {
        for row in OPTIONS {
            let mut options = Options::default();
            (row.set)(&mut options, row.default).unwrap();
            assert_eq!(options, Options::default(), "{}", row.name);
        }
    }

    /// What CONFIG GET shows can be typed again and means the same.
    #[test]
    fn every_value_is_spelled_as_it_is_read() {
        for row in OPTIONS {
            let values = [
                row.default,
                "yes",
                "no",
                "local",
                "everysec",
                "debug",
                "json",
                "::1",
                "12mb",
                "7",
            ];
            for value in values {
                let mut options = Options::default();
                if (row.set)(&mut options, value).is_ok() {
                    let mut again = Options::default();
                    (row.set)(&mut again, &(row.get)(&options)).unwrap();
                    assert_eq!(again, options, "{}: {value}", row.name);
                }
            }
        }
    }

    #[test]
    fn a_name_is_there_or_absent_and_only_once() {
        let mut names: Vec<&str> = OPTIONS
            .iter()
            .map(|row| row.name)
            .chain(ABSENT.iter().map(|row| row.0))
            .collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(option("replicaof").is_none());
    }
}
