//! The contract as data, and the one function that runs it.
//!
//! The cases are text in `protocol/testdata/contract/*.case`; the format is described in the README beside them. A case
//! knows nothing of what answers it: [`run`] is generic over a [`Target`], so that a node in this process, the real
//! server and whatever comes later (a pair that fails over, a stand-in in a client's tests) pass the same suite or fail
//! it at the same line.
//!
//! The cases of Redis's own commands are in `protocol/testdata/commands`, in the same format. They are played against a
//! real `redis-server` as well ([`RedisTarget`]), so that a difference shows; what is ours only is marked ([`Scope`]).
//!
//! Each case starts on empty databases, and runs in RESP2 and in RESP3. Waiting for a deadline is polling with a bound:
//! a target that owns its clock moves it instead of sleeping.

mod case;
mod node;
mod pattern;
mod redis;
mod run;
mod server;
mod text;

pub use case::{Case, CaseFile, Scope, Step, parse};
pub use node::NodeTarget;
pub use pattern::Pattern;
pub use redis::RedisTarget;
pub use run::{Connection, Report, Target, run};
pub use server::ServerTarget;

use std::path::{Path, PathBuf};

/// The contract's cases, by name.
pub fn files() -> Vec<CaseFile> {
    files_in("contract")
}

/// The cases of Redis's commands, by name.
pub fn command_files() -> Vec<CaseFile> {
    files_in("commands")
}

fn files_in(directory: &str) -> Vec<CaseFile> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../protocol/testdata")
        .join(directory);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)
        .expect("the cases are part of the repository")
        .map(|entry| entry.expect("a directory of the repository is readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "case"))
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let text = std::fs::read_to_string(path).expect("cases are UTF-8 text");
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            parse(&name, &text).unwrap_or_else(|error| panic!("{error}"))
        })
        .collect()
}
