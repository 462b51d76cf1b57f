//! The program with little memory.

use std::process::{Command, Output};

/// With 64 MiB of address space, and the program itself is a part of that.
pub fn in_little_memory(arguments: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "ulimit -v 65536 && exec \"$@\"",
            "sh",
            env!("CARGO_BIN_EXE_walctl"),
        ])
        .args(arguments);
    command.output().unwrap()
}
