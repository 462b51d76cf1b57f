//! `CONFIG REWRITE`: changed values go into the operator's file, and nothing else of it changes.
//!
//! The file is a person's: its comments, order, blanks and spellings stay byte for byte. A value that is there is replaced where
//! it stands; one that is not comes to the end, under a line that says where it is from. What the file says already, in
//! whatever spelling, is left alone. A value that came by flag and was never changed is not the file's business.
//!
//! The new file takes the old one's place by a rename, so that a crash leaves the one or the other whole. Before that it has
//! been read by the reader of the start: a file that a start takes is never replaced by one that it refuses.
//!
//! It is made beside the old one, under that one's name with `.tmp` behind it. A kill may leave it there, and the next rewrite
//! replaces it. Servers that share a file would write one `.tmp` together: a lock on the old file lets in one at a time.
//!
//! Of `config` this alone looks at the machine.

use std::fs::{File, Metadata, OpenOptions, metadata, remove_file, rename, set_permissions};
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::{Errno, retry_on_intr};
use toml_edit::{Document, Item, Value};

use super::ConfigError;
use super::file::{apply_text, irregular, read};
use super::options::Options;
use super::size::{parse_size, spell_size};
use super::table::{Kind, OptionRow};

/// Stands above what came to the end of a file.
const MARK: &str = "# Written by CONFIG REWRITE:";

/// Writes the values that `options` has for `rows` into the file at `path`. When the file says all of that already, it is not
/// touched.
///
/// # Errors
/// A sentence: the file cannot be read, is not one that the server would start with, or cannot be replaced. It is as it was
/// then, unless the last step failed, the sync of its directory.
pub fn rewrite(path: &Path, rows: &[&OptionRow], options: &Options) -> Result<(), String> {
    let about = |error: io::Error| format!("{}: {error}", path.display());
    // The file that a link leads to is the one that is replaced; the link stays one.
    let path = &path.canonicalize().map_err(about)?;
    let new = || {
        let text = read(path).map_err(about)?;
        let new = edited(&path.display().to_string(), &text, rows.iter().copied(), options)?;
        Ok::<Option<String>, String>((new != text).then_some(new))
    };
    // A file that needs no change may be one that must not be written.
    if new()?.is_none() {
        return Ok(());
    }
    let lock = lock(path).map_err(about)?;
    match new()? {
        None => Ok(()),
        Some(new) => replace(path, &new, &lock).map_err(about),
    }
}

/// The text of the file called `name` with the values that `options` has for `rows`.
///
/// # Errors
/// The text is no configuration.
pub fn edited<'r>(
    name: &str,
    text: &str,
    rows: impl Iterator<Item = &'r OptionRow>,
    options: &Options,
) -> Result<String, String> {
    let read = |text: &str| {
        let mut options = Options::default();
        apply_text(name, text, &mut options).map_err(|ConfigError(reason)| reason)?;
        Ok::<Options, String>(options)
    };
    let before = read(text)?;
    let document = Document::parse(text).map_err(|error| error.to_string())?;
    // A file from elsewhere keeps its own ends of lines.
    let first = text.split_once('\n').map_or("", |(line, _)| line);
    let line_end = if first.ends_with('\r') { "\r\n" } else { "\n" };
    let mut replaced: Vec<(Range<usize>, String)> = Vec::new();
    let mut appended = String::new();
    let mut written = Vec::new();
    for row in rows {
        let value = (row.get)(options);
        if value == (row.get)(&before) {
            continue;
        }
        let spelled = spell(row.kind, &value);
        match document.get(row.name).and_then(Item::span) {
            Some(place) => replaced.push((place, spelled)),
            None => appended.push_str(&format!("{} = {spelled}{line_end}", row.name)),
        }
        written.push((row, value));
    }
    let mut new = text.to_owned();
    // From the end on, so that the places in front stay where they are.
    replaced.sort_by_key(|(place, _)| std::cmp::Reverse(place.start));
    for (place, spelled) in replaced {
        new.replace_range(place, &spelled);
    }
    if !appended.is_empty() {
        if !new.is_empty() && !new.ends_with('\n') {
            new.push_str(line_end);
        }
        if !new.contains(MARK) {
            new.push_str(&format!("{line_end}{MARK}{line_end}"));
        }
        new.push_str(&appended);
    }
    let after = read(&new)?;
    let wrong = written.iter().find(|(row, value)| (row.get)(&after) != *value);
    match wrong {
        Some((row, _)) => Err(format!("{name}: {} cannot be changed in it", row.name)),
        None => Ok(new),
    }
}

