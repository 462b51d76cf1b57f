//! The examples, started as a reader would.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use idem_testsuite::clients::Library;
use idem_testsuite::process::binaries::{self, target_directory};
use idem_testsuite::require::skip;
use idem_testsuite::testdir::TestDir;

use crate::support::Server;

fn example(name: &str) -> PathBuf {
    binaries::example("idem-client", name)
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name)
}

fn run(command: &mut Command) -> (Option<i32>, String) {
    let output: Output = command.stdin(Stdio::null()).output().unwrap();
    let mut text = String::from_utf8(output.stdout).unwrap();
    if text.is_empty() {
        text = String::from_utf8_lossy(&output.stderr).into_owned();
    }
    (output.status.code(), text.trim_end().to_owned())
}

#[test]
fn run_once() {
    let Some(server) = Server::own("run_once") else {
        return;
    };
    let url = format!("redis://{}/", server.address());
    let start =
        |order: &str, amount: &str| run(Command::new(example("run_once")).args([&url, order, amount]));
    let (code, first) = start("order-17", "1200");
    assert_eq!(code, Some(0), "{first}");
    let receipt = first
        .strip_prefix("executed ")
        .unwrap_or_else(|| panic!("{first}"));
    assert_eq!(
        start("order-17", "1200"),
        (Some(0), format!("replayed {receipt}"))
    );
    assert_eq!(start("order-17", "1300"), (Some(1), "conflict".to_owned()));
    assert_eq!(start("order-17", "much").0, Some(1));
    assert_eq!(run(&mut Command::new(example("run_once"))).0, Some(2));
}

/// idem-58: each outcome settles its message; a crash after COMPLETE and before the acknowledgement is a replay.
#[test]
fn queue_consumer() {
    let Some(server) = Server::own("queue_consumer") else {
        return;
    };
    let queue = TestDir::new("queue", 1);
    let url = format!("redis://{}/", server.address());
    let start = |more: &[&str]| {
        run(Command::new(example("queue_consumer"))
            .arg(&url)
            .arg(queue.path())
            .args(more))
    };
    let put = |name: &str, order: &str| std::fs::write(queue.path().join(name), order).unwrap();

    put("m1.first", "a book");
    assert_eq!(
        start(&["--crash-before-ack"]),
        (Some(3), "m1 executed Ack".to_owned())
    );
    assert!(queue.path().join("m1.first").exists(), "it was not acknowledged");
    assert_eq!(start(&[]), (Some(0), "m1 replayed Ack".to_owned()));

    put("m1.second", "a book");
    put("m1.third", "another book");
    put("m2", "a pen");
    put("m3", "fail once: a desk");
    let (code, text) = start(&[]);
    let expected = [
        "m1 replayed Ack",
        "m1 conflict DeadLetter",
        "m2 executed Ack",
        "m3 executed Ack",
    ];
    assert_eq!((code, text.as_str()), (Some(0), expected.join("\n").as_str()));
    assert!(queue.path().join("dead").join("m1.third").exists());

    // The work fails at the first delivery, the record is given back, and the second one runs.
    put("m4", "fail once: a lamp");
    assert_eq!(
        start(&[]),
        (Some(0), "m4 failed Retry\nm4 executed Ack".to_owned())
    );

    // Somebody else is at it until its record ends: each delivery comes back later.
    let mut connection = server.client(false).get_connection().unwrap();
    let held = redis::cmd("IDEM")
        .arg("example:queue:m5")
        .arg("BEGIN")
        .arg(fingerprint_of_nothing())
        .arg("somebody")
        .arg(700)
        .query::<Vec<String>>(&mut connection)
        .unwrap();
    assert_eq!(held, ["acquired"]);
    put("m5", "");
    let (code, text) = start(&[]);
    let lines: Vec<&str> = text.lines().collect();
    let (last, before) = lines.split_last().unwrap();
    assert_eq!((code, *last), (Some(0), "m5 executed Ack"), "{text}");
    assert!(
        !before.is_empty() && before.iter().all(|line| *line == "m5 pending Retry"),
        "{text}"
    );
}

/// What the example makes of an empty message.
fn fingerprint_of_nothing() -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    "".hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[test]
fn run_once_with_redis_py() {
    let packages = target_directory().join("clients/python");
    check_snippet("run_once_with_redis_py", Library::RedisPy, || {
        let mut command = Command::new("python3");
        // No byte code beside the script: a test leaves nothing in the tree.
        command
            .env("PYTHONPATH", &packages)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command.arg(source("run_once.py"));
        command
    });
}

/// An application whose connection decodes answers has words as text, and results that are no text.
#[test]
fn run_once_with_redis_py_where_answers_are_decoded() {
    let test = "run_once_with_redis_py_where_answers_are_decoded";
    if let Some(reason) = Library::RedisPy.missing() {
        return skip(test, &reason);
    }
    let Some(server) = Server::find(test) else {
        return;
    };
    let (host, port) = server.address().rsplit_once(':').unwrap();
    let program = "import sys, redis, run_once\n\
                   server = redis.Redis(sys.argv[1], int(sys.argv[2]), decode_responses=True)\n\
                   print(*run_once.run_once(server, sys.argv[3], 'f', lambda: b'\\xff\\x00'))";
    let packages = [target_directory().join("clients/python"), source("")];
    for expected in ["executed", "replayed"] {
        let mut command = Command::new("python3");
        command
            .env("PYTHONPATH", std::env::join_paths(&packages).unwrap())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .args(["-c", program, host, port, &server.key("k")]);
        assert_eq!(run(&mut command), (Some(0), format!("{expected} b'\\xff\\x00'")));
    }
}

#[test]
fn run_once_with_ioredis() {
    let packages = target_directory().join("clients/node/node_modules");
    check_snippet("run_once_with_ioredis", Library::Ioredis, || {
        let mut command = Command::new("node");
        command.env("NODE_PATH", &packages).arg(source("run_once.mjs"));
        command
    });
}

fn check_snippet(test: &str, library: Library, start: impl Fn() -> Command) {
    if let Some(reason) = library.missing() {
        return skip(test, &reason);
    }
    let Some(server) = Server::find(test) else {
        return;
    };
    let (host, port) = server.address().rsplit_once(':').unwrap();
    for (fingerprint, result, expected) in [
        ("f", "receipt 1", "executed receipt 1"),
        ("f", "receipt 2", "replayed receipt 1"),
        ("g", "receipt 3", "conflict"),
    ] {
        let mut command = start();
        command.args([host, port, &server.key("k"), fingerprint, result]);
        assert_eq!(run(&mut command), (Some(0), expected.to_owned()));
    }
}
