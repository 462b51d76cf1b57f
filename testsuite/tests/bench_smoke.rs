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
        "### What has to be reached",
    ] {
        assert!(report.contains(part), "no `{part}` in\n{report}");
    }
    let left: Vec<_> = std::fs::read_dir(directory.path())
        .expect("the directory is there")
        .collect();
    assert!(left.is_empty(), "the benchmark left {left:?}");
}
