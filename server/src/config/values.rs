//! Texts to values, and back: what the setters of the [table](super::table) are made of.
//!
//! Each setter leaves its target alone when the text is no value, and answers a sentence without the option's name.

use super::options::{DebugAccess, FsyncPolicy, LogFormat, LogLevel};
use super::size::{parse_size, spell_size};

/// The values of an option that is one of a few words, as they are typed.
pub(super) type Words<T> = &'static [(&'static str, T)];

pub(super) const FSYNC_POLICIES: Words<FsyncPolicy> = &[
    ("always", FsyncPolicy::Always),
    ("everysec", FsyncPolicy::Everysec),
    ("no", FsyncPolicy::No),
];

pub(super) const LOG_LEVELS: Words<LogLevel> = &[
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];

pub(super) const LOG_FORMATS: Words<LogFormat> = &[("text", LogFormat::Text), ("json", LogFormat::Json)];

pub(super) const DEBUG_ACCESSES: Words<DebugAccess> = &[
    ("no", DebugAccess::No),
    ("local", DebugAccess::Local),
    ("yes", DebugAccess::Yes),
];

pub(super) fn set_number<T>(target: &mut T, text: &str, least: T, most: T) -> Result<(), String>
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

pub(super) fn set_size<T: TryFrom<u64>>(
    target: &mut T,
    text: &str,
    least: u64,
    most: u64,
) -> Result<(), String> {
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

pub(super) fn set_word<T: Copy>(target: &mut T, text: &str, words: Words<T>) -> Result<(), String> {
    let found = words.iter().find(|(word, _)| *word == text);
    let (_, value) = found.ok_or_else(|| {
        let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        format!("`{text}` is none of {}", all.join(", "))
    })?;
    *target = *value;
    Ok(())
}

pub(super) fn spell_word<T: PartialEq>(words: Words<T>, value: T) -> String {
    words
        .iter()
        .find(|(_, known)| *known == value)
        .map_or_else(String::new, |(word, _)| (*word).to_owned())
}

pub(super) fn spell_switch(on: bool) -> String {
    if on { "yes" } else { "no" }.to_owned()
}

pub(super) fn set_switch(target: &mut bool, text: &str) -> Result<(), String> {
    *target = match text {
        "yes" => true,
        "no" => false,
        _ => return Err(format!("`{text}` is neither yes nor no")),
    };
    Ok(())
}
