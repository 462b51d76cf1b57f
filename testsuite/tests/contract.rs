//! The contract's cases, against a node in this process and against the real server under every policy.

use idem_testsuite::contract::{NodeTarget, Report, ServerTarget, Target, files, run};
use idem_testsuite::process::{IdemdOptions, Policy};
use idem_testsuite::testdir::TestDir;

fn check(target: &mut impl Target) {
    let Report { cases, failures, .. } = run(target, &files());
    assert!(cases >= 100, "the cases were found: {cases}");
    assert!(
        failures.is_empty(),
        "{} of {cases} cases failed:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn a_node_in_this_process_keeps_the_contract() {
    check(&mut NodeTarget::new());
}

fn server_keeps_the_contract(policy: Policy) {
    let dir = TestDir::new("contract", 1);
    let options = IdemdOptions::default()
        .policy(policy)
        .option("wal-segment-bytes", "16mb");
    check(&mut ServerTarget::start(&dir.data(), options));
}

#[test]
fn the_server_keeps_the_contract_with_always() {
    server_keeps_the_contract(Policy::Always);
}

#[test]
fn the_server_keeps_the_contract_with_everysec() {
    server_keeps_the_contract(Policy::Everysec);
}

#[test]
fn the_server_keeps_the_contract_with_no() {
    server_keeps_the_contract(Policy::No);
}
