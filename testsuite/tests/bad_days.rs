//! Directories as a bad day leaves them: what starts, what is refused, with which exit code, and what is left alone.

use std::fs;
use std::path::Path;
use std::process::Command;

use idem_testsuite::files;
use idem_testsuite::ledger::Ledger;
use idem_testsuite::process::{Idemd, IdemdOptions};
use idem_testsuite::testdir::TestDir;
use idem_testsuite::walctl;

/// A directory with several segments and a snapshot, left by a kill.
fn written(dir: &TestDir) -> Ledger {
    let server = Idemd::start(&dir.data(), &options());
    let mut client = server.client();
    let mut ledger = Ledger::default();
    ledger.steps(&mut client, 50_000, 20).expect("nothing fails");
    client.ask("SAVE");
    ledger.steps(&mut client, 50_000, 40).expect("nothing fails");
    server.sigkill();
    assert!(
        files::segments(&dir.data()).len() >= 3,
        "there are several segments"
    );
    ledger
}

/// Everything is kept, so that there is something to damage.
fn options() -> IdemdOptions {
    IdemdOptions::default().option("wal-segment-bytes", "1mb")
}

/// A start on a damaged directory is refused with exit code 3, names what it found, and changes no byte; walctl says the
/// same with its own exit code.
fn refused(damage: impl FnOnce(&Path), letter: &str, walctl_code: i32, named: &[&str]) {
    let dir = TestDir::new("refused", 1);
    written(&dir);
    damage(&dir.data());
    let before = files::tree(&dir.data());
    let failure = Idemd::try_start(&dir.data(), &options()).expect_err("a damaged log is refused");
    assert_eq!(failure.code(), 3, "{}", failure.stderr);
    for word in named {
        assert!(
            failure.stderr.contains(word),
            "`{word}` is missing:\n{}",
            failure.stderr
        );
    }
    let verdict = walctl::verify(&dir.data());
    assert_eq!(
        (verdict.letter(), verdict.code),
        (letter, walctl_code),
        "{:?}",
        verdict.lines
    );
    assert!(files::tree(&dir.data()) == before, "a refusal changes no byte");
}

/// A start with everything acknowledged, whatever was done to the directory; stderr is returned.
fn started(damage: impl FnOnce(&Path)) -> String {
    let dir = TestDir::new("started", 1);
    let mut ledger = written(&dir);
    damage(&dir.data());
    let server = Idemd::start(&dir.data(), &options());
    let mut client = server.client();
    ledger.check(&mut client);
    // It goes on from there, and what it writes is as good as ever.
    ledger.steps(&mut client, 1000, 10).expect("nothing fails");
    let stderr = server.stderr();
    server.sigkill();
    let server = Idemd::start(&dir.data(), &options());
    ledger.check(&mut server.client());
    server.stop();
    stderr
}

#[test]
fn rot_in_the_middle_of_the_log_is_refused() {
    // Behind the header page and the first frame's header, in a segment that the snapshot does not cover.
    let damage = |dir: &Path| files::flip(&newest_but(dir, 1), 4096 + 1000);
    refused(damage, "F", 4, &["ROT", "walctl", ".wal"]);
}

#[test]
fn a_missing_segment_is_refused() {
    let damage = |dir: &Path| fs::remove_file(newest_but(dir, 1)).expect("it is there");
    refused(damage, "G", 5, &["HOLE", "walctl"]);
}

#[test]
fn a_missing_control_file_is_refused() {
    let damage = |dir: &Path| fs::remove_file(dir.join("control")).expect("it is there");
    refused(damage, "G", 5, &["HOLE", "control"]);
}

#[test]
fn a_damaged_control_file_is_refused() {
    refused(
        |dir| files::flip(&dir.join("control"), 30),
        "G",
        5,
        &["HOLE", "control"],
    );
}

#[test]
fn a_log_of_a_newer_format_is_refused() {
    refused(
        |dir| {
            let segment = newest_but(dir, 0);
            let mut header = fs::read(&segment).expect("it is there");
            header.truncate(100);
            header[8..12].copy_from_slice(&2_u32.to_le_bytes());
            let crc = crc32fast::hash(&header).to_le_bytes();
            for copy in [0, 2048] {
                files::overwrite(&segment, copy, &header);
                files::overwrite(&segment, copy + 100, &crc);
            }
        },
        "H",
        6,
        &["FOREIGN", "format"],
    );
}

#[test]
fn another_nodes_segment_is_refused() {
    let other = TestDir::new("other", 2);
    written(&other);
    refused(
        |dir| {
            let foreign = newest_but(&other.data(), 0);
            fs::copy(foreign, newest_but(dir, 0)).expect("a segment is copied");
        },
        "H",
        6,
        &["FOREIGN"],
    );
}

