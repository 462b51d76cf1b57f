//! `walctl` as an operator runs it: a command line, an exit code, JSON on stdout.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::process::binaries;

/// What a run of walctl gave.
#[derive(Debug)]
pub struct Output {
    /// Exit code; −1 after a signal.
    pub code: i32,
    /// The JSON objects, one for each line of stdout.
    pub lines: Vec<Value>,
    /// stderr.
    pub stderr: String,
}

impl Output {
    /// The last object: the verdict of `verify`.
    pub fn last(&self) -> &Value {
        self.lines
            .last()
            .unwrap_or_else(|| panic!("walctl printed nothing (exit {}): {}", self.code, self.stderr))
    }

    /// The verdict's letter.
    pub fn letter(&self) -> &str {
        self.last()["letter"].as_str().unwrap_or_default()
    }
}

/// `walctl verify DIR --json`.
pub fn verify(dir: &Path) -> Output {
    run("verify", dir, &[])
}

/// `walctl dump DIR --json …`.
pub fn dump(dir: &Path, more: &[&str]) -> Output {
    run("dump", dir, more)
}

fn run(command: &str, dir: &Path, more: &[&str]) -> Output {
    let output = Command::new(binaries::walctl())
        .arg(command)
        .arg(dir)
        .arg("--json")
        .args(more)
        .output()
        .unwrap_or_else(|error| panic!("walctl does not start: {error}"));
    let stdout = String::from_utf8_lossy(&output.stdout);
    let lines = stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("`{line}` is no JSON: {error}")))
        .collect();
    Output {
        code: output.status.code().unwrap_or(-1),
        lines,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
