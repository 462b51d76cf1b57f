//! A disk that is full: writes are refused in words, reads go on, and when space is back everything goes on.
//!
//! Method: a tmpfs of a few megabytes in a mount namespace of its own, filled and emptied from outside through
//! `/proc/PID/root`. (tmpfs has no syncs that could fail; failing writes and syncs are in `strace.rs`.)

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use idem_protocol::resp::value::Value;
use idem_testsuite::ledger::{Ledger, Refusal};
use idem_testsuite::process::namespace::SmallDisk;
use idem_testsuite::process::{Client, Idemd, IdemdOptions};
use idem_testsuite::require::not_permitted;
use idem_testsuite::testdir::TestDir;

const MIB: u64 = 1 << 20;
/// A result that fills a segment of 1 MiB in a few steps.
const LARGE: usize = 100_000;

struct Bench {
    dir: TestDir,
    disk: SmallDisk,
    ledger: Ledger,
}

impl Bench {
    fn new(name: &str, bytes: u64) -> Option<Bench> {
        let dir = TestDir::new(name, 1);
        match SmallDisk::mount(dir.path(), bytes) {
            Ok(disk) => Some(Bench {
                dir,
                disk,
                ledger: Ledger::default(),
            }),
            Err(reason) => {
                not_permitted(name, &reason);
                None
            }
        }
    }

    fn options(&self) -> IdemdOptions {
        // Snapshots on demand only, and no log is kept behind them.
        let options = IdemdOptions::default()
            .option("wal-segment-bytes", "1mb")
            .option("wal-keep-bytes", "0");
        options.through(self.disk.enter())
    }

    fn start(&self) -> Idemd {
        Idemd::start(&self.dir.data(), &self.options())
    }

    /// Fills the disk to its last page.
    fn fill(&self) {
        let mut file = fs::File::create(self.disk.inside().join("filler")).expect("the disk takes a name");
        let page = [0xAA; 4096];
        while file.write_all(&page).is_ok() {}
    }

    fn empty(&self) {
        fs::remove_file(self.disk.inside().join("filler")).expect("the filler is there");
    }

    fn files(&self) -> std::collections::BTreeMap<std::path::PathBuf, Vec<u8>> {
        let mut files = idem_testsuite::files::tree(&self.disk.inside());
        files.retain(|path, _| path.file_name() != Some(Path::new("filler").as_os_str()));
        files
    }

    /// Large steps, then small ones, until not even those find room.
    fn write_until_refused(&mut self, client: &mut Client) {
        for result_bytes in [LARGE, 10] {
            match self.ledger.steps(client, result_bytes, 10_000) {
                Err(Refusal::Error(text)) => assert!(text.starts_with("MISCONF"), "{text}"),
                other => panic!("the disk is full, and still: {other:?}"),
            }
        }
    }
}

/// Waits until a condition holds; spares are tried again every second.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "not within twenty seconds: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_full_disk_refuses_writes_and_nothing_else() {
    let Some(mut bench) = Bench::new("full", 16 * MIB) else {
        return;
    };
    let server = bench.start();
    let mut client = server.client();
    bench.ledger.steps(&mut client, 10, 3).expect("there is space");
    let settled = bench
        .ledger
        .completed_key()
        .expect("three are completed")
        .to_owned();
    for _ in 0..2 {
        bench.fill();
        bench.write_until_refused(&mut client);
        // Reads, probes and refusals write nothing: they are answered.
        assert!(matches!(client.ask(&format!("GET {settled}")), Value::Bulk(_)));
        assert!(matches!(
            client.ask(&format!("IDEM {settled} INSPECT")),
            Value::Array(_)
        ));
        assert_eq!(
            client.ask(&format!("IDEM {settled} COMPLETE other other r")),
            Value::Int(0)
        );
        let conflict = Value::Array(vec![Value::Bulk(b"conflict".to_vec())]);
        assert_eq!(
            client.ask(&format!("IDEM {settled} BEGIN another owner 1000")),
            conflict
        );
        assert_eq!(client.ask("PING"), Value::Simple("PONG".into()));
        bench.ledger.check(&mut client);
        bench.empty();
        eventually("writes go on", || bench.ledger.step(&mut client, LARGE).is_ok());
    }
    bench.ledger.check(&mut client);
    server.sigkill();
    drop(server);
    let server = bench.start();
    bench.ledger.check(&mut server.client());
    server.stop();
}

/// A kill while the disk is full: the start says how many bytes it needs, changes nothing, and has everything once they
/// are there.
#[test]
fn a_start_without_space_names_the_bytes() {
    let Some(mut bench) = Bench::new("full-start", 6 * MIB) else {
        return;
    };
    let server = bench.start();
    let mut client = server.client();
    bench.fill();
    bench.write_until_refused(&mut client);
    server.sigkill();
    drop(server);
    let before = bench.files();
    let failure =
        Idemd::try_start(&bench.dir.data(), &bench.options()).expect_err("there is no room for a start");
    assert_eq!(failure.code(), 1, "{}", failure.stderr);
    assert!(
        failure.stderr.contains("bytes"),
        "the bytes are named: {}",
        failure.stderr
    );
    assert!(bench.files() == before, "nothing was changed");
    bench.empty();
    let server = bench.start();
    let mut client = server.client();
    bench.ledger.check(&mut client);
    bench
        .ledger
        .steps(&mut client, LARGE, 3)
        .expect("there is space again");
    server.stop();
}

/// A new directory on a disk that cannot hold one segment: exit code 1 and the bytes, and no half-made directory in the
/// way of the next try.
#[test]
fn a_new_directory_without_space_is_refused_with_the_bytes() {
    let Some(bench) = Bench::new("full-new", MIB / 2) else {
        return;
    };
    let failure =
        Idemd::try_start(&bench.dir.data(), &bench.options()).expect_err("half a segment is too little");
    assert_eq!(failure.code(), 1, "{}", failure.stderr);
    assert!(
        failure.stderr.contains("bytes"),
        "the bytes are named: {}",
        failure.stderr
    );
    let left: u64 = bench
        .files()
        .values()
        .map(|bytes| u64::try_from(bytes.len()).expect("small files"))
        .sum();
    assert!(left < MIB / 4, "{left} bytes are left behind");
}
