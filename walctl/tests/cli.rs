//! The command line itself: help, version, refusals, completions and man pages.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::process::Stdio;

use support::*;

#[test]
fn help_and_version_are_data() {
    for (arguments, words) in [
        (&["--version"][..], "walctl "),
        (&["--help"], "walctl verify /var/lib/idemd"),
        (&["--help"], "--generate"),
        (&["restore", "--help"], "end of the older of the two snapshots"),
        (&["restore", "--help"], "walctl archive"),
        (&["verify", "--help"], "UNPROVEN_TAIL"),
        (&["dump", "--help"], "--from-lsn"),
        (&["history", "--help"], "synthesised"),
        (&["stat", "--help"], "largest keys"),
        (&["snapshot", "--help"], "--items"),
    ] {
        let output = walctl(arguments);
        assert_eq!(
            (code(&output), stderr(&output)),
            (0, String::new()),
            "{arguments:?}"
        );
        assert!(
            stdout(&output).contains(words),
            "{arguments:?}: {}",
            stdout(&output)
        );
    }
}

#[test]
fn a_wrong_command_line_is_code_1() {
    for arguments in [
        &[][..],
        &["verify"],
        &["dump"],
        &["mend", "x"],
        &["verify", "a", "b"],
        &["--generate", "pie"],
        &["verify", "--key", "k", "a"],
    ] {
        let output = walctl(arguments);
        assert_eq!(
            (code(&output), stdout(&output)),
            (1, String::new()),
            "{arguments:?}"
        );
        assert!(!stderr(&output).is_empty());
    }
}

#[test]
fn completions_and_pages_come_from_the_same_definition() {
    for (what, words) in [
        ("completions-bash", "--from-lsn"),
        ("completions-zsh", "--from-lsn"),
        ("completions-fish", "from-lsn"),
        ("man", ".TH walctl"),
        ("man-dump", "from\\-lsn"),
    ] {
        let output = walctl(&["--generate", what]);
        assert_eq!(code(&output), 0, "{what}");
        assert!(stdout(&output).contains(words), "{what}");
    }
}

#[test]
fn a_closed_pipe_is_no_failure_anywhere() {
    let log = sample();
    let dir = log.path().to_str().unwrap();
    for arguments in [
        &["--help"][..],
        &["--generate", "completions-bash"],
        &["verify", dir],
        &["verify", dir, "--json"],
        &["dump", dir],
        &["history", dir, "pay:1"],
        &["stat", dir],
        &["stat", dir, "--json"],
    ] {
        let mut child = command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (code(&output), stderr(&output)),
            (0, String::new()),
            "{arguments:?}"
        );
    }
}