/// A value as TOML.
fn spell(kind: Kind, value: &str) -> String {
    match kind {
        Kind::Number => value.to_owned(),
        Kind::Switch => (value == "yes").to_string(),
        Kind::Size => {
            let spelled = parse_size(value).map_or_else(|_| value.to_owned(), spell_size);
            let plain = spelled.bytes().all(|byte| byte.is_ascii_digit());
            if plain { spelled } else { quoted(&spelled) }
        }
        Kind::Text => quoted(value),
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Opens the file at `path`, which has no links in it, for as long as it is rewritten; answers an error while another process
/// does that.
fn lock(path: &Path) -> io::Result<File> {
    if !metadata(path)?.is_file() {
        return Err(irregular());
    }
    // Write access is what is wanted of a file that is replaced: a directory may be written to though the file may not, and
    // who forbade the latter meant it. A pipe is not waited for.
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(retry_on_intr(|| open(path, flags, Mode::empty()))?);
    let other = || io::Error::other("another process is writing it");
    // Not every file system has locks; without them one server's file is as safe as with them.
    if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        return Err(other());
    }
    // Replaced between the two steps: the lock is one of a file that is gone.
    let identity = |file: &Metadata| (file.dev(), file.ino());
    if identity(&file.metadata()?) != identity(&metadata(path)?) {
        return Err(other());
    }
    Ok(file)
}

/// Where the new file is made.
fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    name.into()
}

/// Puts a file with `text` in the place of the one at `path`, which is `_locked`, with the owner and the mode of that.
fn replace(path: &Path, text: &str, _locked: &File) -> io::Result<()> {
    let Some(directory) = path.parent() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let temporary = temporary(path);
    let placed = write_like(path, &temporary, text).and_then(|()| rename(&temporary, path));
    if let Err(error) = placed {
        // Where not even this succeeds, what is left is a file that nobody reads.
        let _ = remove_file(&temporary);
        return Err(error);
    }
    File::open(directory)?.sync_all()
}

