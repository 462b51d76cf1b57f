//! `walctl repair` on directories of the real server: each letter of the recovery table that has a plan. Afterwards the server
//! starts, `walctl verify` agrees, and the state is the one that the log stood for at its new end.

use std::fs;
use std::path::Path;
use std::process::Command;

use idem_testsuite::files;
use idem_testsuite::ledger::Ledger;
use idem_testsuite::process::{Idemd, IdemdOptions, binaries};
use idem_testsuite::testdir::TestDir;
use idem_testsuite::walctl;
use serde_json::Value;

fn options() -> IdemdOptions {
    IdemdOptions::default().option("wal-segment-bytes", "1mb")
}

/// A directory with several segments and a snapshot below the last of them, left by a kill or a clean stop.
fn written(dir: &Path, clean: bool, policy: &str) -> Ledger {
    let server = Idemd::start(dir, &options().option("appendfsync", policy));
    let mut client = server.client();
    let mut ledger = Ledger::default();
    ledger.steps(&mut client, 50_000, 20).expect("nothing fails");
    client.ask("SAVE");
    ledger.steps(&mut client, 50_000, 40).expect("nothing fails");
    if clean {
        server.stop();
    } else {
        server.sigkill();
    }
    assert!(files::segments(dir).len() >= 3, "there are several segments");
    ledger
}

