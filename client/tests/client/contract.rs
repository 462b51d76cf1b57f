//! The contract's cases, through a [`Store`]: the double and a server pass the same ones.
//!
//! Of a case is played what a store can be asked. A step that only expects an error and cannot be asked (an action that
//! does not exist, a time to live that is no number) is passed over: it changes nothing. A case that needs another command
//! is left out; the server's own tests play it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use idem_client::{Begin, Error, ErrorKind, Inspection, MemoryStore, OwnerToken, RedisStore, State, Store};
use idem_protocol::resp::value::Value;
use idem_testsuite::contract::{Case, Step, files};

use crate::support::Server;

const FILES: [&str; 6] = [
    "abort.case",
    "begin.case",
    "complete.case",
    "errors.case",
    "inspect.case",
    "results.case",
];
/// Fewer would mean that the suite has lost its cases.
const PLAYED_MIN: usize = 40;

trait Tested: Store {
    async fn look(&self, key: &[u8]) -> Result<Option<Inspection>, Error>;
}

impl Tested for MemoryStore {
    async fn look(&self, key: &[u8]) -> Result<Option<Inspection>, Error> {
        Ok(self.inspect(key))
    }
}

impl Tested for RedisStore {
    async fn look(&self, key: &[u8]) -> Result<Option<Inspection>, Error> {
        self.inspect(key).await
    }
}

#[tokio::test]
async fn the_double_keeps_the_contract() {
    play_all(&MemoryStore::new(), "").await;
}

#[tokio::test]
async fn a_server_keeps_the_contract() {
    let Some(server) = Server::find("a_server_keeps_the_contract") else {
        return;
    };
    play_all(&server.store(), server.prefix()).await;
}

