//! `redis-cli`, not at a terminal: commands, commands from stdin, mass insertion, and its modes that look at a server.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};

use idem_testsuite::process::Client;
use idem_testsuite::process::client::encode_command;
use idem_testsuite::process::kill::Process;
use idem_testsuite::require::skip;

use crate::program::{self, Ran};
use crate::{Server, redis};

const PROGRAM: &str = "redis-cli";

#[test]
fn redis_cli() {
    if let Some(reason) = program::missing(PROGRAM) {
        return skip("redis_cli", &reason);
    }
    let server = Server::start("redis-cli");
    everything(server.address());
    ours(server.address());
}

#[test]
fn redis_cli_against_redis_itself() {
    let test = "redis_cli_against_redis_itself";
    match redis(test) {
        Ok((_dir, redis)) => everything(redis.address()),
        Err(reason) => skip(test, &reason),
    }
}

fn cli(address: SocketAddr, args: &[&str], stdin: &[u8]) -> Ran {
    let mut command = command(address);
    program::run(command.args(args), stdin)
}

fn command(address: SocketAddr) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(["-h", &address.ip().to_string(), "-p", &address.port().to_string()]);
    command
}

/// Runs with these words and this stdin print exactly this and end with 0.
fn check(address: SocketAddr, args: &str, stdin: &str, expected: &str) {
    let args: Vec<&str> = args.split_ascii_whitespace().collect();
    let ran = cli(address, &args, stdin.as_bytes());
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), expected),
        "{args:?}: {}",
        ran.stderr
    );
}

fn everything(address: SocketAddr) {
    commands(address);
    transactions(address);
    mass_insertion(address);
    looking(address);
    subscribed(address);
}

fn commands(address: SocketAddr) {
    for (args, stdin, expected) in [
        ("FLUSHALL", "", "OK\n"),
        ("PING", "", "PONG\n"),
        ("-3 PING hello", "", "hello\n"),
        ("SET text é", "", "OK\n"),
        ("--no-raw GET text", "", "\"\\xc3\\xa9\"\n"),
        ("HSET hash f 1 g 2", "", "2\n"),
        (
            "--no-raw HGETALL hash",
            "",
            "1) \"f\"\n2) \"1\"\n3) \"g\"\n4) \"2\"\n",
        ),
        (
            "-3 --no-raw HGETALL hash",
            "",
            "1# \"f\" => \"1\"\n2# \"g\" => \"2\"\n",
        ),
        ("--json HGETALL hash", "", "{\"f\":\"1\",\"g\":\"2\"}\n"),
        ("-2 --csv HGETALL hash", "", "\"f\",\"1\",\"g\",\"2\"\n"),
        ("--no-raw GET none", "", "(nil)\n"),
        ("-r 3 -i 0 INCR n", "", "1\n2\n3\n"),
        ("-n 5 SET five 1", "", "OK\n"),
        ("-n 5 DBSIZE", "", "1\n"),
        ("-x SET stdin", "\r\n\0x", "OK\n"),
        ("--no-raw GET stdin", "", "\"\\r\\n\\x00x\"\n"),
        // Without words commands come from stdin. It asks for COMMAND DOCS first, for its hints.
        ("", "SET \"a b\" \"\\xff\"\nSTRLEN \"a b\"\n", "OK\n1\n"),
        ("GET", "", "ERR wrong number of arguments for 'get' command\n\n"),
    ] {
        check(address, args, stdin, expected);
    }
    // With -e an error is an exit code.
    let ran = cli(address, &["-e", "NOSUCH"], b"");
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.starts_with("ERR unknown command 'NOSUCH'"),
        "{}",
        ran.stderr
    );
}

fn transactions(address: SocketAddr) {
    for (stdin, expected) in [
        ("MULTI\nSET a 1\nINCR a\nEXEC\n", "OK\nQUEUED\nQUEUED\nOK\n2\n"),
        (
            "MULTI\nSET a\nEXEC\nGET a\n",
            "OK\nERR wrong number of arguments for 'set' command\n\nEXECABORT Transaction discarded because of previous errors.\n\n2\n",
        ),
        ("MULTI\nSET a 9\nDISCARD\nGET a\n", "OK\nQUEUED\nOK\n2\n"),
        // A change by the watcher itself counts.
        ("WATCH a\nSET a 3\nMULTI\nGET a\nEXEC\n", "OK\nOK\nOK\nQUEUED\n\n"),
        (
            "WATCH a\nUNWATCH\nSET a 4\nMULTI\nGET a\nEXEC\n",
            "OK\nOK\nOK\nOK\nQUEUED\n4\n",
        ),
        ("EXEC\n", "ERR EXEC without MULTI\n\n"),
    ] {
        check(address, "", stdin, expected);
    }
}

