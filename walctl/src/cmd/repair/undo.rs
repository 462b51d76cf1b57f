//! The script that gives a data directory back: in names, bytes, modes, owners and links.
//!
//! It works whether all of the changes were made or some, and again after it was interrupted. What stood under a name before
//! is looked at when the script is made; only what a change touches, or what replacing the control file uses up, is given
//! back. While it works, the mark of an unfinished repair stands in the directory: half of what it does is no directory to
//! start on either.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use idem_wal::control::{CONTROL_NAME, CONTROL_SPARE, CONTROL_TEMPORARY};
use idem_wal::recovery::REPAIR_MARK;

use super::execute::{CONTROL_AFTER, MARK_COPY, copy_name};
use super::plan::Change;

/// The file in which one is made that gets its name when it is whole.
pub(super) const UNDO_TEMPORARY: &str = "control.undo";

/// What the script begins with. OWNER is `uid:gid`.
const BEGIN: &str = r#"own() { # FILE OWNER MODE
  if [ "$(stat -c %u:%g "$1")" != "$2" ]; then chown "$2" "$1" || true; fi
  if [ "$(stat -c %a "$1")" != "$3" ]; then chmod "$3" "$1"; fi
}
give() { # NAME OWNER MODE: a copy of what was there
  cat "$B/$1" >"$D/TEMPORARY"
  own "$D/TEMPORARY" "$2" "$3"
  mv -f "$D/TEMPORARY" "$D/$1"
}
back() { # PLACE OWNER MODE: the file itself
  if [ -e "$B/$1" ]; then mv -f "$B/$1" "$D/$1"; fi
  own "$D/$1" "$2" "$3"
}
exec 9<"$D"
if command -v flock >/dev/null && ! flock -n 9; then echo "undo: $D is in use" >&2; exit 1; fi
if [ -e "$D/CONTROL" ] && ! cmp -s "$D/CONTROL" "$B/AFTER" && ! cmp -s "$D/CONTROL" "$B/CONTROL"; then
  echo "undo: a server has started on $D since" >&2; exit 1
fi
if [ ! -e "$D/MARK" ] && [ ! -L "$D/MARK" ]; then cat "$B/COPY" >"$D/MARK" || { rm -f "$D/MARK"; exit 1; }; fi
sync"#;

/// What it ends with.
const END: &str = r#"sync
rm -f "$D/MARK"
sync"#;

/// What stood under a name.
enum Stood {
    Nothing,
    /// The words of a shell for the place that it led to.
    Link(Vec<u8>),
    /// Owner and mode, as words of the script.
    File(String),
}

fn stood(path: &Path) -> io::Result<Stood> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Stood::Nothing),
        Err(error) => return Err(error),
    };
    if found.is_symlink() {
        let target = fs::read_link(path)?;
        return Ok(Stood::Link(quoted(target.as_os_str().as_bytes())));
    }
    let mode = found.mode() & 0o7777;
    Ok(Stood::File(format!("{}:{} {mode:o}", found.uid(), found.gid())))
}

/// The script for these changes of `data`, with the backup at `path`, of which nothing was made yet. Both exist; `data` is
/// absolute. With `is_inside` it finds the one by the other.
pub(super) fn script(data: &Path, is_inside: bool, changes: &[Change]) -> io::Result<Vec<u8>> {
    let mut script = Vec::new();
    let mut line = |parts: &[&[u8]]| {
        parts.iter().for_each(|part| script.extend_from_slice(part));
        script.push(b'\n');
    };
    let names = |text: &str| {
        text.replace("TEMPORARY", UNDO_TEMPORARY)
            .replace("CONTROL", CONTROL_NAME)
            .replace("AFTER", CONTROL_AFTER)
            .replace("COPY", MARK_COPY)
            .replace("MARK", REPAIR_MARK)
    };
    line(&[b"#!/bin/sh"]);
    line(&[b"# Gives a data directory back what walctl repair changed, as long as no server has started on it since."]);
    line(&[b"set -eu"]);
    line(&[b"B=$(cd \"$(dirname \"$0\")\" && pwd)"]);
    if is_inside {
        line(&[b"D=$(dirname \"$B\")"]);
    } else {
        line(&[b"D=", &quoted(data.as_os_str().as_bytes())]);
    }
    line(&[names(BEGIN).as_bytes()]);
    for change in changes.iter().rev() {
        let copied = copy_name(change).unwrap_or_default();
        match change {
            Change::Control { .. } => {
                for name in [CONTROL_NAME, CONTROL_TEMPORARY, CONTROL_SPARE] {
                    match stood(&data.join(name))? {
                        Stood::Nothing => line(&[format!("rm -f \"$D/{name}\"").as_bytes()]),
                        Stood::Link(target) => line(&[&linked(&target, name)]),
                        Stood::File(own) => line(&[format!("give {name} {own}").as_bytes()]),
                    }
                }
            }
            // Names of segments and snapshots are digits and a dot: they need no quoting.
            Change::Move { dir, name, .. } => {
                let place = dir.join(name);
                match stood(&data.join(&place))? {
                    Stood::Nothing => {}
                    Stood::Link(target) => line(&[&linked(&target, &place)]),
                    Stood::File(own) => line(&[format!("back {place} {own}").as_bytes()]),
                }
            }
            Change::Header { name, .. } => line(&[overwrite(&copied, name, 0, "").as_bytes()]),
            // Zeros that were there before still are.
            Change::Cut { name, offset, .. } => {
                line(&[overwrite(&copied, name, *offset, ",sparse").as_bytes()]);
            }
        }
    }
    line(&[names(END).as_bytes()]);
    Ok(script)
}

fn linked(target: &[u8], place: &str) -> Vec<u8> {
    let mut words = b"ln -sfn -- ".to_vec();
    words.extend_from_slice(target);
    words.extend_from_slice(format!(" \"$D/{place}\"").as_bytes());
    words
}

fn overwrite(copied: &str, name: &str, offset: u64, sparse: &str) -> String {
    format!(
        "dd if=\"$B/wal/{copied}\" of=\"$D/wal/{name}\" bs=64K seek={offset} oflag=seek_bytes \
         conv=notrunc,fsync{sparse} status=none"
    )
}

/// A word of a shell, whatever is in it.
fn quoted(bytes: &[u8]) -> Vec<u8> {
    let mut word = vec![b'\''];
    for byte in bytes {
        match byte {
            b'\'' => word.extend_from_slice(b"'\\''"),
            byte => word.push(*byte),
        }
    }
    word.push(b'\'');
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_shell_are_quoted() {
        for (bytes, expected) in [
            (&b"plain"[..], &b"'plain'"[..]),
            (b"a b$(c)", b"'a b$(c)'"),
            (b"it's", b"'it'\\''s'"),
        ] {
            assert_eq!(quoted(bytes), expected);
        }
    }
}
