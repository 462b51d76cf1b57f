//! Servers to test against.

use std::net::SocketAddr;
use std::panic::catch_unwind;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use idem_client::{OwnerToken, RedisStore};
use idem_testsuite::process::{Idemd, IdemdOptions, Policy, binaries};
use idem_testsuite::require::{REQUIRE_VARIABLE, skip};
use idem_testsuite::testdir::TestDir;

/// A server that is already there.
const ADDRESS_VARIABLE: &str = "IDEM_TEST_ADDR";

/// A server, and a prefix that no other test and no user of it has.
pub(crate) struct Server {
    address: String,
    prefix: String,
    /// Dropped in this order: the process first.
    own: Option<(Idemd, TestDir)>,
}

impl Server {
    /// The one that the environment names, or one of our own; `None`, said aloud, when none can be built.
    pub(crate) fn find(test: &str) -> Option<Server> {
        if let Ok(address) = std::env::var(ADDRESS_VARIABLE) {
            let server = Server::at(address, None);
            if let Err(error) = server.client(false).get_connection() {
                panic!("{ADDRESS_VARIABLE}={} cannot be tested: {error}", server.address);
            }
            return Some(server);
        }
        Server::own(test)
    }

    /// One that may be killed.
    pub(crate) fn own(test: &str) -> Option<Server> {
        if !can_start(test) {
            return None;
        }
        let (idemd, dir) = own_idemd(test, options());
        Some(Server::at(idemd.address().to_string(), Some((idemd, dir))))
    }

    fn at(address: String, own: Option<(Idemd, TestDir)>) -> Server {
        let token = OwnerToken::random().unwrap();
        let prefix = format!("idem-client-test:{}:", String::from_utf8_lossy(token.as_bytes()));
        Server { address, prefix, own }
    }

    pub(crate) fn client(&self, resp3: bool) -> redis::Client {
        let query = if resp3 { "?protocol=resp3" } else { "" };
        redis::Client::open(format!("redis://{}/{query}", self.address)).unwrap()
    }

    pub(crate) fn store(&self) -> RedisStore {
        RedisStore::open(format!("redis://{}/", self.address)).unwrap()
    }

    /// A key of this test.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The process, of one of our own.
    pub(crate) fn idemd(&self) -> &Idemd {
        &self.own.as_ref().expect("asked of a server of our own").0
    }

    /// SIGKILL, and a start at the same address with what is on its disk.
    pub(crate) fn restart(&mut self) {
        let (idemd, dir) = self.own.take().unwrap();
        let port = idemd.address().port();
        idemd.sigkill();
        drop(idemd);
        let idemd = Idemd::start(&dir.data(), &options().port(port));
        self.own = Some((idemd, dir));
    }
}

impl Drop for Server {
    /// A server that was there before has afterwards what it had. When that fails, it is said, and does not stand in the
    /// way of what made the test fail.
    fn drop(&mut self) {
        if self.own.is_none()
            && let Err(error) = self.remove_keys()
        {
            eprintln!(
                "keys below {} may be left on {}: {error}",
                self.prefix, self.address
            );
        }
    }
}

impl Server {
    fn remove_keys(&self) -> redis::RedisResult<()> {
        let mut connection = self.client(false).get_connection()?;
        let mut cursor = 0_u64;
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(format!("{}*", self.prefix));
            let (next, keys): (u64, Vec<Vec<u8>>) = scan.arg("COUNT").arg(1000).query(&mut connection)?;
            for key in keys {
                redis::cmd("DEL").arg(key).exec(&mut connection)?;
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }
}

/// Clients are the matter here, and not the promise of the default policy.
pub(crate) fn options() -> IdemdOptions {
    IdemdOptions::default().policy(Policy::No).small_files()
}

/// A process of our own with these options.
pub(crate) fn own_idemd(test: &str, options: IdemdOptions) -> (Idemd, TestDir) {
    let dir = TestDir::new(test, 1);
    (Idemd::start(&dir.data(), &options), dir)
}

/// Whether there is a server to start; when not, that is said, once.
pub(crate) fn can_start(test: &str) -> bool {
    static IS_THERE: OnceLock<bool> = OnceLock::new();
    static SAID: AtomicBool = AtomicBool::new(false);
    let is_there = *IS_THERE.get_or_init(|| catch_unwind(|| binaries::idemd().to_owned()).is_ok());
    let is_required = std::env::var_os(REQUIRE_VARIABLE).is_some_and(|value| value == "1");
    if !is_there && (is_required || !SAID.swap(true, Ordering::SeqCst)) {
        skip(
            test,
            "idemd cannot be built here: every test that needs a server is left out, the in-memory double is tested",
        );
    }
    is_there
}

/// An address at which nobody listens now, and a server may later.
pub(crate) fn closed_address() -> SocketAddr {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap()
}
