//! The values of options that are one of a few words, for shells that complete them and for the help.
//!
//! Only offered, never judged by: what is accepted, and what is said about the rest, is with the option's row. A test holds
//! the two together.

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};

use super::table::{Kind, OptionRow};

/// The words that the option takes; none for one that takes anything else.
pub fn words(row: &OptionRow) -> &'static [&'static str] {
    match row.name {
        "appendfsync" => &["always", "everysec", "no"],
        "maxmemory-policy" => &[
            "noeviction",
            "volatile-ttl",
            "allkeys-lru",
            "volatile-lru",
            "allkeys-random",
            "volatile-random",
        ],
        "log-level" => &["error", "warn", "info", "debug", "trace"],
        "log-format" => &["text", "json"],
        "enable-debug-command" => &["no", "local", "yes"],
        _ if row.kind == Kind::Switch => &["yes", "no"],
        _ => &[],
    }
}

/// Takes any text, and tells a shell which ones make sense.
#[derive(Clone, Debug)]
pub(super) struct Offering(pub(super) &'static [&'static str]);

impl TypedValueParser for Offering {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        if self.0.is_empty() {
            return None;
        }
        Some(Box::new(self.0.iter().map(|word| PossibleValue::new(*word))))
    }
}

#[cfg(test)]
mod tests {
    use super::words;
    use crate::config::Options;
    use crate::config::table::OPTIONS;

    #[test]
    fn what_is_offered_is_what_is_taken() {
        for row in OPTIONS {
            let mut options = Options::default();
            // A path may be called that.
            let refused = (row.set)(&mut options, "neither").err().unwrap_or_default();
            let offered = words(row);
            let expected = match refused.split_once(" is none of ") {
                Some((_, all)) => all.split(", ").collect(),
                None if refused.contains("neither yes nor no") => vec!["yes", "no"],
                None => Vec::new(),
            };
            assert_eq!(offered, expected, "{}", row.name);
            for word in offered {
                (row.set)(&mut options, word).unwrap();
            }
        }
    }
}
