//! Point-in-time recovery of a running server's directory, and a server on what came of it.

use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use idem_protocol::resp::value::Value;
use idem_testsuite::process::namespace::SmallDisk;
use idem_testsuite::process::{Client, Idemd, IdemdOptions, Policy, binaries};
use idem_testsuite::require::not_permitted;
use idem_testsuite::testdir::TestDir;
use idem_testsuite::walctl;

fn set(client: &mut Client, key: &str, value: &str) {
    assert_eq!(
        client.ask(&format!("SET {key} {value}")),
        Value::Simple("OK".into())
    );
}

fn get(client: &mut Client, key: &str) -> Value {
    client.ask(&format!("GET {key}"))
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

/// `walctl restore … --yes --json`; the object that it prints.
fn restore(dir: &Path, into: &Path, lsn: &str) -> serde_json::Value {
    let output = Command::new(binaries::walctl())
        .arg("restore")
        .arg(dir)
        .arg("--into")
        .arg(into)
        .args(["--to-lsn", lsn, "--yes", "--json"])
        .output()
        .expect("walctl starts");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    serde_json::from_slice(&output.stdout).expect("one object")
}

/// The number behind a field of INFO.
fn info(client: &mut Client, field: &str) -> String {
    let Value::Bulk(text) = client.ask("INFO") else {
        panic!("INFO answers a string");
    };
    let text = String::from_utf8(text).expect("INFO is text");
    let mut lines = text.lines();
    let found = lines.find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    found.unwrap_or_else(|| panic!("{field} is in INFO")).to_owned()
}

/// A BEGIN, a COMPLETE and plain keys; a mistake; back to before it. Both servers go on, each on its own.
#[test]
fn a_mistake_is_undone_in_a_new_directory_that_serves() {
    let dir = TestDir::new("restore", 1);
    let options = IdemdOptions::default();
    let server = Idemd::start(&dir.data(), &options);
    let mut client = server.client();
    client.ask("IDEM order:1 BEGIN fp worker 600000");
    let begun = get(&mut client, "order:1");
    assert_ne!(begun, Value::Null);
    set(&mut client, "kept", "1");
    let lsn = info(&mut client, "wal_lsn");
    client.ask("FLUSHALL");
    set(&mut client, "kept", "2");
    server.sigkill();

    let into = dir.path().join("restored");
    let told = restore(&dir.data(), &into, &lsn);
    assert_eq!(told["lsn"].to_string(), lsn);
    assert_eq!(told["keys"], 2);
    let verdict = walctl::verify(&into);
    assert_eq!((verdict.code, verdict.letter()), (0, "A"), "{}", verdict.last());

    let restored = Idemd::start(&into, &options);
    assert!(restored.ready().epoch > told["epoch"].as_u64().expect("a number"));
    let mut new = restored.client();
    assert_eq!(get(&mut new, "order:1"), begun);
    assert_eq!(get(&mut new, "kept"), bulk("1"));
    set(&mut new, "after", "3");
    restored.sigkill();
    let restored = Idemd::start(&into, &options);
    assert_eq!(get(&mut restored.client(), "after"), bulk("3"));
    restored.stop();

    // The one it came from is as it was.
    let server = Idemd::start(&dir.data(), &options);
    let mut client = server.client();
    assert_eq!(get(&mut client, "order:1"), Value::Null);
    assert_eq!(get(&mut client, "kept"), bulk("2"));
    server.stop();
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let ms = since.expect("it is after 1970").as_millis();
    u64::try_from(ms).expect("it is before the year 584554051")
}

/// Nothing was written since: the end of the log is the state at any moment until now, while the server runs.
#[test]
fn a_moment_since_the_last_record_of_a_resting_server_is_the_end_of_its_log() {
    for policy in [Policy::Always, Policy::Everysec] {
        let dir = TestDir::new("resting", 1);
        let server = Idemd::start(&dir.data(), &IdemdOptions::default().policy(policy));
        let mut client = server.client();
        client.ask("IDEM order:1 BEGIN fp worker 50");
        set(&mut client, "kept", "1");
        // That it has ended is told once the log's time says so, in a record that no seal follows.
        while get(&mut client, "order:1") != Value::Null {}
        let (lsn, now) = (info(&mut client, "wal_lsn"), now_ms());
        let into = dir.path().join("restored");
        let output = Command::new(binaries::walctl())
            .arg("restore")
            .arg(dir.data())
            .arg("--into")
            .arg(&into)
            .args(["--to-time", &now.to_string(), "--yes", "--json"])
            .output()
            .expect("walctl starts");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {words}", policy.word());
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
        assert!(told["lsn"].as_u64() <= lsn.parse().ok(), "{told}");
        server.sigkill();
        let restored = Idemd::start(&into, &IdemdOptions::default());
        let mut client = restored.client();
        assert_eq!(get(&mut client, "kept"), bulk("1"));
        assert_eq!(get(&mut client, "order:1"), Value::Null);
        restored.stop();

        // Tomorrow is no moment of any log.
        let tomorrow = (now + 86_400_000).to_string();
        let output = Command::new(binaries::walctl())
            .args(["replay", "--json", "--to-time", &tomorrow])
            .arg(dir.data())
            .output()
            .expect("walctl starts");
        assert_eq!(output.status.code(), Some(1));
        let refused: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
        assert!(
            refused["ranges"][0]["to_lsn"].as_u64() >= lsn.parse().ok(),
            "{refused}"
        );
    }
}

/// Two megabytes onto a disk of less: said before anything is written, in bytes, and nothing is left.
#[test]
fn a_disk_that_is_too_small_is_found_out_first() {
    let (source, small) = (TestDir::new("restore-from", 1), TestDir::new("restore-small", 1));
    let disk = match SmallDisk::mount(small.path(), 2 << 20) {
        Ok(disk) => disk,
        Err(reason) => return not_permitted("a_disk_that_is_too_small_is_found_out_first", &reason),
    };
    let server = Idemd::start(&source.data(), &IdemdOptions::default());
    let mut client = server.client();
    set(&mut client, "large", &"v".repeat(2 << 20));
    let lsn = info(&mut client, "wal_lsn");
    server.stop();

    let mut words = disk.enter().into_iter();
    let output = Command::new(words.next().expect("there is a program"))
        .args(words)
        .arg(binaries::walctl())
        .arg("restore")
        .arg(source.data())
        .arg("--into")
        .arg(small.data())
        .args(["--to-lsn", &lsn, "--yes"])
        .output()
        .expect("walctl starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("bytes are needed"), "{said}");
    let left = std::fs::read_dir(disk.inside()).expect("the disk can be listed");
    assert_eq!(left.count(), 0, "nothing is left of it");
}