/// Neither the server nor walctl waits for somebody to write into it.
#[test]
fn a_fifo_where_a_file_should_be_is_a_read_error() {
    let dir = TestDir::new("fifo", 1);
    written(&dir);
    let newest = newest_but(&dir.data(), 0);
    for path in [newest, dir.data().join("control")] {
        let aside = dir.data().with_extension("aside");
        fs::rename(&path, &aside).expect("it is there");
        let made = Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("mkfifo starts").success());
        let failure = Idemd::try_start(&dir.data(), &options()).expect_err("it cannot be read");
        assert_eq!(failure.code(), 3, "{}", failure.stderr);
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(
            failure.stderr.contains("FIFO") && failure.stderr.contains(&name),
            "{}",
            failure.stderr
        );
        let verdict = walctl::verify(&dir.data());
        assert_eq!((verdict.letter(), verdict.code), ("I", 9), "{:?}", verdict.lines);
        fs::rename(&aside, &path).expect("it goes back");
    }
    Idemd::start(&dir.data(), &options()).stop();
}

#[test]
fn one_good_header_copy_is_enough() {
    started(|dir| files::flip(&newest_but(dir, 0), 20));
    started(|dir| files::flip(&newest_but(dir, 0), 2048 + 20));
}

#[test]
fn a_damaged_snapshot_falls_back_to_the_log() {
    started(|dir| {
        let snapshot = files::snapshots(dir).pop().expect("there is one");
        files::flip(&snapshot, 60);
    });
    for bytes in [0, 1, 100] {
        started(|dir| {
            let snapshot = files::snapshots(dir).pop().expect("there is one");
            fs::OpenOptions::new()
                .write(true)
                .open(snapshot)
                .and_then(|file| file.set_len(bytes))
                .expect("it is cut");
        });
    }
}

/// Every temporary name that a crash can leave, empty, with junk, and with the bytes of a real file (wal-37).
#[test]
fn leftovers_of_every_temporary_name_are_removed() {
    for content in ["empty", "junk", "real"] {
        let mut left = Vec::new();
        started(|dir| {
            let real = |path: Option<&std::path::PathBuf>| {
                fs::read(path.expect("there is one")).expect("it is readable")
            };
            let bytes = |like: Vec<u8>| match content {
                "empty" => Vec::new(),
                "junk" => b"IFRM junk".repeat(1000),
                _ => like,
            };
            let segment = real(files::segments(dir).last());
            let snapshot = real(files::snapshots(dir).last());
            let control = fs::read(dir.join("control")).expect("it is there");
            for (name, like) in [
                ("wal/new.tmp", &segment),
                ("wal/spare-0", &segment),
                ("wal/spare-1", &segment),
                ("wal/spare-4294967295", &segment),
                ("wal/spare-", &segment),
                ("snap/00000000000000000000.tmp", &snapshot),
                ("snap/99999999999999999999.tmp", &snapshot),
                ("control.tmp", &control),
                ("control.spare", &control),
            ] {
                let path = dir.join(name);
                // A running server has spares of its own.
                if !path.exists() {
                    fs::write(&path, bytes(like.clone())).expect("the directory is writable");
                    left.push(name);
                }
            }
        });
        assert!(left.len() >= 6, "{left:?}");
    }
}

/// Junk behind the last record after a crash: an ordinary outcome of a power loss. It is cut off with a warning, kept in a
/// file beside, and refused under --strict-recovery.
#[test]
fn an_unproven_tail_is_cut_with_a_warning_or_refused() {
    let junk = |dir: &Path| {
        let newest = newest_but(dir, 0);
        let length = fs::metadata(&newest).expect("it is there").len();
        files::overwrite(&newest, length - 4096, b"\x07junk that nothing vouches for");
    };
    let stderr = started(junk);
    assert!(
        stderr.contains("UNPROVEN_TAIL") && stderr.contains("WARN") && stderr.contains("walctl"),
        "{stderr}"
    );

    let dir = TestDir::new("strict", 1);
    written(&dir);
    junk(&dir.data());
    assert_eq!(walctl::verify(&dir.data()).code, 3);
    let before = files::tree(&dir.data());
    let strict = options().option("strict-recovery", "yes");
    let failure = Idemd::try_start(&dir.data(), &strict).expect_err("strict means strict");
    assert_eq!(failure.code(), 3, "{}", failure.stderr);
    assert!(files::tree(&dir.data()) == before, "a refusal changes no byte");
    Idemd::start(&dir.data(), &options()).stop();
    let cut = fs::read_dir(dir.data().join("wal"))
        .expect("it is readable")
        .filter(|entry| {
            let name = entry.as_ref().expect("it is readable").file_name();
            name.to_string_lossy().starts_with("cut-")
        });
    assert_eq!(cut.count(), 1, "what was cut is kept");
}

#[test]
fn a_file_where_the_directory_should_be_is_a_usage_error() {
    let dir = TestDir::new("file", 1);
    fs::write(dir.data(), b"precious").expect("the directory is writable");
    let failure = Idemd::try_start(&dir.data(), &options()).expect_err("a file is no directory");
    assert_eq!(failure.code(), 2, "{}", failure.stderr);
    assert_eq!(fs::read(dir.data()).expect("it is there"), b"precious");
}

/// The segment so many before the newest.
fn newest_but(dir: &Path, before: usize) -> std::path::PathBuf {
    let segments = files::segments(dir);
    segments[segments.len() - 1 - before].clone()
}
