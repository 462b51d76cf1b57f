//! What any bytes may do to the code that reads them: one function for each target, and the seeds they start from.
//!
//! # Vocabulary
//!
//! * **target** — a function that is given any bytes and panics when something that must always hold does not. It is the
//!   body of a libFuzzer program in `fuzz/`, and is played by `tests/fuzz_corpus.rs` in every run of the tests.
//! * **corpus** — inputs that once led somewhere: seeds made from golden vectors and contract cases ([`corpus`]), and what
//!   the fuzzer found (`fuzz/corpus/TARGET/`).
//! * **cut** — a place at which the network, and so a target, hands over bytes in two pieces.
//!
//! # Invariants
//!
//! * A target depends on its bytes alone: no clock, no randomness, nothing kept from one input to the next. What failed
//!   once fails again.
//! * A target has an opinion about what is right (one spelling of each value, the same result however the input is cut,
//!   the state of a replay), and does not only wait for a crash.
//! * Work is bounded by the length of the input, so that a fuzzer's timeout means an endless loop and nothing else.
//!
//! # Deliberately absent
//!
//! The fuzzer: libFuzzer needs a compiler flag and a crate of its own (`fuzz/README.md`). What is here is ordinary code
//! for stable Rust.

mod bytes;
mod command;
pub mod corpus;
mod glob;
mod mutate;
mod resp_command;
mod resp_value;
mod wal_records;

pub use command::command;
pub use glob::glob;
pub use mutate::mutate;
pub use resp_command::resp_command;
pub use resp_value::resp_value;
pub use wal_records::wal_records;

/// A target with its name.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of the program in `fuzz/` and of the folder of its corpus.
    pub name: &'static str,
    /// Its body.
    pub run: fn(&[u8]),
    /// Inputs longer than this teach nothing new and cost time, in bytes.
    pub bytes_max: usize,
}

/// All targets.
pub const TARGETS: [Target; 5] = [
    Target {
        name: "resp_command",
        run: resp_command,
        bytes_max: 4096,
    },
    Target {
        name: "resp_value",
        run: resp_value,
        bytes_max: 4096,
    },
    Target {
        name: "wal_records",
        run: wal_records,
        bytes_max: 4096,
    },
    Target {
        name: "command",
        run: command,
        bytes_max: 2048,
    },
    Target {
        name: "glob",
        run: glob,
        bytes_max: 256,
    },
];
