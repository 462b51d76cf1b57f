//! One server, one ledger, and strace between the server and the kernel: what tests of a single fault start from.

use std::path::PathBuf;

use crate::ledger::Ledger;
use crate::process::{Idemd, IdemdOptions, Policy, Strace};
use crate::require::skip;
use crate::testdir::TestDir;

/// A directory, the options of its server, and what was acknowledged.
#[derive(Debug)]
pub struct Bench {
    /// The test's directory.
    pub dir: TestDir,
    /// How the server is started.
    pub options: IdemdOptions,
    /// What was acknowledged.
    pub ledger: Ledger,
}

impl Bench {
    /// `None` when there is no strace here, after saying so.
    pub fn new(name: &str, policy: Policy) -> Option<Bench> {
        if !Strace::available() {
            skip(name, "strace is not here, or may not trace");
            return None;
        }
        let options = IdemdOptions::default().policy(policy).small_files();
        Some(Bench {
            dir: TestDir::new(name, 1),
            options,
            ledger: Ledger::default(),
        })
    }

    /// A server without faults.
    pub fn start(&self) -> Idemd {
        Idemd::start(&self.dir.data(), &self.options)
    }

    /// Where strace writes.
    pub fn log(&self) -> PathBuf {
        self.dir.path().join("strace.log")
    }

    /// Faults in every thread, counted for each.
    pub fn attach(&self, server: &Idemd, injection: &str) -> Strace {
        Strace::attach(server.pid(), &self.log(), &[injection])
    }

    /// Faults in the thread that writes the log, and nowhere else.
    pub fn attach_log_thread(&self, server: &Idemd, injection: &str) -> Strace {
        Strace::attach_thread(server.pid(), "wal", &self.log(), &[injection])
    }

    /// A start without faults has everything that was acknowledged.
    pub fn check_after_restart(&self) {
        let server = self.start();
        self.ledger.check(&mut server.client());
        server.stop();
    }
}
