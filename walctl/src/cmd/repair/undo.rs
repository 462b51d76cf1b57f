//! The script that gives a data directory back: in names, bytes, modes, owners and links.
//!
//! It works whether all of the changes were made or some, and again after it was interrupted: by a full disk, too, which it
//! looks for first, as far as that can be told. What stood under a name before
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
use idem_wal::storage::Dir;

use super::execute::{CONTROL_AFTER, MARK_COPY, copy_name};
use super::plan::Change;
use crate::shell::quoted;

/// The file in which one is made that gets its name when it is whole; with a number behind it where somebody has that name.
pub(super) const UNDO_TEMPORARY: &str = "control.undo";
/// What the line of the script begins with that says what it is called.
const TEMPORARY_LINE: &str = "T=";

/// What the script begins with. OWNER is `uid:gid`. `at` is what is being given back; without it, nothing has changed or all
/// is back.
const BEGIN: &str = r#"at=
stopped() {
  if [ -n "$at" ]; then
    echo "undo: it stopped at $at: what comes after that is not given back yet, and no server starts on $D before it is." \
      "Once what is said above is mended, this goes on: sh $0 $D" >&2
  fi
}
trap stopped EXIT
trap 'exit 1' HUP INT TERM
own() { # FILE OWNER MODE
  if [ "$(stat -c %u:%g "$1")" != "$2" ]; then chown "$2" "$1" || true; fi
  if [ "$(stat -c %a "$1")" != "$3" ]; then chmod "$3" "$1"; fi
}
give() { # NAME OWNER MODE: a copy of what was there
  at="$D/$1"
  cat "$B/$1" >"$D/$T"
  own "$D/$T" "$2" "$3"
  mv -fT "$D/$T" "$D/$1"
}
back() { # PLACE OWNER MODE: the file itself
  at="$D/$1"
  if [ -e "$B/$1" ] || [ -L "$B/$1" ]; then mv -f "$B/$1" "$D/$1"; fi
  own "$D/$1" "$2" "$3"
}
put() { # SOURCE FILE OFFSET CONV: bytes of a segment
  at="$D/wal/$2"
  dd if="$B/wal/$1" of="$D/wal/$2" bs=64K seek="$3" oflag=seek_bytes conv="notrunc,fsync$4" status=none
}
held() { # FILE: what it takes up
  if [ -e "$1" ]; then stat -c '%b * %B' "$1"; else echo 0; fi
}
room() { # DIRECTORY BYTES FILE...: for so much, and for what has to be copied back from another file system
  d=$1; need=$2; shift 2
  for f; do
    if [ -e "$B/$d/$f" ] && [ "$(stat -c %d "$B/$d/$f")" != "$(stat -c %d "$D/$d")" ]; then
      need=$((need + $(held "$B/$d/$f") - $(held "$D/$d/$f")))
    fi
  done
  free=%a
  if [ "$(id -u)" = 0 ]; then free=%f; fi
  free=$(($(stat -f -c "$free * %S" "$D/$d")))
  if [ "$need" -gt "$free" ]; then
    echo "undo: $need bytes are needed in $D/$d, and $free are free; nothing was changed" >&2; exit 1
  fi
}
if [ ! -d "$D/wal" ]; then
  echo "undo: $D is not there, or no data directory; one that was moved has to be named: sh $0 DIR" >&2; exit 1
fi
exec 9<"$D"
if command -v flock >/dev/null && ! flock -n 9; then echo "undo: $D is in use" >&2; exit 1; fi
if [ -e "$D/CONTROL" ] && ! cmp -s "$D/CONTROL" "$B/AFTER" && ! cmp -s "$D/CONTROL" "$B/CONTROL"; then
  echo "undo: a server has started on $D since, or it is another directory; one that was moved has to be named: sh $0 DIR" >&2
  exit 1
fi"#;

/// When there is room: from here on the directory is marked.
const MARKED: &str = r#"if [ ! -s "$D/MARK" ] && [ ! -L "$D/MARK" ]; then # A name for what is whole: there or not, never half.
  if ! ln -f "$B/COPY" "$D/MARK" 2>/dev/null && ! ln -sfn -- "${B#"$D"/}" "$D/MARK"; then
    echo "undo: nothing was changed" >&2; exit 1
  fi
fi
sync"#;

/// What it ends with.
const END: &str = r#"at="$D/MARK"
sync
rm -f "$D/$T" "$D/MARK"
at=
sync"#;

/// Room for the mark, and for what a directory needs to grow.
const ROOM_BYTES: u64 = 8 << 10;

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