/// Makes the file `new`, durably, in the likeness of `old`.
fn write_like(old: &Path, new: &Path, text: &str) -> io::Result<()> {
    match remove_file(new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        // One of a server that was killed at this point.
        Ok(()) | Err(_) => {}
    }
    let like = metadata(old)?;
    // Nobody else reads it before it has the mode of the old one.
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(new)?;
    // Only root may give files away; for everybody else the file becomes their own, as an editor would leave it.
    let _ = fchown(&file, Some(like.uid()), Some(like.gid()));
    set_permissions(new, like.permissions())?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir, write};
    use std::path::Path;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::{edited, lock, rewrite};
    use crate::config::Options;
    use crate::config::table::{OPTIONS, option};

    /// Writes `timeout = 5` into the file at `path`.
    fn rewritten(path: &Path) -> Result<(), String> {
        let mut options = Options::default();
        let row = option("timeout").unwrap();
        (row.set)(&mut options, "5").unwrap();
        rewrite(path, &[row], &options)
    }

    /// `text` with these options changed to these values.
    fn check(text: &str, changes: &[(&str, &str)], expected: &str) {
        let mut options = Options::default();
        for (name, value) in changes {
            (option(name).unwrap().set)(&mut options, value).unwrap();
        }
        let rows = changes.iter().map(|(name, _)| option(name).unwrap());
        assert_eq!(
            edited("f.toml", text, rows, &options).as_deref(),
            Ok(expected),
            "{changes:?}"
        );
        // Once more changes nothing more.
        let rows = changes.iter().map(|(name, _)| option(name).unwrap());
        assert_eq!(
            edited("f.toml", expected, rows, &options).as_deref(),
            Ok(expected)
        );
    }

    #[test]
    fn a_value_is_replaced_where_it_stands() {
        let text = "# ours\n\nport   =  7000 # not 6379\n'timeout'\t= \"60\"#\n  maxmemory=\"1gb\"  # for now\n# end";
        check(
            text,
            &[("timeout", "5"), ("maxmemory", "3221225472")],
            "# ours\n\nport   =  7000 # not 6379\n'timeout'\t= 5#\n  maxmemory=\"3gb\"  # for now\n# end",
        );
        check(
            "timeout = 1\r\nidem-evictable = false # é\r\nlog-level = 'warn'\r\n",
            &[
                ("idem-evictable", "yes"),
                ("log-level", "debug"),
                ("timeout", "2"),
            ],
            "timeout = 2\r\nidem-evictable = true # é\r\nlog-level = \"debug\"\r\n",
        );
    }

    #[test]
    fn what_is_not_there_comes_to_the_end() {
        check(
            "",
            &[("timeout", "5")],
            "\n# Written by CONFIG REWRITE:\ntimeout = 5\n",
        );
        check(
            "# mine\nport = 1",
            &[("maxmemory", "1000"), ("maxclients", "5")],
            "# mine\nport = 1\n\n# Written by CONFIG REWRITE:\nmaxmemory = 1000\nmaxclients = 5\n",
        );
        check(
            "\n# Written by CONFIG REWRITE:\ntimeout = 5\n",
            &[("maxclients", "7"), ("timeout", "6")],
            "\n# Written by CONFIG REWRITE:\ntimeout = 6\nmaxclients = 7\n",
        );
        check(
            "# mine\r\nport = 1",
            &[("maxmemory", "1000"), ("maxclients", "5")],
            "# mine\r\nport = 1\r\n\r\n# Written by CONFIG REWRITE:\r\nmaxmemory = 1000\r\nmaxclients = 5\r\n",
        );
    }

    /// What a killed server left beside it, even longer than what comes.
    #[test]
    fn what_a_kill_left_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.toml");
        write(&path, "timeout = 1\n").unwrap();
        write(dir.path().join("f.toml.tmp"), "timeout = 70000\n#").unwrap();
        rewritten(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "timeout = 5\n");
        let names = std::fs::read_dir(dir.path()).unwrap();
        let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["f.toml"]);
    }

    /// None of these is waited for, and none is touched.
    #[test]
    fn what_is_no_file_of_ours_is_refused_in_words() {
        let dir = tempfile::tempdir().unwrap();
        let check = |name: &str, expected: &str| {
            let refused = rewritten(&dir.path().join(name)).unwrap_err();
            assert!(refused.ends_with(expected), "{name}: {refused}");
        };
        let at = |name: &str| dir.path().join(name);
        mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        check("pipe", "pipe: is not a regular file");
        let of_pipe = lock(&at("pipe")).unwrap_err().to_string();
        assert_eq!(of_pipe, "is not a regular file");
        create_dir(at("dir")).unwrap();
        check("dir", "dir: is not a regular file");
        std::os::unix::fs::symlink("/dev/zero", at("zero")).unwrap();
        check("zero", "zero: is not a regular file");
        write(at("long"), "#".repeat((1 << 20) + 1)).unwrap();
        check("long", "has more than 1048576 bytes, which is no configuration");
        write(at("locked"), "timeout = 1\n").unwrap();
        let locked = lock(&at("locked")).unwrap();
        check("locked", "locked: another process is writing it");
        drop(locked);
        rewritten(&at("locked")).unwrap();
    }

    /// In whatever spelling, and also when saying nothing says it.
    #[test]
    fn what_the_file_says_already_is_left_alone() {
        let text = "maxmemory = \"1024mb\"\nwal-keep-bytes = 1_000\n";
        check(text, &[("maxmemory", "1gb"), ("wal-keep-bytes", "1k")], text);
        check(
            text,
            &[("maxmemory", "1gb"), ("timeout", "0"), ("wal-keep-bytes", "1000")],
            text,
        );
    }

    #[test]
    fn a_file_that_no_start_would_take_is_not_edited() {
        for text in [
            "timeout = \"x\"\n",
            "timeout 5\n",
            "nosuch = 1\n",
            "[clients]\ntimeout = 5\n",
        ] {
            let options = Options {
                maxclients: 5,
                ..Options::default()
            };
            let rows = [option("maxclients").unwrap()].into_iter();
            let refused = edited("f.toml", text, rows, &options).unwrap_err();
            assert!(refused.starts_with("f.toml"), "{refused}");
        }
    }

    /// Every option that can change, with a value of its kind, in a file that has all of them and in one that has none.
    #[test]
    fn every_option_is_read_as_it_was_written() {
        let changed = |row: &crate::config::table::OptionRow| {
            let values = ["7", "9mb", "no", "yes", "everysec", "debug", "allkeys-lru"];
            values.into_iter().find_map(|value| {
                let mut options = Options::default();
                (row.set)(&mut options, value).ok()?;
                (options != Options::default()).then_some(options)
            })
        };
        let all: String = OPTIONS
            .iter()
            .map(|row| format!("{} = \"{}\" # {}\n", row.name, row.default, row.help.len()))
            .collect();
        for row in OPTIONS.iter().filter(|row| row.at_run_time) {
            let options = changed(row).unwrap_or_else(|| panic!("no value for {}", row.name));
            for text in ["", &all] {
                let new = edited("f.toml", text, std::iter::once(row), &options).unwrap();
                let mut read = Options::default();
                crate::config::file::apply_text("f.toml", &new, &mut read).unwrap();
                assert_eq!(read, options, "{}", row.name);
                assert_eq!(new.matches('#').count(), text.matches('#').count().max(1));
            }
        }
    }
}
