//! `cargo xtask demo`: the main job, in front of a person's eyes and checked on the way.
//!
//! ```text
//!   start ─▶ BEGIN, COMPLETE, a duplicate ─▶ writes from several connections ─▶ SIGKILL ─▶ walctl verify
//!                                                                                            │
//!   walctl verify, dump ◀─ SIGTERM ◀─ the duplicate again ◀─ every acknowledged write ◀─ start ◀┘
//! ```
//!
//! Whatever does not hold ends the demo with one line, and the data directory is kept. Every wait has an end; the whole
//! takes seconds after the build.

mod client;
mod proof;
mod server;
mod stream;
mod tools;

use std::io::Write;
use std::time::{Duration, Instant};

use idem_protocol::resp::value::Value;
use tempfile::TempDir;

use crate::binaries::{self, Binaries};
use crate::failure::Failure;
use client::Client;
use server::Server;

/// How long records of the demo live: longer than it takes, so that none ends on the way.
const TTL_MS: u64 = 600_000;

/// The operation that is begun, completed and repeated.
const KEY: &str = "order:1001";
const RESULT: &str = r#"{"charge":"ch_42","paid":true}"#;

/// Builds, shows, checks, cleans up.
pub(crate) fn run() -> Result<(), Failure> {
    say("Building idemd and walctl.")?;
    let binaries = binaries::build()?;
    let directory =
        TempDir::with_prefix("idemd-demo-").map_err(Failure::io("making a temporary directory"))?;
    let begun = Instant::now();
    match show(&binaries, &directory) {
        Ok(()) => {
            let seconds = begun.elapsed().as_secs_f64();
            directory
                .close()
                .map_err(Failure::io("removing the temporary directory"))?;
            say(&format!(
                "\nEverything held. {seconds:.1} seconds; nothing is left behind."
            ))
        }
        Err(failure) => {
            let kept = directory.keep();
            Err(Failure::new(format!(
                "the demo failed: {failure} (kept: {})",
                kept.display()
            )))
        }
    }
}

fn show(binaries: &Binaries, directory: &TempDir) -> Result<(), Failure> {
    let root = directory.path();
    say(&format!("The commands below run in {}.", root.display()))?;

    title("1. A server with an empty data directory")?;
    let server = start(binaries, directory)?;

    title("2. One operation: begun, completed, and replayed to a duplicate")?;
    one_operation(&mut server.connect()?)?;

    title("3. Writes from several connections, and SIGKILL in the middle")?;
    let stream = stream::run(&server, |acknowledged| {
        say(&format!(
            "{} connections begin and complete operations; after {acknowledged} acknowledged writes:\n$ kill -9 {}",
            stream::WRITERS,
            server.id()
        ))
    })?;
    server.kill()?;
    let ledger = stream.collect()?;
    say(&format!(
        "acknowledged  {:>6}   begins and completions whose reply arrived\nunknown       {:>6}   were on their way when the \
         server died: done or not, both are right",
        ledger.acknowledged(),
        ledger.unknown()
    ))?;
    say("\nWhat the killed server left on the disk:")?;
    let verdict = tools::verify(binaries, root)?;
    if !verdict.starts {
        return Err(Failure::new(format!(
            "a kill is no damage, and the verdict is {}",
            verdict.word
        )));
    }

    title("4. The same directory again: everything acknowledged is there")?;
    let server = start(binaries, directory)?;
    let mut client = server.connect()?;
    let proof = proof::check(&mut client, &ledger)?;
    say(&format!(
        "verified      {:>6}   of {} acknowledged: state, owner, fingerprint, deadline and result are those of the reply\n\
         unknown       {:>6}   of {} turned out to be done",
        proof.verified,
        ledger.acknowledged(),
        proof.unknown_done,
        ledger.unknown()
    ))?;
    if proof.verified != ledger.acknowledged() {
        return Err(Failure::new("not every acknowledged write was verified"));
    }
    say("\nThe duplicate from before the crash still gets its answer:")?;
    let begin = [
        "IDEM",
        KEY,
        "BEGIN",
        "sha256-of-the-request",
        "attempt-91d7",
        "600000",
    ];
    expect(&mut client, &begin, &replayed())?;
    drop(client);

    title("5. A clean stop, and the log as a tool sees it")?;
    say(&format!("$ kill -TERM {}", server.id()))?;
    server.stop()?;
    let verdict = tools::verify(binaries, root)?;
    if (verdict.word.as_str(), verdict.letter.as_str()) != ("CLEAN", "A") {
        return Err(Failure::new(format!(
            "a clean stop leaves CLEAN, row A, and not {}, row {}",
            verdict.word, verdict.letter
        )));
    }
    say("")?;
    tools::dump_key(binaries, root, KEY)?;
    if let Some(key) = ledger.a_completed_key() {
        say("")?;
        tools::dump_key(binaries, root, key)?;
    }
    Ok(())
}

