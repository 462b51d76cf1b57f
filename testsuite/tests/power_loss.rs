//! Real loss of power on a real file system: what was not synced is gone, and nothing that was told is.
//!
//! Method: a server on an ext4 image that is shut down as a power loss would, unmounted and mounted again. `always` has to
//! keep everything that anybody was told; `everysec` may lose the last second; that `no` loses something shows that the
//! disk of this test really loses what was not synced.

use std::time::Duration;

use idem_testsuite::kill_loop::{Site, cycles, run};
use idem_testsuite::ledger::Ledger;
use idem_testsuite::process::loopfs::LossyDisk;
use idem_testsuite::process::{Idemd, IdemdOptions, Policy};
use idem_testsuite::require::not_permitted;
use idem_testsuite::testdir::TestDir;

const DISK_BYTES: u64 = 64 << 20;

fn lossy(name: &str, dir: &TestDir) -> Option<LossyDisk> {
    LossyDisk::new(dir.path(), DISK_BYTES)
        .map_err(|reason| not_permitted(name, &reason))
        .ok()
}

#[test]
fn with_always_a_power_loss_takes_nothing_that_was_told() {
    let dir = TestDir::new("power", 21);
    let Some(disk) = lossy("power loss", &dir) else {
        return;
    };
    let options = IdemdOptions::default().policy(Policy::Always).small_files();
    match run(&Site::lossy(&disk, options), dir.seed(), cycles(6)) {
        Ok(summary) => {
            println!("{summary:?}");
            assert!(
                summary.acknowledged > 50 * summary.cycles,
                "too little was acknowledged: {summary:?}"
            );
        }
        Err(violation) => panic!("{violation}"),
    }
}

/// What is there after a loss of power so long after the last acknowledgement.
fn after_power_loss(policy: Policy, pause: Duration) -> Option<Result<(), String>> {
    let dir = TestDir::new("power-ledger", 1);
    let disk = lossy("power loss", &dir)?;
    let data = disk.path().join("data");
    let options = IdemdOptions::default()
        .policy(policy)
        .small_files()
        .through(disk.enter());
    let server = Idemd::start(&data, &options);
    let mut ledger = Ledger::default();
    ledger
        .steps(&mut server.client(), 100, 50)
        .expect("nothing fails");
    std::thread::sleep(pause);
    disk.cut();
    server.sigkill();
    disk.restore();
    let server = Idemd::start(&data, &options);
    let differences = ledger.differences(&mut server.client());
    server.stop();
    Some(differences)
}

#[test]
fn with_everysec_a_power_loss_takes_nothing_older_than_a_second() {
    if let Some(outcome) = after_power_loss(Policy::Everysec, Duration::from_millis(1000)) {
        outcome.expect("a second has passed");
    }
}

#[test]
fn with_always_nothing_has_to_pass() {
    if let Some(outcome) = after_power_loss(Policy::Always, Duration::ZERO) {
        outcome.expect("it was synced before it was acknowledged");
    }
}

/// The disk of these tests can lose something.
#[test]
fn with_no_the_kernel_had_not_written_anything_yet() {
    if let Some(outcome) = after_power_loss(Policy::No, Duration::ZERO) {
        outcome.expect_err("nothing was synced, and the kernel writes later");
    }
}
