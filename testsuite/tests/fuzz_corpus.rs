//! The fuzz targets without a fuzzer, on stable Rust, in every run of the tests: each seed, each input that fuzzing kept,
//! and a bounded number of changes to them from a fixed seed.
//!
//! `IDEM_FUZZ_ROUNDS=n` makes `n` times as many changes. `IDEM_BLESS=1` writes the seeds into `fuzz/corpus`, for a fuzzer to
//! start from.

#![allow(
    clippy::unwrap_used,
    reason = "a helper of tests is a test: what is not so fails it"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use idem_testsuite::fuzz::{TARGETS, Target, corpus, mutate};
use idem_testsuite::rng::{Rng, seed};

/// Changed inputs of one target in one round.
const CHANGES: usize = 10_000;

fn target(name: &str) -> Target {
    let found = TARGETS.iter().find(|target| target.name == name);
    *found.unwrap_or_else(|| panic!("there is no target {name}"))
}

/// Runs a target; what it panics at is printed as a file's content, so that it can be kept.
fn check(target: &Target, origin: &str, input: &[u8]) {
    let run = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    assert!(
        run.is_ok(),
        "{} fails on {origin}; the input, for printf > fuzz/corpus/{}/NAME: '{}'",
        target.name,
        target.name,
        input
            .iter()
            .map(|byte| format!("\\x{byte:02x}"))
            .collect::<String>()
    );
}

fn play(name: &str) {
    let target = target(name);
    let seeds = corpus::seeds(&target);
    if std::env::var_os("IDEM_BLESS").is_some() {
        let directory = corpus::directory(&target);
        std::fs::create_dir_all(&directory).unwrap();
        for (name, bytes) in seeds.iter().filter(|(_, bytes)| bytes.len() <= target.bytes_max) {
            std::fs::write(directory.join(format!("seed-{name}")), bytes).unwrap();
        }
    }
    let inputs: Vec<(String, Vec<u8>)> = seeds.into_iter().chain(corpus::kept(&target)).collect();
    for (name, input) in &inputs {
        check(&target, name, input);
    }
    let rounds: usize = std::env::var("IDEM_FUZZ_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap());
    let seed = seed(0x1de_f022);
    let plan = Rng::new(seed);
    for index in 0..CHANGES * rounds {
        let mut rng = plan.part(u64::try_from(index).unwrap());
        let (name, input) = &inputs[rng.index(inputs.len())];
        let (_, other) = &inputs[rng.index(inputs.len())];
        let mut changed = input.clone();
        mutate(&mut changed, other, target.bytes_max, &mut rng);
        check(
            &target,
            &format!("change {index} of {name} (IDEM_SEED={seed})"),
            &changed,
        );
    }
}

#[test]
fn resp_command() {
    play("resp_command");
}

#[test]
fn resp_value() {
    play("resp_value");
}

#[test]
fn wal_records() {
    play("wal_records");
}

#[test]
fn command() {
    play("command");
}

#[test]
fn glob() {
    play("glob");
}

/// The programs of the fuzzer, and the folders of their inputs, are those of the targets.
#[test]
fn each_target_has_its_program() {
    let fuzz = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
    let manifest = std::fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    for target in &TARGETS {
        assert!(
            manifest.contains(&format!("name = \"{}\"", target.name)),
            "{}",
            target.name
        );
        let program = fuzz.join("fuzz_targets").join(format!("{}.rs", target.name));
        let text = std::fs::read_to_string(program).unwrap();
        assert!(text.contains(&format!("fuzz::{}(data)", target.name)), "{text}");
    }
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
}