/// A name for the temporary that nobody has.
fn free_name(data: &Path) -> String {
    let numbered = (2..).map(|number| format!("{UNDO_TEMPORARY}-{number}"));
    let mut names = std::iter::once(UNDO_TEMPORARY.to_owned()).chain(numbered);
    let free = names.find(|name| fs::symlink_metadata(data.join(name)).is_err());
    free.expect("there are more numbers than files")
}

/// What a script calls its temporary.
pub(super) fn temporary_of(script: &[u8]) -> Option<String> {
    let mut lines = script.split(|byte| *byte == b'\n');
    let name = lines.find_map(|line| line.strip_prefix(TEMPORARY_LINE.as_bytes()))?;
    let name = std::str::from_utf8(name).ok()?;
    // It is going to be removed: nothing but what could have been made here.
    let number = name.strip_prefix(UNDO_TEMPORARY)?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (number.is_empty() || number.strip_prefix('-').is_some_and(is_number)).then(|| name.to_owned())
}

/// The script for these changes of `data`, of which nothing was made yet. `data` is absolute. `levels` is how far below it the
/// backup lies, so that the script finds the one by the other; without it, the directory can be named when it was moved.
pub(super) fn script(data: &Path, levels: Option<usize>, changes: &[Change]) -> io::Result<Vec<u8>> {
    let mut script = Vec::new();
    let mut line = |parts: &[&[u8]]| {
        parts.iter().for_each(|part| script.extend_from_slice(part));
        script.push(b'\n');
    };
    let names = |text: &str| {
        text.replace("CONTROL", CONTROL_NAME)
            .replace("AFTER", CONTROL_AFTER)
            .replace("COPY", MARK_COPY)
            .replace("MARK", REPAIR_MARK)
    };
    line(&[b"#!/bin/sh"]);
    line(&[b"# Gives a data directory back what walctl repair changed, as long as no server has started on it since."]);
    line(&[b"set -eu"]);
    line(&[b"B=$(cd \"$(dirname \"$0\")\" && pwd -P)"]);
    match levels {
        Some(levels) => line(&[b"D=$(cd \"$B", "/..".repeat(levels).as_bytes(), b"\" && pwd -P)"]),
        None => {
            line(&[b"D=${1-}"]);
            line(&[
                b"if [ -z \"$D\" ]; then D=",
                &quoted(data.as_os_str().as_bytes()),
                b"; fi",
            ]);
        }
    }
    line(&[TEMPORARY_LINE.as_bytes(), free_name(data).as_bytes()]);
    line(&[names(BEGIN).as_bytes()]);
    rooms(changes).iter().for_each(|room| line(&[room.as_bytes()]));
    line(&[names(MARKED).as_bytes()]);
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
            Change::Header { name, .. } => line(&[format!("put {copied} {name} 0 ''").as_bytes()]),
            // Zeros that were there before still are.
            Change::Cut { name, offset, .. } => {
                line(&[format!("put {copied} {name} {offset} ,sparse").as_bytes()]);
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

/// A line for each directory in which room is needed before anything is given back.
fn rooms(changes: &[Change]) -> Vec<String> {
    let mut lines = Vec::new();
    for wanted in [Dir::Wal, Dir::Snap] {
        let moved = changes.iter().filter_map(|change| match change {
            Change::Move { dir, name, .. } if *dir == wanted => Some(format!(" {name}")),
            _ => None,
        });
        let moved: String = moved.collect();
        if !moved.is_empty() {
            lines.push(format!("room {} {ROOM_BYTES}{moved}", wanted.path()));
        }
    }
    // Each is made beside the one that it replaces.
    let is_replaced = |change: &Change| matches!(change, Change::Control { .. });
    let copies = if changes.iter().any(is_replaced) {
        [CONTROL_NAME, CONTROL_TEMPORARY, CONTROL_SPARE]
            .map(|name| format!(" + $(held \"$B/{name}\")"))
            .concat()
    } else {
        String::new()
    };
    lines.push(format!("room . $(({ROOM_BYTES}{copies}))"));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scripts_temporary_is_a_free_name_and_told_from_it() {
        let directory = tempfile::tempdir().unwrap();
        for expected in ["control.undo", "control.undo-2", "control.undo-3"] {
            let script = script(directory.path(), Some(1), &[]).unwrap();
            assert_eq!(temporary_of(&script).as_deref(), Some(expected));
            std::os::unix::fs::symlink("nowhere", directory.path().join(expected)).unwrap();
        }
        let others = [
            "",
            "T=",
            "T=control",
            "T=control.undo/x",
            "T=control.undo-",
            "T=../control.undo",
        ];
        for other in others {
            assert_eq!(temporary_of(other.as_bytes()), None, "{other}");
        }
    }
}