/// The JSON objects of `walctl COMMAND DIR --json …`, and its exit code.
fn run(command: &str, dir: &Path, more: &[&str]) -> (i32, Vec<Value>) {
    let output = Command::new(binaries::walctl())
        .arg(command)
        .arg(dir)
        .arg("--json")
        .args(more)
        .output()
        .expect("walctl starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("`{line}` is no JSON: {error}")))
        .collect();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(!text.is_empty(), "{command} {more:?}: {words}");
    (output.status.code().unwrap_or(-1), lines)
}

fn copied(from: &Path, to: &Path) {
    for (path, bytes) in files::tree(from) {
        let target = to.join(path.strip_prefix(from).expect("it is below"));
        fs::create_dir_all(target.parent().expect("a file is in a directory")).expect("it can be made");
        fs::write(target, bytes).expect("it can be written");
    }
}

/// The state of a log at a position.
fn digest(dir: &Path, lsn: &Value) -> Value {
    let (_, lines) = run("replay", dir, &["--to-lsn", &lsn.to_string()]);
    let state = lines.last().expect("replay prints an object");
    assert_eq!(&state["lsn"], lsn);
    state["digest"].clone()
}

struct Case {
    letter: &'static str,
    plan: &'static str,
    clean: bool,
    policy: &'static str,
    /// Whether everything that was acknowledged is still there.
    keeps_all: bool,
}

fn check(case: &Case, damage: impl FnOnce(&Path)) {
    let dir = TestDir::new("repair", 1);
    let data = dir.data();
    let mut ledger = written(&data, case.clean, case.policy);
    let whole = dir.path().join("whole");
    copied(&data, &whole);
    damage(&data);
    let verdict = walctl::verify(&data);
    assert_eq!(verdict.letter(), case.letter, "{:?}", verdict.lines);

    let before = files::tree(&data);
    let (code, lines) = run("repair", &data, &[]);
    assert_eq!(code, verdict.code, "{lines:?}");
    let proposed = lines.last().expect("repair prints an object").clone();
    assert_eq!(proposed["plan"], case.plan, "{proposed}");
    assert!(files::tree(&data) == before, "a proposal changes no byte");

    let (code, lines) = run("repair", &data, &["--plan", case.plan, "--yes"]);
    assert_eq!(code, 0, "{lines:?}");
    let end = &lines.last().expect("the result is the last object")["end_lsn"];
    assert_eq!(end, &proposed["after"]["end_lsn"]);
    let verdict = walctl::verify(&data);
    assert!(["A", "B"].contains(&verdict.letter()), "{:?}", verdict.lines);
    assert_eq!(&verdict.last()["end_lsn"], end);
    // What is called damage may begin with a start that went on.
    if end.as_u64() <= walctl::verify(&whole).last()["end_lsn"].as_u64() {
        assert_eq!(
            digest(&data, end),
            digest(&whole, end),
            "a state that there has been"
        );
    }

    let server = Idemd::start(&data, &options());
    let mut client = server.client();
    if case.keeps_all {
        ledger.check(&mut client);
    } else {
        ledger = Ledger::default();
        client.ask("FLUSHALL");
    }
    // It goes on from there, and what it writes is as good as ever.
    ledger.steps(&mut client, 50_000, 25).expect("nothing fails");
    server.sigkill();
    let server = Idemd::start(&data, &options());
    ledger.check(&mut server.client());
    server.stop();
    assert_eq!(walctl::verify(&data).letter(), "A");
}

/// The segment so many before the newest one.
fn newest_but(dir: &Path, back: usize) -> std::path::PathBuf {
    let mut segments = files::segments(dir);
    segments.truncate(segments.len() - back);
    segments.pop().expect("there are so many segments")
}

/// Where the newest segment is used up to.
fn used_bytes(dir: &Path) -> u64 {
    let verdict = walctl::verify(dir);
    let segments = verdict.last()["segments"].as_array().expect("a list").clone();
    let newest = segments.last().expect("there is one");
    newest["used_bytes"].as_u64().expect("a number")
}

const TAIL: Case = Case {
    letter: "E",
    plan: "cut-tail",
    clean: false,
    policy: "always",
    keeps_all: true,
};

const LOSS: Case = Case {
    letter: "F",
    plan: "accept-loss",
    keeps_all: false,
    ..TAIL
};

#[test]
fn e_and_c_junk_behind_the_end() {
    let damage = |dir: &Path| files::overwrite(&newest_but(dir, 0), used_bytes(dir) + 4000, b"junk");
    check(&TAIL, damage);
    let case = Case {
        letter: "C",
        clean: true,
        ..TAIL
    };
    check(&case, damage);
}

#[test]
fn d_a_torn_group_before_a_whole_one() {
    let case = Case {
        letter: "D",
        policy: "no",
        keeps_all: false,
        ..TAIL
    };
    check(&case, |dir| {
        // Without syncs no mark moves within a segment: none of its frames promises another one.
        files::flip(&newest_but(dir, 0), 4096 + 200);
    });
}

#[test]
fn f_rot_below_in_and_beside_the_newest_segment() {
    check(&LOSS, |dir| files::flip(&newest_but(dir, 1), 4096 + 1000));
    check(&LOSS, |dir| files::overwrite(&newest_but(dir, 0), 0, &[0; 4096]));
    let case = Case { clean: true, ..LOSS };
    check(&case, |dir| {
        let from = used_bytes(dir) - 2000;
        files::overwrite(&newest_but(dir, 0), from, &[0; 2000]);
    });
}

#[test]
fn g_a_control_file_that_is_gone() {
    let case = Case {
        letter: "G",
        plan: "control",
        ..TAIL
    };
    check(&case, |dir| {
        fs::remove_file(dir.join("control")).expect("it is there")
    });
    let case = Case { clean: true, ..case };
    check(&case, |dir| files::flip(&dir.join("control"), 30));
}

#[test]
fn j_a_clean_mark_of_an_earlier_life() {
    let case = Case {
        letter: "J",
        clean: true,
        keeps_all: true,
        ..LOSS
    };
    check(&case, |dir| {
        let closed = fs::read(dir.join("control")).expect("it is there");
        let server = Idemd::start(dir, &options());
        server.sigkill();
        fs::write(dir.join("control"), closed).expect("it can be written");
    });
}

#[test]
fn no_server_starts_in_the_middle_of_a_repair_and_the_same_command_finishes_it() {
    let dir = TestDir::new("interrupted", 1);
    let (data, done) = (dir.data(), dir.path().join("done"));
    let ledger = written(&data, false, "always");
    fs::remove_file(data.join("control")).expect("it is there");
    let backup = dir.path().join("backup");
    copied(&data, &done);
    let options_of_backup = ["--backup", backup.to_str().expect("it is text")];
    let plan = ["--plan", "control", "--yes"];
    let (code, lines) = run("repair", &done, &[&plan[..], &options_of_backup].concat());
    assert_eq!(code, 0, "{lines:?}");
    // Each place in which it may have stopped: that many headers of the new node, and at last the control file, too.
    let segments = files::segments(&done);
    for made in 0..=segments.len() + 1 {
        let stopped = dir.path().join(format!("stopped-{made}"));
        copied(&data, &stopped);
        for segment in segments.iter().take(made) {
            let below = segment.strip_prefix(&done).expect("it is below");
            fs::copy(segment, stopped.join(below)).expect("it can be copied");
        }
        if made > segments.len() {
            fs::copy(done.join("control"), stopped.join("control")).expect("it can be copied");
        }
        fs::copy(backup.join("mark"), stopped.join("repair.incomplete")).expect("it can be copied");
        let before = files::tree(&stopped);
        let failure = Idemd::try_start(&stopped, &options()).expect_err("it is not finished");
        assert_eq!(failure.code(), 3, "{}", failure.stderr);
        assert!(
            failure.stderr.contains("repair.incomplete") && failure.stderr.contains("walctl repair"),
            "{}",
            failure.stderr
        );
        assert!(files::tree(&stopped) == before, "a refusal changes no byte");
        let (code, lines) = run("repair", &stopped, &plan);
        assert_eq!(code, 0, "{made}: {lines:?}");
        assert_eq!(walctl::verify(&stopped).letter(), "B", "{made}");
        let server = Idemd::start(&stopped, &options());
        ledger.check(&mut server.client());
        server.stop();
    }
}
