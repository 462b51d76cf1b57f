//! The benchmark works: every part of it, with a few hundred operations. How fast anything is, no test asks.

use std::process::{Command, Stdio};

use idem_testsuite::process::binaries;
use idem_testsuite::require;
use idem_testsuite::testdir::TestDir;

#[test]
fn every_part_of_the_comparison_runs_on_both_servers() {
    let there = Command::new("redis-server")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    if !there.is_ok_and(|status| status.success()) {
        require::skip(
            "every_part_of_the_comparison_runs_on_both_servers",
            "redis-server is not installed",
        );
        return;
    }
    let directory = TestDir::new("bench", 0);
    let output = Command::new(env!("CARGO_BIN_EXE_bench"))
        .arg("--quick")
        .arg("--dir")
        .arg(directory.path())
        .arg("--idemd")
        .arg(binaries::idemd())
        .arg("--walctl")
        .arg(binaries::walctl())
        .output()
        .expect("the benchmark starts");
    let (report, said) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{said}");
    for part in [
        "### Rates",
        "### Latencies",
        "### CPU and log",
        "### One client",
        "### 300 pending records",
        "### Snapshots while serving",
        "A check of the tool",
    ] {
        assert!(report.contains(part), "no `{part}` in\n{report}");
    }
    // A few hundred operations say nothing about goals.
    assert!(!report.contains("What has to be reached"), "{report}");
    let left: Vec<_> = std::fs::read_dir(directory.path())
        .expect("the directory is there")
        .collect();
    assert!(left.is_empty(), "the benchmark left {left:?}");
}

/// `cargo xtask bench --help` prints the kept text, because building the benchmark for it would take minutes.
#[test]
fn the_help_is_the_one_that_is_kept() {
    let output = Command::new(env!("CARGO_BIN_EXE_bench"))
        .arg("--help")
        // The width of a terminal must not matter.
        .env_remove("COLUMNS")
        .stdin(Stdio::null())
        .output()
        .expect("the benchmark starts");
    let help = String::from_utf8_lossy(&output.stdout);
    let kept = include_str!("../src/bin/bench-help.txt");
    assert!(
        help == kept,
        "testsuite/src/bin/bench-help.txt has to be:\n{help}"
    );
}

#[test]
fn a_check_of_the_tool_is_no_result() {
    for flag in ["--strict", "--write-docs"] {
        let output = Command::new(env!("CARGO_BIN_EXE_bench"))
            .args(["--quick", flag])
            .output()
            .expect("the benchmark starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(flag), "{flag}: {said}");
    }
}
