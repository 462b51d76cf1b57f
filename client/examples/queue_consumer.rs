//! A consumer of a queue that delivers more than once.
//!
//! ```text
//! cargo run -p idem-client --example queue_consumer -- redis://127.0.0.1:6379 DIRECTORY [--crash-before-ack]
//! ```
//!
//! The queue is a directory: each file is a message, its name up to the first dot the message's id, its content the order.
//! Acknowledging removes the file, a dead letter moves it to `dead/`. The same id in two files is a redelivery. It ends
//! when the queue is empty.
//!
//! | outcome | the consumer does | because |
//! |---|---|---|
//! | `Executed`, `Replayed` | ack | it was done, now or before |
//! | `Pending` | retry with delay | another consumer has it, or one died at it; its record ends |
//! | `Conflict` | dead letter | the id was used for another order: a person has to look |
//! | the work failed | retry with delay | `abort_on_error` gave the key back |
//! | BEGIN failed | retry with delay | it was not done |
//! | COMPLETE failed | retry with delay | it *was* done; the retry finds `Replayed`, or `Pending` until the record ends |
//! | the value cannot be stored or read | dead letter | no retry changes that |

use std::error::Error;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

use idem_client::{ExecuteError, IdempotentExecutor, Outcome, RedisStore};

/// Between two deliveries of a message that could not be settled.
const RETRY_DELAY: Duration = Duration::from_millis(200);
/// As long as a run can take and redeliveries can come. A consumer that dies blocks its message for as long.
const RETENTION: Duration = Duration::from_secs(600);

/// What becomes of a delivery.
#[derive(Debug)]
enum Settled {
    Ack,
    Retry,
    DeadLetter,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (store, queue, is_crashing) = match arguments.as_slice() {
        [store, queue] => (store, queue, false),
        [store, queue, flag] if flag == "--crash-before-ack" => (store, queue, true),
        _ => return Err("queue_consumer STORE DIRECTORY [--crash-before-ack]".into()),
    };
    let once = IdempotentExecutor::builder(RedisStore::open(store.as_str())?, "example:queue:")
        .retention(RETENTION)
        // Right only because an order that fails here has had no effect.
        .abort_on_error(true)
        .build()?;
    let queue = Path::new(queue);
    while let Some(message) = next(queue)? {
        let id = id_of(&message);
        let order = fs::read_to_string(&message)?;
        let settled = handle(&once, &id, &order).await;
        if is_crashing {
            eprintln!("crashing after COMPLETE and before the acknowledgement");
            std::process::exit(3);
        }
        match settled {
            Settled::Ack => fs::remove_file(&message)?,
            Settled::Retry => tokio::time::sleep(RETRY_DELAY).await,
            Settled::DeadLetter => {
                let dead = queue.join("dead");
                fs::create_dir_all(&dead)?;
                fs::rename(&message, dead.join(message.file_name().unwrap_or_default()))?;
            }
        }
    }
    Ok(())
}

async fn handle(once: &IdempotentExecutor<RedisStore>, id: &str, order: &str) -> Settled {
    let fingerprint = fingerprint_of(order);
    let outcome = once.execute_once(id, &fingerprint, None, || ship(order)).await;
    let (word, settled) = match outcome {
        Ok(Outcome::Executed { .. }) => ("executed", Settled::Ack),
        Ok(Outcome::Replayed { .. }) => ("replayed", Settled::Ack),
        Ok(Outcome::Pending) => ("pending", Settled::Retry),
        Ok(Outcome::Conflict) => ("conflict", Settled::DeadLetter),
        Err(ExecuteError::Work(_)) => ("failed", Settled::Retry),
        // It was done, and the next delivery finds out whether it is stored.
        Err(ExecuteError::Complete { .. }) => ("done, unclear", Settled::Retry),
        Err(ExecuteError::Begin(error)) if error.is_transient() => ("store away", Settled::Retry),
        Err(ExecuteError::Begin(_)) => ("store refuses", Settled::DeadLetter),
        Err(
            ExecuteError::Refused(_) | ExecuteError::Unstorable { .. } | ExecuteError::Undecodable { .. },
        ) => ("never possible", Settled::DeadLetter),
    };
    println!("{id} {word} {settled:?}");
    settled
}

/// Stands for what the consumer is there for. An order that begins with `fail once` fails at its first delivery.
async fn ship(order: &str) -> Result<String, std::io::Error> {
    static HAS_FAILED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
    let is_first = !HAS_FAILED.swap(true, std::sync::atomic::Ordering::Relaxed);
    if order.starts_with("fail once") && is_first {
        return Err(std::io::Error::other("no parcel left"));
    }
    Ok(format!("shipped: {}", order.trim()))
}

/// Of a real message a digest that nobody can find collisions for, SHA-256 say: it decides what is a repeat.
fn fingerprint_of(order: &str) -> String {
    let mut hasher = DefaultHasher::new();
    order.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// The first message by name.
fn next(queue: &Path) -> std::io::Result<Option<PathBuf>> {
    let mut messages = Vec::new();
    for entry in fs::read_dir(queue)? {
        let path = entry?.path();
        if path.is_file() {
            messages.push(path);
        }
    }
    Ok(messages.into_iter().min())
}

fn id_of(message: &Path) -> String {
    let name = message
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    name.split('.').next().unwrap_or_default().to_owned()
}
