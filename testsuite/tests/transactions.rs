//! SIGKILL, and loss of power, in the middle of transactions, again and again: after each restart a transaction is there as
//! a whole or not at all, and every one that was acknowledged, or seen by a reader, is there.
//!
//! Small segments and snapshots make kills fall into rotations and publications, too. `IDEM_KILL_CYCLES` sets the number of
//! kills, `IDEM_SEED` the plan. That a log is cut inside of a transaction, at every byte, is for the simulated disk.

use idem_testsuite::kill_loop::{Site, cycles};
use idem_testsuite::process::loopfs::LossyDisk;
use idem_testsuite::process::{IdemdOptions, Policy};
use idem_testsuite::require::not_permitted;
use idem_testsuite::testdir::TestDir;
use idem_testsuite::transactions::{Completion, Job, ThreeKeys, run};

fn options(policy: Policy) -> IdemdOptions {
    IdemdOptions::default().policy(policy).small_files()
}

fn killed(name: &str, policy: Policy, seed: u64, job: &impl Job) {
    let dir = TestDir::new(name, seed);
    check(name, &Site::new(&dir.data(), options(policy)), dir.seed(), job);
}

fn check(name: &str, site: &Site<'_>, seed: u64, job: &impl Job) {
    match run(site, seed, cycles(8), job) {
        Ok(summary) => {
            println!("{name}: {summary:?}");
            assert!(
                summary.acknowledged > 10 * summary.kills,
                "too little was done: {summary:?}"
            );
        }
        Err(violation) => panic!("{violation}"),
    }
}

#[test]
fn three_keys_change_together_with_always() {
    killed("transactions-always", Policy::Always, 31, &ThreeKeys);
}

#[test]
fn three_keys_change_together_with_no() {
    killed("transactions-no", Policy::No, 32, &ThreeKeys);
}

#[test]
fn a_completion_its_marker_and_its_effect_survive_or_vanish_together() {
    killed("transactions-idem", Policy::Always, 33, &Completion);
}

#[test]
fn a_loss_of_power_takes_no_part_of_a_transaction() {
    let dir = TestDir::new("transactions-power", 34);
    match LossyDisk::new(dir.path(), 64 << 20) {
        Ok(disk) => check(
            "transactions-power",
            &Site::lossy(&disk, options(Policy::Always)),
            dir.seed(),
            &ThreeKeys,
        ),
        Err(reason) => not_permitted("a_loss_of_power_takes_no_part_of_a_transaction", &reason),
    }
}