/// `--pipe` sends protocol as it is and counts the replies.
fn mass_insertion(address: SocketAddr) {
    let mut bytes = Vec::new();
    for index in 0..20_000 {
        bytes.extend(encode_command(&[
            b"SET",
            format!("mass:{index}").as_bytes(),
            b"\xff\r\n",
        ]));
    }
    let ran = cli(address, &["--pipe"], &bytes);
    assert_eq!(ran.code, Some(0), "{} {}", ran.stdout, ran.stderr);
    assert!(
        ran.stdout.ends_with("errors: 0, replies: 20000\n"),
        "{}",
        ran.stdout
    );
    bytes.truncate(encode_command(&[b"SET", b"mass:0", b"\xff\r\n"]).len());
    bytes.extend(encode_command(&[b"GET"]));
    let ran = cli(address, &["--pipe"], &bytes);
    assert_eq!(ran.code, Some(1), "an error is an exit code here: {}", ran.stdout);
    assert!(ran.stdout.ends_with("errors: 1, replies: 2\n"), "{}", ran.stdout);
}

fn looking(address: SocketAddr) {
    let scanned = cli(address, &["--scan", "--pattern", "mass:1999?"], b"");
    let mut keys: Vec<&str> = scanned.stdout.lines().collect();
    keys.sort_unstable();
    assert_eq!((keys.len(), keys[0]), (10, "mass:19990"), "{scanned:?}");
    let big = cli(address, &["--bigkeys"], b"");
    assert_eq!(big.code, Some(0), "{big:?}");
    for line in [
        "Biggest   hash found '\"hash\"' has 2 fields",
        "1 hashs with 2 fields",
    ] {
        assert!(big.stdout.contains(line), "{line}: {}", big.stdout);
    }
    // Least, greatest, average, samples.
    let latency = cli(address, &["--latency", "-i", "0.1"], b"");
    let numbers: Vec<f64> = latency
        .stdout
        .split_ascii_whitespace()
        .map(|word| word.parse().unwrap())
        .collect();
    assert!(numbers.len() == 4 && numbers[3] > 0.0, "{latency:?}");
    // It goes on for ever; keys, memory, clients … come from INFO.
    let (_process, lines) = started(address, &["--stat", "-i", "0.02"]);
    let stat: Vec<String> = lines.iter().skip(2).take(2).collect();
    for line in stat {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        assert!(words[0].parse::<u64>().unwrap() >= 20_000, "{line}");
        assert!(words[4].parse::<u64>().unwrap() >= 20_000, "requests: {line}");
    }
}

fn subscribed(address: SocketAddr) {
    for protocol in ["-2", "-3"] {
        let (_process, lines) = started(address, &[protocol, "--csv", "PSUBSCRIBE", "n[ae]ws", "other"]);
        let next = || {
            let mut lines = lines.iter();
            // Said on subscribing, to a person.
            lines.find(|line| !line.starts_with("Reading messages")).unwrap()
        };
        assert_eq!(next(), "\"psubscribe\",\"n[ae]ws\",1");
        assert_eq!(next(), "\"psubscribe\",\"other\",2");
        let mut client = Client::connect(address).unwrap();
        client.call(&[b"PUBLISH", b"news", b"a b"]).unwrap();
        assert_eq!(next(), "\"pmessage\",\"n[ae]ws\",\"news\",\"a b\"");
    }
}

/// IDEM from a shell, its results byte for byte.
fn ours(address: SocketAddr) {
    check(address, "IDEM job:1 BEGIN fp owner 60000", "", "acquired\n");
    check(address, "-x IDEM job:1 COMPLETE fp owner", "a\r\n\0", "1\n");
    check(
        address,
        "--no-raw IDEM job:1 BEGIN fp other 60000",
        "",
        "1) \"completed\"\n2) \"a\\r\\n\\x00\"\n",
    );
    check(
        address,
        "",
        "IDEM job:2 BEGIN fp owner 60000\nMULTI\nIDEM job:2 COMPLETE fp owner \"\\xff\\xfe\"\nSET effect x\nEXEC\nSTRLEN job:2\n",
        "acquired\nOK\nQUEUED\nQUEUED\n1\nOK\n20\n",
    );
    let ran = cli(address, &["--json", "IDEM", "job:1", "INSPECT"], b"");
    assert!(
        ran.stdout
            .starts_with("{\"state\":\"completed\",\"fingerprint\":\"fp\""),
        "{ran:?}"
    );
}

/// One that runs until it is dropped, and its lines.
fn started(address: SocketAddr, args: &[&str]) -> (Process, Receiver<String>) {
    let mut command = command(address);
    let (process, stdout) = program::start(command.args(args));
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                // Nobody listens any more: the pipe breaks, and with it the program.
                return;
            }
        }
    });
    (process, lines)
}
