//! Every option of `idemd`, once: a row gives its name, default, help, how a text sets it and how it is shown.
//!
//! Flags, the configuration file, CONFIG, `--help`, completions and the man page are all made from these rows, so that they
//! cannot disagree. The rows are in files by what they are about; [`OPTIONS`] has them in the order of the help. Names that
//! this version knows and has not are in [`absent`](super::absent).

mod clients;
mod log;
mod memory;
mod place;
mod watching;

use super::options::Options;

/// What kind of value an option has: how it is written in the configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A string: a name, an address, one of a few words.
    Text,
    /// A whole number.
    Number,
    /// Bytes, with a unit where that is shorter: a string.
    Size,
    /// Yes or no. On the command line `--name` alone means yes, in the file it is `true` or `false`.
    Switch,
}

/// One option: everything that is known about it.
pub struct OptionRow {
    /// Name on the command line (after `--`), in the file and for CONFIG.
    pub name: &'static str,
    /// What stands for the value in the help.
    pub value: &'static str,
    /// The default as one would type it; a test holds it equal to [`Options::default`].
    pub default: &'static str,
    /// One or two sentences.
    pub help: &'static str,
    /// What its values are.
    pub kind: Kind,
    /// CONFIG SET may change it. The others are looked at once, at the start, or what they say cannot be undone.
    pub at_run_time: bool,
    /// Sets it from text; the error is a sentence without the option's name.
    pub set: fn(&mut Options, &str) -> Result<(), String>,
    /// Its value as text that `set` takes; sizes in bytes, as Redis prints them.
    pub get: fn(&Options) -> String,
}

/// All options of this version, in the order of the help.
pub const OPTIONS: &[OptionRow] = &[
    place::BIND,
    place::PORT,
    place::DIR,
    log::APPENDFSYNC,
    place::DATABASES,
    clients::PROTO_MAX_BULK_LEN,
    memory::MAXMEMORY,
    memory::MAXMEMORY_POLICY,
    memory::MAXMEMORY_SAMPLES,
    memory::IDEM_EVICTABLE,
    clients::MAXCLIENTS,
    clients::TIMEOUT,
    clients::CLIENT_OUTPUT_BUFFER_LIMIT,
    clients::CLIENT_QUERY_BUFFER_LIMIT,
    clients::CLIENT_BUFFERS_TOTAL,
    log::WAL_SEGMENT_BYTES,
    log::WAL_KEEP_BYTES,
    log::SNAPSHOT_WAL_BYTES,
    watching::LOG_LEVEL,
    watching::LOG_FORMAT,
    watching::SLOWLOG_LOG_SLOWER_THAN,
    watching::SLOWLOG_MAX_LEN,
    watching::LATENCY_MONITOR_THRESHOLD,
    log::STRICT_RECOVERY,
    place::PROTECTED_MODE,
    watching::ENABLE_DEBUG_COMMAND,
];

/// The row of the option called `name`.
pub fn option(name: &str) -> Option<&'static OptionRow> {
    OPTIONS.iter().find(|row| row.name == name)
}

#[cfg(test)]
mod tests {
    use super::{OPTIONS, Options, option};
    use crate::config::absent::ABSENT;

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
