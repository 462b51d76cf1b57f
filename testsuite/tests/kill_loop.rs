//! SIGKILL in the middle of everything, again and again, under each policy.
//!
//! `IDEM_KILL_CYCLES` sets the number of cycles (the long tier runs hundreds), `IDEM_SEED` the plan.

use idem_testsuite::kill_loop::{Site, cycles, run};
use idem_testsuite::process::{IdemdOptions, Policy};
use idem_testsuite::testdir::TestDir;

fn check(policy: Policy, seed: u64) {
    let dir = TestDir::new(&format!("kill-{}", policy.word()), seed);
    let options = IdemdOptions::default().policy(policy).small_files();
    match run(&Site::new(&dir.data(), options), dir.seed(), cycles(10)) {
        Ok(summary) => {
            println!("{policy:?}: {summary:?}");
            assert!(
                summary.acknowledged > 100 * summary.cycles,
                "too little was acknowledged: {summary:?}"
            );
        }
        Err(violation) => panic!("{violation}"),
    }
}

#[test]
fn nothing_told_is_lost_with_always() {
    check(Policy::Always, 11);
}

#[test]
fn nothing_told_is_lost_with_everysec() {
    check(Policy::Everysec, 12);
}

#[test]
fn nothing_told_is_lost_with_no() {
    check(Policy::No, 13);
}
