//! Builds the programs that a task starts, and says where they are.
//!
//! Cargo names each executable that it made on stdout, so that no path is guessed: target directory and profile are
//! whatever the caller's configuration says.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::failure::Failure;

/// The two programs.
#[derive(Clone, Debug)]
pub(crate) struct Binaries {
    pub(crate) idemd: PathBuf,
    pub(crate) walctl: PathBuf,
}

/// The root of the workspace that `cargo xtask` was called in. The path at the time of the build would be another one when
/// two checkouts share a target directory, and the wrong sources would be built.
pub(crate) fn workspace() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&here)
        .parent()
        .expect("this crate lies in the workspace")
        .to_owned()
}

/// Cargo, as a fresh command in the workspace.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.current_dir(workspace());
    command
}

/// Builds both with the dev profile.
pub(crate) fn build() -> Result<Binaries, Failure> {
    let output = cargo()
        .args([
            "build",
            "--package",
            "idem-server",
            "--package",
            "walctl",
            "--bins",
        ])
        .args(["--message-format", "json-render-diagnostics"])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(Failure::io("starting cargo build"))?;
    if !output.status.success() {
        return Err(Failure::new(format!("cargo build failed: {}", output.status)));
    }
    let mut found = executables(&String::from_utf8_lossy(&output.stdout));
    let mut take = |name: &str| {
        let path = found.remove(name);
        path.ok_or_else(|| Failure::new(format!("cargo build made no {name}")))
    };
    Ok(Binaries {
        idemd: take("idemd")?,
        walctl: take("walctl")?,
    })
}

/// Name and path of each executable in cargo's messages, one JSON object a line.
pub(crate) fn executables(messages: &str) -> BTreeMap<String, PathBuf> {
    let objects = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    objects
        .filter_map(|object| {
            let path = object["executable"].as_str()?;
            Some((object["target"]["name"].as_str()?.to_owned(), PathBuf::from(path)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_are_found_among_other_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"idem_wal"},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"idemd"},"executable":"/t/debug/idemd"}"#,
            "\nnot json\n",
            r#"{"reason":"build-finished","success":true}"#,
            "\n",
        );
        let found = executables(messages);
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            [("idemd".to_owned(), PathBuf::from("/t/debug/idemd"))]
        );
    }
}
