//! The oracles can fail: what a disk that lies would do to a log is noticed by what clients were told.
//!
//! Goal: a passing kill loop means something. Method: after a kill the acknowledged end of the log is made zeros, as if it
//! had never reached the disk. Nothing in the log vouches for it, so the server starts; the oracle has to see it.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use idem_testsuite::files;
use idem_testsuite::ledger::Ledger;
use idem_testsuite::oracle::{Oracle, Reader, Writer};
use idem_testsuite::process::{Idemd, IdemdOptions, Policy};
use idem_testsuite::rng::Rng;
use idem_testsuite::testdir::TestDir;

/// Frames begin here.
const FIRST_FRAME: usize = idem_protocol::wal::SEGMENT_HEADER_BYTES;

/// The newest segment, from the middle of what is written, becomes zeros.
fn lose_the_end(dir: &Path) {
    let newest = files::segments(dir).pop().expect("there is a segment");
    let mut bytes = fs::read(&newest).expect("it is readable");
    let end = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .expect("there is a header")
        + 1;
    let middle = FIRST_FRAME + (end - FIRST_FRAME) / 2;
    bytes[middle..end].fill(0);
    fs::write(&newest, bytes).expect("it is writable");
}

/// `no` syncs nothing and seals only at the end: no mark in the log promises what is lost.
fn options() -> IdemdOptions {
    IdemdOptions::default().policy(Policy::No)
}

/// Waits until the server has carried out so many commands, this function's own included.
fn wait_for_commands(server: &Idemd, least: u64) {
    let mut client = server.client();
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let info = client.ask("INFO stats");
        let text = String::from_utf8_lossy(info.as_bytes().expect("INFO is text")).into_owned();
        let count = text
            .split("\r\n")
            .find_map(|line| line.strip_prefix("total_commands_processed:"));
        if count
            .expect("INFO counts commands")
            .parse::<u64>()
            .expect("it is a number")
            >= least
        {
            return;
        }
        assert!(Instant::now() < end, "the clients do nothing");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// One writer and one reader until a kill; what the oracle says afterwards.
fn one_crash(damage: impl FnOnce(&Path)) -> Result<(), String> {
    let dir = TestDir::new("oracle", 1);
    let oracle = Oracle::new(1);
    let mut writer = Writer::new(0, Rng::new(1));
    let mut reader = Reader::new(1, Rng::new(2));
    let server = Idemd::start(&dir.data(), &options());
    let (mut client, mut other) = (server.client(), server.client());
    std::thread::scope(|scope| {
        let work = [
            scope.spawn(|| writer.work(&mut client, &oracle)),
            scope.spawn(|| reader.work(&mut other, &oracle)),
        ];
        wait_for_commands(&server, 3000);
        server.sigkill();
        for worker in work {
            worker
                .join()
                .expect("clients do not panic")
                .expect("replies are right while nothing is damaged");
        }
    });
    assert!(writer.acknowledged > 100 && reader.told > 0);
    damage(&dir.data());
    let server = Idemd::start(&dir.data(), &options());
    let mut client = server.client();
    writer.resume(&mut client, &oracle)?;
    oracle.shared.check(&mut client)
}

#[test]
fn a_kill_alone_is_no_violation() {
    one_crash(|_| {}).expect("nothing was lost");
}

#[test]
fn a_lost_end_is_noticed() {
    let violation = one_crash(lose_the_end).expect_err("half of the log is gone");
    assert!(
        violation.contains("acknowledged") || violation.contains("gone"),
        "{violation}"
    );
}

#[test]
fn a_lost_end_is_noticed_by_the_ledger() {
    let dir = TestDir::new("ledger", 1);
    let server = Idemd::start(&dir.data(), &options());
    let mut ledger = Ledger::default();
    ledger
        .steps(&mut server.client(), 100, 20)
        .expect("nothing fails");
    server.sigkill();
    lose_the_end(&dir.data());
    let server = Idemd::start(&dir.data(), &options());
    let mut client = server.client();
    ledger
        .differences(&mut client)
        .expect_err("half of the log is gone");
}
