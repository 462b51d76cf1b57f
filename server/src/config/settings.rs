//! What `CONFIG GET` shows: every option under its name, with its value as one would type it.
//!
//! Beside the options two names of Redis that are none here. Clients and monitors ask for them to learn whether data
//! survives a restart, and take an empty answer for a server that they do not know.

use super::options::Options;
use super::table::OPTIONS;

/// Names of Redis's options whose value is a fact about this server.
const FACTS: [(&str, &str); 2] = [
    // There is a log, always.
    ("appendonly", "yes"),
    // Snapshots are made by the size of the log, never by the number of changes in a time.
    ("save", ""),
];

/// The name and the value of such a fact.
pub fn fact(name: &str) -> Option<(&'static str, &'static str)> {
    FACTS.into_iter().find(|(known, _)| *known == name)
}

/// Names and values, by name.
pub fn settings(options: &Options) -> Vec<(&'static str, String)> {
    let mut all: Vec<(&'static str, String)> = OPTIONS
        .iter()
        .map(|row| (row.name, (row.get)(options)))
        .chain(FACTS.map(|(name, value)| (name, value.to_owned())))
        .collect();
    // Redis answers absolute paths: who asks for the directory wants to find it.
    if let Ok(dir) = std::path::absolute(&options.dir)
        && let Some((_, value)) = all.iter_mut().find(|(name, _)| *name == "dir")
    {
        *value = dir.display().to_string();
    }
    all.sort_unstable();
    all
}

#[cfg(test)]
mod tests {
    use super::settings;
    use crate::config::Options;

    #[test]
    fn names_come_once_in_order_and_sizes_in_bytes() {
        let all = settings(&Options::default());
        assert!(all.is_sorted_by(|a, b| a.0 < b.0), "{all:?}");
        let check = |name: &str, expected: &str| {
            let found = all.iter().find(|(known, _)| *known == name);
            assert_eq!(found.map(|(_, value)| value.as_str()), Some(expected), "{name}");
        };
        check("save", "");
        check("appendonly", "yes");
        check("appendfsync", "always");
        check("proto-max-bulk-len", "16777216");
        check("timeout", "0");
        check("protected-mode", "yes");
        check("enable-debug-command", "no");
        let dir = all.iter().find(|(name, _)| *name == "dir").unwrap();
        assert!(dir.1.starts_with('/') && dir.1.ends_with("/idem-data"), "{dir:?}");
    }
}
