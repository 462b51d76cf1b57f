//! `cargo xtask bench`: builds the programs that are measured, as they are shipped, and runs the comparison with Redis.
//!
//! The comparison and its options are the program `bench` of the package `idem-testsuite`. Here is only what cargo has to do
//! before, and the text of its help: who asks which options there are does not want to wait for a release build.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::binaries::{cargo, executables};
use crate::failure::Failure;

/// What `bench --help` prints; a test of the benchmark's holds the two equal.
const HELP: &str = include_str!("../../testsuite/src/bin/bench-help.txt");

/// Builds and runs it with `arguments`; its output is the task's.
pub(crate) fn run(arguments: &[OsString]) -> Result<(), Failure> {
    if arguments.iter().any(|word| word == "--help" || word == "-h") {
        return std::io::stdout()
            .write_all(HELP.as_bytes())
            .map_err(Failure::io("printing the help"));
    }
    // Two calls: cargo chooses the features of shared crates per call, and what is measured must be what is shipped.
    let [idemd, walctl] = build(&["idem-server", "walctl"], ["idemd", "walctl"])?;
    let [bench] = build(&["idem-testsuite"], ["bench"])?;
    let status = Command::new(bench)
        .args(arguments)
        .arg("--idemd")
        .arg(idemd)
        .arg("--walctl")
        .arg(walctl)
        .status()
        .map_err(Failure::io("starting the benchmark"))?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::new(format!("the benchmark ended with {status}")))
    }
}

/// Builds packages with the release profile, and returns where these of their programs are.
fn build<const N: usize>(packages: &[&str], names: [&str; N]) -> Result<[PathBuf; N], Failure> {
    let output = cargo()
        .args(["build", "--release", "--bins"])
        .args(packages.iter().flat_map(|package| ["--package", package]))
        .args(["--message-format", "json-render-diagnostics"])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(Failure::io("starting cargo build"))?;
    if !output.status.success() {
        return Err(Failure::new(format!("cargo build failed: {}", output.status)));
    }
    let found = executables(&String::from_utf8_lossy(&output.stdout));
    if let Some(missing) = names.iter().find(|name| !found.contains_key(**name)) {
        return Err(Failure::new(format!("cargo build made no {missing}")));
    }
    Ok(names.map(|name| found[name].clone()))
}
