//! `walctl restore` where it cannot be done, or did not come to its end: what is said, and how it is finished.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use support::*;

fn golden(name: &str) -> tempfile::TempDir {
    let copied = tempfile::tempdir().unwrap();
    golden::copy(name, copied.path());
    copied
}

use support::golden;

#[test]
fn a_log_without_its_beginning_has_no_state_at_lsn_0() {
    let log = golden("begins-above-zero");
    let out = tempfile::tempdir().unwrap();
    let into = out.path().join("new");
    let (dir, new) = (log.path().to_str().unwrap(), into.to_str().unwrap());
    for arguments in [
        &["replay", dir, "--to-lsn", "0"][..],
        &["restore", dir, "--into", new, "--to-lsn", "0", "--yes"],
    ] {
        let output = walctl(arguments);
        assert_ne!(code(&output), 0, "{arguments:?}: {}", stdout(&output));
        assert!(stderr(&output).contains("lsn "), "{}", stderr(&output));
        assert!(
            stderr(&output).contains("outside of the log, which has lsn"),
            "{}",
            stderr(&output)
        );
    }
    assert!(!into.exists());
    // The first segment of all makes it one.
    let whole = sample();
    let output = walctl(&[
        "replay",
        whole.path().to_str().unwrap(),
        "--to-lsn",
        "0",
        "--json",
    ]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(objects(&output)[0]["keys"], 0);
}

/// A restore that may make no file longer than so many blocks of the shell's, and is killed for it.
fn killed(log: &Path, into: &Path, lsn: &str) {
    let output = Command::new("sh")
        .args([
            "-c",
            "ulimit -f 100; exec \"$0\" \"$@\"",
            env!("CARGO_BIN_EXE_walctl"),
            "restore",
        ])
        .args([log, Path::new("--into"), into])
        .args(["--to-lsn", lsn, "--yes"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), None, "killed: {}", stderr(&output));
}

#[test]
fn the_command_that_finishes_an_interrupted_restore_is_shown() {
    let mut log = TestLog::new(0);
    log.group(&[(1, 0, string(b"key", b"value"))]);
    let lsn = log.end().to_string();
    log.shut_down();
    let out = tempfile::tempdir().unwrap();
    let first = out.path().join("it's new");
    killed(log.path(), &first, &lsn);
    let mark = fs::read_to_string(first.join("restore.incomplete")).unwrap();
    assert!(mark.contains("walctl restore "), "{mark}");
    // It may have been moved since.
    let into = out.path().join("it's moved");
    fs::rename(&first, &into).unwrap();

    let verdict = walctl(&["verify", into.to_str().unwrap()]);
    assert!(
        stdout(&verdict).contains("the command in that file"),
        "{}",
        stdout(&verdict)
    );
    let shown = walctl(&["repair", into.to_str().unwrap()]);
    assert_eq!(code(&shown), 5, "{}", stdout(&shown));
    let said = stdout(&shown);
    let command = said
        .lines()
        .find_map(|line| line.trim().strip_prefix("walctl restore "))
        .unwrap_or_else(|| panic!("{said}"));
    assert!(!said.contains("--into NEW"), "nothing else is of use: {said}");
    assert_eq!(
        code(&walctl(&[
            "repair",
            into.to_str().unwrap(),
            "--plan",
            "control",
            "--yes"
        ])),
        5
    );

    let script = format!("'{}' restore {command} --yes", env!("CARGO_BIN_EXE_walctl"));
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(code(&output), 0, "{script}: {}", stderr(&output));
    assert_eq!(code(&walctl(&["verify", into.to_str().unwrap()])), 0);
    assert!(!first.exists());

    // A mark of nobody knows what is still said to be one.
    fs::write(into.join("restore.incomplete"), b"").unwrap();
    let shown = walctl(&["repair", into.to_str().unwrap()]);
    assert!(
        stdout(&shown).contains("walctl restore SOURCE"),
        "{}",
        stdout(&shown)
    );
}

/// Runs a script with a file system of 2 MiB at `$1`, which `fill` fills. Nothing where that cannot be had.
pub fn on_a_full_disk(script: &str, arguments: &[&Path]) -> Option<Output> {
    let script = format!(
        "fill() {{ dd if=/dev/zero of=\"$1/filler\" bs=4k 2>/dev/null; true; }}
         mount -t tmpfs -o size=2m none \"$1\" && echo mounted >&2 && {{ {script}
         }}"
    );
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script, "sh"])
        .args(arguments)
        .output();
    match output {
        Ok(output) if stderr(&output).contains("mounted\n") => Some(output),
        Ok(output) => {
            skip(&format!("no mount: {}", stderr(&output)));
            None
        }
        Err(error) => {
            skip(&format!("no unshare: {error}"));
            None
        }
    }
}

#[test]
fn a_full_disk_is_said_in_bytes_before_anything_is_made() {
    let mut log = TestLog::new(0);
    log.group(&[(1, 0, string(b"key", b"value"))]);
    let lsn = log.end().to_string();
    log.shut_down();
    let mount = tempfile::tempdir().unwrap();
    let script = format!(
        "mkdir \"$1/empty\"; fill \"$1\"
         for into in \"$1/new\" \"$1/empty\"; do
           \"$2\" restore \"$3\" --into \"$into\" --to-lsn {lsn} --yes; echo \"code $?\" >&2
         done; ls -A \"$1\" \"$1/empty\" >&2"
    );
    let walctl = Path::new(env!("CARGO_BIN_EXE_walctl"));
    let Some(output) = on_a_full_disk(&script, &[mount.path(), walctl, log.path()]) else {
        return;
    };
    let words = stderr(&output);
    assert_eq!(words.matches("code 1\n").count(), 2, "{words}");
    assert_eq!(
        words.matches("bytes are needed, and 0 are free").count(),
        2,
        "{words}"
    );
    assert!(
        !words.contains("restore.incomplete") && !words.contains("\nnew\n"),
        "{words}"
    );
}
