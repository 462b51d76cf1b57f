//! `walctl` as an operator runs it: the command, what it prints, and what it says to programs.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::say;
use crate::binaries::Binaries;
use crate::failure::Failure;

/// The answer of `walctl verify`.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    pub(super) word: String,
    pub(super) letter: String,
    /// Whether a server starts with it.
    pub(super) starts: bool,
}

/// Shows the verdict on `data`, and returns it.
pub(super) fn verify(binaries: &Binaries, directory: &Path) -> Result<Verdict, Failure> {
    show(binaries, directory, &["verify", "data"])?;
    let output = walctl(binaries, directory, &["verify", "data", "--json"])?;
    let text = String::from_utf8_lossy(&output.stdout);
    let last: Value = text
        .lines()
        .last()
        .and_then(|line| serde_json::from_str(line).ok())
        .ok_or_else(|| Failure::new("walctl verify --json printed no verdict"))?;
    let field = |name: &str| last[name].as_str().unwrap_or_default().to_owned();
    Ok(Verdict {
        word: field("verdict"),
        letter: field("letter"),
        // Clean, torn or unproven; everything above is refused.
        starts: output.status.code().is_some_and(|code| [0, 2, 3].contains(&code)),
    })
}

/// Shows the records of one key. There have to be two at least: it was begun and completed.
pub(super) fn dump_key(binaries: &Binaries, directory: &Path, key: &str) -> Result<(), Failure> {
    let arguments = ["dump", "data", "--key", key, "--values"];
    let output = show(binaries, directory, &arguments)?;
    let lines = String::from_utf8_lossy(&output.stdout).lines().count();
    if output.status.success() && lines >= 2 {
        Ok(())
    } else {
        Err(Failure::new(format!(
            "the log has {lines} records of {key}, and 2 were acknowledged"
        )))
    }
}

fn show(binaries: &Binaries, directory: &Path, arguments: &[&str]) -> Result<Output, Failure> {
    say(&format!("$ walctl {}", arguments.join(" ")))?;
    let output = walctl(binaries, directory, arguments)?;
    say(String::from_utf8_lossy(&output.stdout).trim_end())?;
    Ok(output)
}

fn walctl(binaries: &Binaries, directory: &Path, arguments: &[&str]) -> Result<Output, Failure> {
    Command::new(&binaries.walctl)
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(Failure::io("starting walctl"))
}
