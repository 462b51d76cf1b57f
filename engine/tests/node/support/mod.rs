//! The vocabulary of these tests.

mod log;
mod script;
mod world;

pub(crate) use log::{MemoryLog, Mode};
pub(crate) use script::{check, check_in};
pub(crate) use world::{World, parse};

use proptest::test_runner::{Config, RngSeed};

/// A proptest run that is the same every time.
pub(crate) fn seeded(cases: u32) -> Config {
    Config {
        cases,
        rng_seed: RngSeed::Fixed(0x1DE3),
        failure_persistence: None,
        ..Config::default()
    }
}
