//! The layer on a real server: the same answers as on the double, and what only a process can do, which is to die.

use std::collections::BTreeSet;
use std::net::{SocketAddr, ToSocketAddrs};
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use idem_client::{Begin, Error, OwnerToken, RedisStore, Store};
use idem_testsuite::process::{Client, Idemd, IdemdOptions, Policy, binaries};
use idem_testsuite::require::skip;
use idem_testsuite::testdir::TestDir;

use crate::support::{builder, marked, numbered, numbered_service, post, send, soon};

/// A server to test on: the one that the environment names, or one of our own.
pub(crate) struct Server {
    address: SocketAddr,
    /// What tests made, to be removed from a server that is not ours.
    keys: Arc<Mutex<BTreeSet<Vec<u8>>>>,
    /// Dropped in this order: the process first.
    own: Option<(Idemd, TestDir)>,
}

/// The server that the tests are to use, `host:port`.
const ADDRESS_VARIABLE: &str = "IDEM_TEST_ADDR";

impl Server {
    /// `None`, said aloud, when there is none and none can be built.
    pub(crate) fn find(test: &str) -> Option<Server> {
        let Ok(named) = std::env::var(ADDRESS_VARIABLE) else {
            return Server::own(test);
        };
        let cannot = |error: &dyn std::fmt::Display| -> ! {
            panic!("{ADDRESS_VARIABLE}={named} cannot be tested: {error}")
        };
        let mut addresses = named.to_socket_addrs().unwrap_or_else(|error| cannot(&error));
        let address = addresses.next().unwrap_or_else(|| cannot(&"no address"));
        if let Err(error) = call(address, &[b"PING"]) {
            cannot(&error);
        }
        Some(Server {
            address,
            keys: Arc::default(),
            own: None,
        })
    }

