//! The configuration file: TOML, `option = value` lines with the names of the command line.
//!
//! Values may be strings, whole numbers, or true and false for yes and no; each goes through the very setter that the
//! flag goes through. Tables have no meaning and are refused: a setting under a forgotten `[section]` would otherwise
//! be one that silently is not set.
//!
//! It is read again by a server that runs (`CONFIG REWRITE`), while everybody waits. So only a regular file is read, and a
//! bounded one: a pipe could be waited for forever, a device never ends.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use toml_edit::{Document, Item, Value};

use super::ConfigError;
use super::absent::absent;
use super::options::Options;
use super::table::option;

/// What a configuration file may have, in bytes: all options are a hundredth of it.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads `path` and sets in `options` what it says.
///
/// # Errors
/// The file cannot be read, is no TOML, or holds an unknown, absent, doubled or invalid option; the message names file,
/// line and option.
pub fn load_file(path: &Path, options: &mut Options) -> Result<(), ConfigError> {
    let text =
        read(path).map_err(|error| ConfigError::new(format!("--config: {}: {error}", path.display())))?;
    apply_text(&path.display().to_string(), &text, options)
}

/// The text of the file at `path`, or of the one that a link there leads to.
///
/// # Errors
/// It cannot be read, is no regular file, is longer than [`FILE_BYTES_MAX`], or no UTF-8.
pub(super) fn read(path: &Path) -> io::Result<String> {
    // Without NONBLOCK opening a pipe waits for somebody to write to it.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::io::retry_on_intr(|| open(path, flags, Mode::empty()))?);
    if !file.metadata()?.is_file() {
        return Err(irregular());
    }
    let mut text = String::new();
    // One byte more, because the length may be another one than it was a moment ago, and files of /proc say that it is zero.
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > FILE_BYTES_MAX {
        return Err(io::Error::other(format!(
            "has more than {FILE_BYTES_MAX} bytes, which is no configuration"
        )));
    }
    Ok(text)
}

/// The error about what is no regular file.
pub(super) fn irregular() -> io::Error {
    io::Error::other("is not a regular file")
}

/// [`load_file`] on the text of a file called `name`.
///
/// # Errors
/// As [`load_file`], without the reading.
pub fn apply_text(name: &str, text: &str, options: &mut Options) -> Result<(), ConfigError> {
    let document = Document::parse(text)
        .map_err(|error| ConfigError::new(format!("{name}: not TOML: {}", error.to_string().trim_end())))?;
    for (key, item) in document.as_table().iter() {
        let line = document
            .as_table()
            .key(key)
            .and_then(toml_edit::Key::span)
            .map_or(1, |span| line_of(text, span.start));
        let here = |what: String| ConfigError::new(format!("{name}:{line}: {key}: {what}"));
        if let Some(feature) = absent(key) {
            return Err(here(format!(
                "this version does not have {feature}; remove the option"
            )));
        }
        let row = option(key).ok_or_else(|| here("unknown option".to_owned()))?;
        let value = value_text(item)
            .ok_or_else(|| here("the value has to be a string, a whole number, true or false".to_owned()))?;
        (row.set)(options, &value).map_err(here)?;
    }
    Ok(())
}

/// The text that would follow the flag for this value.
fn value_text(item: &Item) -> Option<String> {
    match item.as_value()? {
        Value::String(text) => Some(text.value().clone()),
        Value::Integer(number) => Some(number.value().to_string()),
        Value::Boolean(yes) => Some(if *yes.value() { "yes" } else { "no" }.to_owned()),
        Value::Float(_) | Value::Datetime(_) | Value::Array(_) | Value::InlineTable(_) => None,
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()
        .iter()
        .take(offset)
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::{FILE_BYTES_MAX, load_file};
    use crate::config::Options;

    /// Neither waits for a pipe, nor for the end of what has none.
    #[test]
    fn only_a_regular_file_of_bounded_length_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let check = |path: &Path, expected: &str| {
            let reason = load_file(path, &mut Options::default()).map_err(|error| error.to_string());
            let expected = match expected {
                "" => Ok(()),
                _ => Err(format!("--config: {}: {expected}", path.display())),
            };
            assert_eq!(reason, expected);
        };
        mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        symlink("pipe", at("to-pipe")).unwrap();
        symlink("/dev/zero", at("to-zero")).unwrap();
        for name in ["pipe", "to-pipe", "to-zero", ""] {
            check(&at(name), "is not a regular file");
        }
        let longest = usize::try_from(FILE_BYTES_MAX).unwrap();
        std::fs::write(at("long"), "#".repeat(longest)).unwrap();
        symlink("long", at("to-long")).unwrap();
        check(&at("to-long"), "");
        std::fs::write(at("longer"), "#".repeat(longest + 1)).unwrap();
        check(
            &at("longer"),
            "has more than 1048576 bytes, which is no configuration",
        );
    }
}
