//! A store that writes down what it was asked, and fails when it is told to.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use idem_client::{Begin, Error, ErrorKind, MemoryStore, Store};

/// One command, as it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) name: &'static str,
    pub(crate) key: Vec<u8>,
    pub(crate) fingerprint: Vec<u8>,
    pub(crate) owner: Vec<u8>,
}

/// What goes wrong with the next command of a name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// It is answered with this, and was not carried out.
    Refused(ErrorKind),
    /// It is carried out; its answer is lost.
    AnswerLost,
    /// It is not carried out, and nobody can know: the connection is lost.
    CommandLost,
    /// It is never answered.
    Hangs,
}

/// The double, watched.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    pub(crate) memory: MemoryStore,
    asked: Arc<Mutex<Vec<Asked>>>,
    faults: Arc<Mutex<Vec<(&'static str, Fault)>>>,
}

impl Recording {
    pub(crate) fn new() -> Recording {
        Recording::over(MemoryStore::new())
    }

    pub(crate) fn over(memory: MemoryStore) -> Recording {
        Recording {
            memory,
            asked: Arc::default(),
            faults: Arc::default(),
        }
    }

    /// The next command of this name goes wrong.
    pub(crate) fn fail_next(&self, name: &'static str, fault: Fault) {
        self.faults.lock().unwrap().push((name, fault));
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// The names of the commands so far; forgets them.
    pub(crate) fn take_names(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.asked.lock().unwrap())
            .iter()
            .map(|asked| asked.name)
            .collect()
    }

    fn note(&self, name: &'static str, key: &[u8], fingerprint: &[u8], owner: &[u8]) -> Option<Fault> {
        self.asked.lock().unwrap().push(Asked {
            name,
            key: key.to_vec(),
            fingerprint: fingerprint.to_vec(),
            owner: owner.to_vec(),
        });
        let mut faults = self.faults.lock().unwrap();
        let at = faults.iter().position(|(of, _)| *of == name)?;
        Some(faults.remove(at).1)
    }
}

async fn answer<T>(fault: Option<Fault>, run: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let lost = || Error::new(ErrorKind::Connection, "the connection was lost", true);
    match fault {
        None => run.await,
        Some(Fault::Refused(kind)) => Err(Error::new(kind, "refused", false)),
        Some(Fault::AnswerLost) => {
            run.await?;
            Err(lost())
        }
        Some(Fault::CommandLost) => Err(lost()),
        Some(Fault::Hangs) => std::future::pending().await,
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
        let fault = self.note("begin", key, fingerprint, owner);
        answer(fault, self.memory.begin(key, fingerprint, owner, ttl)).await
    }

    async fn complete(
        &self,
        key: &[u8],
        fingerprint: &[u8],
        owner: &[u8],
        result: &[u8],
    ) -> Result<bool, Error> {
        let fault = self.note("complete", key, fingerprint, owner);
        answer(fault, self.memory.complete(key, fingerprint, owner, result)).await
    }

    async fn abort(&self, key: &[u8], fingerprint: &[u8], owner: &[u8]) -> Result<bool, Error> {
        let fault = self.note("abort", key, fingerprint, owner);
        answer(fault, self.memory.abort(key, fingerprint, owner)).await
    }
}