    pub(crate) fn own(test: &str) -> Option<Server> {
        if catch_unwind(|| binaries::idemd().to_owned()).is_err() {
            skip(
                test,
                "idemd cannot be built here: only the in-memory double was tested",
            );
            return None;
        }
        let dir = TestDir::new(test, 1);
        let idemd = Idemd::start(&dir.data(), &options());
        Some(Server {
            address: idemd.address(),
            keys: Arc::default(),
            own: Some((idemd, dir)),
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    fn store(&self) -> RedisStore {
        RedisStore::open(format!("redis://{}/", self.address)).unwrap()
    }

    /// SIGKILL.
    pub(crate) fn kill(&self) {
        self.own.as_ref().unwrap().0.sigkill();
    }

    /// Starts again at the same address, with what is on its disk.
    pub(crate) fn start_again(&mut self) {
        let (idemd, dir) = self.own.take().unwrap();
        drop(idemd);
        let idemd = Idemd::start(&dir.data(), &options().port(self.address.port()));
        self.own = Some((idemd, dir));
    }

    /// A test is about to make this: it is removed at the end, also of a test that fails.
    pub(crate) fn note(&self, key: impl Into<Vec<u8>>) {
        self.keys.lock().unwrap().insert(key.into());
    }
}

impl Drop for Server {
    /// A server that was there before has afterwards what it had.
    fn drop(&mut self) {
        let keys = std::mem::take(&mut *self.keys.lock().unwrap_or_else(PoisonError::into_inner));
        if self.own.is_some() || keys.is_empty() {
            return;
        }
        let delete = [b"DEL".as_slice()];
        let arguments = delete.into_iter().chain(keys.iter().map(Vec::as_slice));
        if let Err(error) = call(self.address, &arguments.collect::<Vec<_>>()) {
            eprintln!("{} keys may be left on {}: {error}", keys.len(), self.address);
        }
    }
}

fn call(address: SocketAddr, arguments: &[&[u8]]) -> Result<(), String> {
    let mut client = Client::connect(address).map_err(|error| error.to_string())?;
    match client.call(arguments) {
        Ok(answer) if format!("{answer:?}").starts_with("Error") => Err(format!("{answer:?}")),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

fn options() -> IdemdOptions {
    IdemdOptions::default().policy(Policy::No).small_files()
}

/// A namespace that nobody else has.
pub(crate) fn namespace() -> String {
    let token = OwnerToken::random().unwrap();
    format!("idem-http-test-{}", String::from_utf8_lossy(token.as_bytes()))
}

/// A server's store that remembers under which keys it was asked, and how often for what.
#[derive(Clone)]
struct Recording {
    store: RedisStore,
    keys: Arc<Mutex<BTreeSet<Vec<u8>>>>,
    commands: Arc<Mutex<Vec<&'static str>>>,
}

impl Recording {
    fn on(server: &Server) -> Recording {
        Recording {
            store: server.store(),
            keys: Arc::clone(&server.keys),
            commands: Arc::default(),
        }
    }

    fn note(&self, command: &'static str, key: &[u8]) {
        self.keys.lock().unwrap().insert(key.to_vec());
        self.commands.lock().unwrap().push(command);
    }

    fn commands(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.commands.lock().unwrap())
    }
}

impl Store for Recording {
    async fn begin(
        &self,
        key: &[u8],
        fingerprint: &[u8],
        owner: &[u8],
        ttl: Duration,
    ) -> Result<Begin, Error> {
        self.note("BEGIN", key);
        self.store.begin(key, fingerprint, owner, ttl).await
    }

    async fn complete(
        &self,
        key: &[u8],
        fingerprint: &[u8],
        owner: &[u8],
        result: &[u8],
    ) -> Result<bool, Error> {
        self.note("COMPLETE", key);
        self.store.complete(key, fingerprint, owner, result).await
    }

    async fn abort(&self, key: &[u8], fingerprint: &[u8], owner: &[u8]) -> Result<bool, Error> {
        self.note("ABORT", key);
        self.store.abort(key, fingerprint, owner).await
    }
}

#[tokio::test]
async fn runs_replays_and_conflicts() {
    let Some(server) = Server::find("runs_replays_and_conflicts") else {
        return;
    };
    let store = Recording::on(&server);
    let (service, runs) = numbered_service(builder(store.clone()).namespace(namespace()));
    let first = send(&service, post("/payments", "k", "{}")).await;
    assert_eq!((first.status, first.is_replay()), (201, false));
    let again = send(&service, post("/payments", "k", "{}")).await;
    assert_eq!(
        (again.status, again.is_replay(), again.body),
        (201, true, first.body)
    );
    assert_eq!(send(&service, post("/payments", "k", "[]")).await.status, 409);
    assert_eq!(
        store.commands(),
        ["BEGIN", "COMPLETE", "BEGIN", "BEGIN"],
        "two round trips for a run, one for a repeat"
    );
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn every_byte_comes_back() {
    let Some(server) = Server::find("every_byte_comes_back") else {
        return;
    };
    let store = Recording::on(&server);
    let bytes: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    let body = Bytes::from(bytes);
    let answer = body.clone();
    let service = marked(
        builder(store.clone())
            .namespace(namespace())
            .max_response_bytes(1 << 20),
        move |_| {
            let answer = answer.clone();
            async move { Response::new(Full::new(answer)) }
        },
    );
    for replay in [false, true] {
        let answer = send(&service, post("/", "k", "")).await;
        assert_eq!((answer.is_replay(), answer.body == body), (replay, true));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_200_equal_requests_one_runs() {
    let Some(server) = Server::find("of_200_equal_requests_one_runs") else {
        return;
    };
    let store = Recording::on(&server);
    let (service, runs) = numbered_service(builder(store.clone()).namespace(namespace()));
    let mut requests = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let service = service.clone();
        requests.spawn(async move { send(&service, post("/", "k", "")).await });
    }
    for answer in soon(requests.join_all()).await {
        assert!(answer.status == 409 || answer.body == "run 1", "{answer:?}");
    }
    assert_eq!(runs.count(), 1);
    assert_eq!(
        store
            .commands()
            .iter()
            .filter(|command| **command == "COMPLETE")
            .count(),
        1
    );
}

/// The server dies between the handler and COMPLETE. There is no ABORT, and the retry finds the key pending.
#[tokio::test]
async fn a_server_that_is_killed_before_complete_keeps_the_key_pending() {
    let Some(server) = Server::own("a_server_that_is_killed_before_complete") else {
        return;
    };
    let store = Recording::on(&server);
    let server = Arc::new(Mutex::new(server));
    let runs = crate::support::Runs::default();
    let (counting, killing) = (runs.clone(), Arc::clone(&server));
    let service = marked(builder(store.clone()), move |_| {
        let answer = numbered(&counting);
        if counting.count() == 1 {
            killing.lock().unwrap().kill();
        }
        async move { answer }
    });
    let answer = send(&service, post("/", "k", "")).await;
    assert_eq!(answer.status, 503);
    assert!(answer.detail().contains("unclear"), "{}", answer.detail());
    assert_eq!(store.commands(), ["BEGIN", "COMPLETE"]);
    // Away: nothing runs.
    assert_eq!(send(&service, post("/", "k", "")).await.status, 503);
    assert_eq!(send(&service, post("/", "other", "")).await.status, 503);
    assert_eq!(runs.count(), 1);
    server.lock().unwrap().start_again();
    // Back: the first request works, and the first key waits for its deadline.
    assert_eq!(send(&service, post("/", "other", "")).await.status, 201);
    let pending = send(&service, post("/", "k", "")).await;
    assert_eq!((pending.status, runs.count()), (409, 2));
    assert!(pending.problem_type().ends_with(":in-progress"));
    assert!(!store.commands().contains(&"ABORT"));
}

/// What was stored before a crash is replayed after it.
#[tokio::test]
async fn an_answer_outlives_the_server() {
    let Some(mut server) = Server::own("an_answer_outlives_the_server") else {
        return;
    };
    let (service, runs) = numbered_service(builder(server.store()));
    assert_eq!(send(&service, post("/", "k", "")).await.status, 201);
    server.kill();
    server.start_again();
    let again = send(&service, post("/", "k", "")).await;
    assert_eq!((again.is_replay(), runs.count()), (true, 1), "{again:?}");
}
