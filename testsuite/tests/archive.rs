//! A server at work: its log is judged record by record, compared and archived meanwhile, and comes back from the archive.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use idem_protocol::resp::value::Value;
use idem_testsuite::process::{Client, Idemd, IdemdOptions, binaries};
use idem_testsuite::rng::Rng;
use idem_testsuite::testdir::TestDir;

/// So much is written: dozens of segments, and the server keeps less than half of it.
const WRITTEN_BYTES: u64 = 40 << 20;
/// Far more time than that takes.
const PATIENCE: Duration = Duration::from_secs(120);

fn walctl(arguments: &[&str]) -> Command {
    let mut command = Command::new(binaries::walctl());
    command.args(arguments).stdin(Stdio::null());
    command
}

/// The exit code and the last object that was printed; stderr in the message when it is another code.
fn run(arguments: &[&str], expected: i32) -> serde_json::Value {
    let output = walctl(arguments).arg("--json").output().expect("walctl starts");
    let words = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(expected),
        "{arguments:?}: {text}{words}"
    );
    let last = text.lines().last().unwrap_or("null");
    serde_json::from_str(last).expect("a line is an object")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths of tests are text")
}

/// Begins, completes, aborts, lets run out, overwrites: whatever a client may do to a few keys.
fn work(mut client: Client, seed: u64, stop: &AtomicBool) {
    let mut rng = Rng::new(seed);
    let value = "v".repeat(8000);
    while !stop.load(Ordering::Relaxed) {
        let key = rng.below(40);
        let owner = rng.below(3);
        let command = match rng.below(12) {
            0..5 => format!(
                "IDEM k{key} BEGIN fp{} o{owner} {}",
                rng.below(2),
                1 + rng.below(300)
            ),
            5..8 => format!("IDEM k{key} COMPLETE fp0 o{owner} {value}"),
            8 => format!("IDEM k{key} ABORT fp0 o{owner}"),
            9 => format!("SET s{key} {value} PX {}", 1 + rng.below(2000)),
            10 => format!("PEXPIRE k{key} {}", 1 + rng.below(300)),
            _ => format!("DEL k{key}"),
        };
        let reply = client.ask(&command);
        assert!(!matches!(reply, Value::Error(_)), "{command}: {reply:?}");
    }
}

fn histories(store: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(store).into_iter().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

/// Stops the other threads of a test, also one that failed.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Where the server's log ends.
fn end(client: &mut Client) -> u64 {
    let Value::Bulk(text) = client.ask("INFO") else {
        panic!("INFO answers a string");
    };
    let text = String::from_utf8(text).expect("INFO is text");
    let found = text.lines().find_map(|line| line.strip_prefix("wal_lsn:"));
    found
        .and_then(|lsn| lsn.parse().ok())
        .expect("wal_lsn is in INFO")
}

/// Archives again and again, and kills every other run somewhere; the last one is let through.
fn archive_and_kill(dir: &Path, store: &Path, stop: &AtomicBool) {
    let mut rng = Rng::new(7);
    while !stop.load(Ordering::Relaxed) {
        let arguments = ["archive", text(dir), "--into", text(store), "--yes"];
        let mut child = walctl(&arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("walctl starts");
        if rng.below(2) == 0 {
            std::thread::sleep(Duration::from_millis(rng.below(12)));
            child.kill().expect("it is this test's child");
        }
        let output = child.wait_with_output().expect("it ends");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0) | None), "{words}");
    }
    run(&["archive", text(dir), "--into", text(store), "--yes"], 0);
}

#[test]
fn a_log_is_judged_and_archived_while_it_is_written_and_comes_back() {
    let test = TestDir::new("archive", 1);
    let (dir, store) = (test.data(), test.path().join("store"));
    let options = IdemdOptions::default()
        .option("wal-segment-bytes", "1mb")
        .option("snapshot-wal-bytes", "3mb")
        .option("wal-keep-bytes", "16mb")
        .option("appendfsync", "no");
    let server = Idemd::start(&dir, &options);
    let stop = AtomicBool::new(false);
    let began = Instant::now();
    std::thread::scope(|scope| {
        let stop = &stop;
        let stopping = Stopping(stop);
        for seed in 0..3 {
            let client = server.client();
            scope.spawn(move || work(client, seed, stop));
        }
        let archiver = scope.spawn(|| archive_and_kill(&dir, &store, stop));
        let mut client = server.client();
        let mut judged = 0;
        while end(&mut client) < WRITTEN_BYTES && began.elapsed() < PATIENCE && !archiver.is_finished() {
            let verdict = run(&["verify", text(&dir), "--deep"], 0);
            assert_eq!(verdict["live"], true);
            judged += verdict["deep"]["records"].as_u64().expect("a number");
        }
        drop(stopping);
        archiver.join().expect("archiving goes on under load");
        assert!(
            judged > 0 && end(&mut client) >= WRITTEN_BYTES,
            "too little was written"
        );
    });
    server.stop();

    let verdict = run(&["verify", text(&dir), "--deep"], 0);
    assert_eq!(
        (&verdict["letter"], &verdict["deep"]["findings"]),
        (&"A".into(), &0.into())
    );
    run(
        &["archive", text(&dir), "--into", text(&store), "--yes", "--check"],
        0,
    );
    // The log is archived from its first record on, though the server keeps only its end.
    let [history] = &histories(&store)[..] else {
        panic!("one history: {:?}", histories(&store));
    };
    let archived = run(&["verify", text(history), "--deep"], 0);
    assert_eq!(
        (&archived["letter"], &archived["deep"]["from_lsn"]),
        (&"B".into(), &0.into())
    );
    assert!(archived["deep"]["snapshots"].as_u64() > Some(0), "{archived}");
    let same = run(&["diff", text(&dir), text(history)], 0);
    assert!(same["from_lsn"].as_u64() > Some(0), "nothing was removed: {same}");
    assert_eq!(same["to_lsn"], archived["end_lsn"]);

    // A server takes it for damage, and what is restored of it serves.
    let refused = Idemd::try_start(history, &options).expect_err("an archive is no data directory");
    assert_eq!(refused.code(), 3);
    let command = format!("walctl restore --from {} --into NEW", text(history));
    assert!(refused.stderr.contains(&command), "{}", refused.stderr);
    let (end, new) = (archived["end_lsn"].to_string(), test.path().join("new"));
    let restored = [
        "restore",
        "--from",
        text(&store),
        "--into",
        text(&new),
        "--to-lsn",
        &end,
        "--yes",
    ];
    let told = run(&restored, 0);
    let replayed = run(&["replay", text(&dir), "--to-lsn", &end], 0);
    assert_eq!(told["digest"], replayed["digest"]);
    let server = Idemd::start(&new, &options);
    let reply = server.client().ask("IDEM new BEGIN fp o 1000");
    assert!(matches!(reply, Value::Array(_)), "{reply:?}");
    server.stop();
    assert_eq!(run(&["verify", text(&new), "--deep"], 0)["deep"]["findings"], 0);
}