async fn play_all(store: &impl Tested, prefix: &str) {
    let mut played = 0;
    let mut failures = Vec::new();
    for file in files().iter().filter(|file| FILES.contains(&file.name.as_str())) {
        for case in &file.cases {
            let prefix = format!("{prefix}{}:{}:", file.name, case.line);
            match play(store, case, prefix.as_bytes()).await {
                Ok(true) => played += 1,
                Ok(false) => {}
                Err((line, text)) => {
                    failures.push(format!("{}:{line} (`{}`): {text}", file.name, case.title))
                }
            }
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    assert!(played >= PLAYED_MIN, "only {played} cases were played");
}

/// What a command becomes.
enum Asked {
    /// It was asked, and answered this.
    Answered(Result<Value, Error>),
    /// It cannot be asked; right when the case expects an error, or when nothing depends on it.
    PassedOver,
    /// The case is about something else than a store.
    Foreign,
}

async fn play(store: &impl Tested, case: &Case, prefix: &[u8]) -> Result<bool, (usize, String)> {
    let mut answers: BTreeMap<&str, VecDeque<Asked>> = BTreeMap::new();
    let own = |key: &[u8]| [prefix, key].concat();
    for (_, step) in &case.steps {
        if let Step::Send { args, .. } = step
            && is_foreign(args)
        {
            return Ok(false);
        }
    }
    for (line, step) in &case.steps {
        match step {
            Step::Send { connection, args } => {
                let answer = ask(store, args, &own).await;
                if matches!(answer, Asked::Foreign) {
                    return Ok(false);
                }
                answers.entry(connection).or_default().push_back(answer);
            }
            Step::Expect {
                connection,
                pattern,
                text,
            } => match answers.get_mut(connection.as_str()).and_then(VecDeque::pop_front) {
                Some(Asked::Answered(Ok(value))) if pattern.matches(&value) => {}
                Some(Asked::Answered(Err(error))) if is_expected(&error, text) => {}
                Some(Asked::PassedOver) => {}
                Some(Asked::Answered(other)) => return Err((*line, format!("{other:?}, not {text}"))),
                Some(Asked::Foreign) | None => return Err((*line, "an answer to nothing".to_owned())),
            },
            Step::UntilEnded(key) => {
                let key = own(key);
                while store
                    .look(&key)
                    .await
                    .map_err(|error| (*line, error.to_string()))?
                    .is_some()
                {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
            Step::Message { .. } | Step::Restart => return Ok(false),
        }
    }
    Ok(true)
}

/// Commands that change something which a store does not have.
fn is_foreign(args: &[Vec<u8>]) -> bool {
    let name = args[0].to_ascii_uppercase();
    !matches!(
        name.as_slice(),
        b"IDEM" | b"EXISTS" | b"PTTL" | b"DBSIZE" | b"PING" | b"NOSUCHCOMMAND"
    )
}

fn is_expected(error: &Error, text: &str) -> bool {
    assert!(!error.may_have_run(), "{error}");
    match error.kind() {
        ErrorKind::InvalidArgument => text.starts_with("-ERR"),
        ErrorKind::WrongType => text.starts_with("-WRONGTYPE"),
        _ => false,
    }
}

async fn ask(store: &impl Tested, args: &[Vec<u8>], own: &impl Fn(&[u8]) -> Vec<u8>) -> Asked {
    let int = |number: u64| Value::Int(i64::try_from(number).unwrap());
    let name = args[0].to_ascii_uppercase();
    let action = args
        .get(2)
        .map(|action| action.to_ascii_uppercase())
        .unwrap_or_default();
    let key = args.get(1).map(|key| own(key)).unwrap_or_default();
    let word = |text: &str| Value::Bulk(text.as_bytes().to_vec());
    Asked::Answered(match (name.as_slice(), action.as_slice(), args.len()) {
        (b"IDEM", b"BEGIN", 6) => {
            let Ok(ttl_ms) = str::from_utf8(&args[5]).unwrap_or_default().parse::<u64>() else {
                return Asked::PassedOver;
            };
            // What Rust reads as a number and Redis does not.
            if ttl_ms.to_string().as_bytes() != args[5] {
                return Asked::PassedOver;
            }
            let begun = store
                .begin(&key, &args[3], &args[4], Duration::from_millis(ttl_ms))
                .await;
            begun.map(|begin| {
                Value::Array(match begin {
                    Begin::Acquired => vec![word("acquired")],
                    Begin::Pending => vec![word("pending")],
                    Begin::Conflict => vec![word("conflict")],
                    Begin::Completed(result) => vec![word("completed"), Value::Bulk(result)],
                })
            })
        }
        (b"IDEM", b"COMPLETE", 6) => {
            let stored = store.complete(&key, &args[3], &args[4], &args[5]).await;
            stored.map(|stored| int(u64::from(stored)))
        }
        (b"IDEM", b"ABORT", 5) => {
            let gone = store.abort(&key, &args[3], &args[4]).await;
            gone.map(|gone| int(u64::from(gone)))
        }
        (b"IDEM", b"INSPECT", 3) => store.look(&key).await.map(|found| match found {
            None => Value::Null,
            Some(found) => Value::Map(vec![
                (
                    word("state"),
                    word(if found.state == State::Pending {
                        "pending"
                    } else {
                        "completed"
                    }),
                ),
                (word("fingerprint"), Value::Bulk(found.fingerprint)),
                (word("owner"), Value::Bulk(found.owner)),
                (word("deadline_ms"), int(found.deadline_ms)),
                (word("ttl_ms"), int(u64::try_from(found.ttl.as_millis()).unwrap())),
                (word("result_bytes"), int(found.result_bytes)),
            ]),
        }),
        (b"EXISTS", _, 2) => store
            .look(&key)
            .await
            .map(|found| int(u64::from(found.is_some()))),
        (b"PTTL", _, 2) => store.look(&key).await.map(|found| {
            found.map_or(Value::Int(-2), |found| {
                int(u64::try_from(found.ttl.as_millis()).unwrap())
            })
        }),
        (b"DBSIZE" | b"PING" | b"NOSUCHCOMMAND" | b"IDEM", ..) => return Asked::PassedOver,
        _ => return Asked::Foreign,
    })
}

#[tokio::test]
async fn two_hundred_equal_begins_acquire_once() {
    at_once(MemoryStore::new(), b"k".to_vec()).await;
    if let Some(server) = Server::find("two_hundred_equal_begins_acquire_once") {
        at_once(server.store(), server.key("k").into_bytes()).await;
    }
}

async fn at_once(store: impl Store, key: Vec<u8>) {
    const CALLERS: usize = 200;
    for expected in [Begin::Pending, Begin::Completed(b"r".to_vec())] {
        let tasks: Vec<_> = (0..CALLERS)
            .map(|_| {
                let (store, key) = (store.clone(), key.clone());
                tokio::spawn(async move {
                    let owner = OwnerToken::random().unwrap();
                    let ttl = Duration::from_secs(60);
                    let begun = store.begin(&key, b"fp", owner.as_bytes(), ttl).await.unwrap();
                    (owner, begun)
                })
            })
            .collect();
        let mut acquired = None;
        for task in tasks {
            match task.await.unwrap() {
                (owner, Begin::Acquired) => assert_eq!(acquired.replace(owner), None, "acquired twice"),
                (_, other) => assert_eq!(other, expected),
            }
        }
        match expected {
            Begin::Pending => {
                let owner = acquired.expect("one of them acquires");
                assert!(store.complete(&key, b"fp", owner.as_bytes(), b"r").await.unwrap());
            }
            _ => assert_eq!(acquired, None),
        }
    }
}