fn start(binaries: &Binaries, directory: &TempDir) -> Result<Server, Failure> {
    say("$ idemd --dir data --port 0")?;
    let server = Server::start(&binaries.idemd, directory.path())?;
    say(server.ready_line())?;
    Ok(server)
}

/// The contract of one key, as a person would type it.
fn one_operation(client: &mut Client) -> Result<(), Failure> {
    let acquired = bulks(&["acquired"]);
    let fingerprint = "sha256-of-the-request";
    say(
        "A worker begins an operation; it alone may do the work. The owner names this attempt (a random token in real use).",
    )?;
    let ttl = TTL_MS.to_string();
    expect(
        client,
        &["IDEM", KEY, "BEGIN", fingerprint, "attempt-4f1a", &ttl],
        &acquired,
    )?;
    say("\nThe same request, delivered twice, while the first worker is busy:")?;
    expect(
        client,
        &["IDEM", KEY, "BEGIN", fingerprint, "attempt-c03e", &ttl],
        &bulks(&["pending"]),
    )?;
    say("\nThe first worker is done and stores its result:")?;
    expect(
        client,
        &["IDEM", KEY, "COMPLETE", fingerprint, "attempt-4f1a", RESULT],
        &Value::Int(1),
    )?;
    say("\nA duplicate from now on gets the stored result, and nobody works twice:")?;
    expect(
        client,
        &["IDEM", KEY, "BEGIN", fingerprint, "attempt-91d7", &ttl],
        &replayed(),
    )?;
    say("\nThe same key for another request is a conflict:")?;
    expect(
        client,
        &[
            "IDEM",
            KEY,
            "BEGIN",
            "sha256-of-another-request",
            "attempt-91d7",
            &ttl,
        ],
        &bulks(&["conflict"]),
    )
}

fn replayed() -> Value {
    bulks(&["completed", RESULT])
}

fn bulks(items: &[&str]) -> Value {
    Value::Array(
        items
            .iter()
            .map(|item| Value::Bulk(item.as_bytes().to_vec()))
            .collect(),
    )
}

/// Types a command, shows the reply, and insists on it.
fn expect(client: &mut Client, args: &[&str], expected: &Value) -> Result<(), Failure> {
    say(&format!("{}> {}", client.address(), client::typed(args)))?;
    let reply = client.call(args)?;
    say(&client::shown(&reply))?;
    if reply == *expected {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{} should answer {}",
        args.join(" "),
        client::shown(expected)
    )))
}

fn title(text: &str) -> Result<(), Failure> {
    say(&format!("\n── {text}"))
}

/// One line (or several) for the person who watches.
fn say(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{text}")
        .and_then(|()| stdout.flush())
        .map_err(Failure::io("writing to stdout"))
}

/// The longest that anything may take before the demo gives up.
const PATIENCE: Duration = Duration::from_secs(15);
