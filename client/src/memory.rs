//! A store in memory, for tests of applications.
//!
//! Its rules are the server's: the same transition functions decide (`idem_protocol::idem::transition`), the same bounds
//! hold, and a record ends at the same millisecond. What a server can refuse (`READONLY`, `OOM`, a lost connection) it
//! never does; a test that wants to see that puts a [`Store`] of its own in between, with [`Error::new`].
//!
//! Deliberately absent: durability, other processes, and every other command.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use idem_protocol::idem::transition::{self, Abort, Complete};
use idem_protocol::idem::{IdemRecord, IdemState};

use crate::bounds;
use crate::error::Error;
use crate::outcome::{Begin, Inspection, State};
use crate::store::Store;

/// Records beyond which ended ones are looked for, the first time.
const SWEEP_RECORDS: usize = 1024;

/// A store in memory that answers as a server does. Clones are the same store.
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
    state: Mutex<Records>,
}

struct Records {
    by_key: HashMap<Vec<u8>, Entry>,
    /// At so many records the ended ones are removed.
    sweep_at: usize,
}

struct Entry {
    fingerprint: Vec<u8>,
    owner: Vec<u8>,
    /// `None` while it is pending.
    result: Option<Vec<u8>>,
    deadline_ms: u64,
}

impl Entry {
    fn record(&self) -> IdemRecord<'_> {
        IdemRecord {
            state: match self.result {
                Some(_) => IdemState::Completed,
                None => IdemState::Pending,
            },
            fingerprint: &self.fingerprint,
            owner: &self.owner,
            result: self.result.as_deref().unwrap_or_default(),
        }
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStore::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("records", &self.lock().by_key.len())
            .finish_non_exhaustive()
    }
}

impl MemoryStore {
    /// An empty store. Its clock starts with the wall clock and then goes on by itself, as a server's does.
    pub fn new() -> MemoryStore {
        let started = Instant::now();
        let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        MemoryStore::with_clock(move || {
            u64::try_from((start + started.elapsed()).as_millis()).unwrap_or(u64::MAX)
        })
    }

    /// An empty store with a clock of the caller's: Unix milliseconds. It is asked once for each call.
    pub fn with_clock(clock: impl Fn() -> u64 + Send + Sync + 'static) -> MemoryStore {
        MemoryStore {
            shared: Arc::new(Shared {
                clock: Box::new(clock),
                state: Mutex::new(Records {
                    by_key: HashMap::new(),
                    sweep_at: SWEEP_RECORDS,
                }),
            }),
        }
    }

    /// What is known of the key's live record; `None` when there is none.
    pub fn inspect(&self, key: &[u8]) -> Option<Inspection> {
        let now = (self.shared.clock)();
        let mut records = self.lock();
        let entry = records.live(key, now)?;
        Some(Inspection {
            state: match entry.result {
                Some(_) => State::Completed,
                None => State::Pending,
            },
            fingerprint: entry.fingerprint.clone(),
            owner: entry.owner.clone(),
            deadline_ms: entry.deadline_ms,
            ttl: Duration::from_millis(entry.deadline_ms - now),
            result_bytes: u64::try_from(entry.result.as_ref().map_or(0, Vec::len)).unwrap_or(u64::MAX),
        })
    }

    /// A caller that panicked while it held the lock has left no half of anything: each change is one insertion or
    /// removal.
    fn lock(&self) -> MutexGuard<'_, Records> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin_now(&self, key: &[u8], fingerprint: &[u8], owner: &[u8], ttl: Duration) -> Result<Begin, Error> {
        bounds::key(key)?;
        bounds::token("fingerprint", fingerprint)?;
        bounds::token("owner", owner)?;
        let ttl_ms = bounds::ttl_ms(ttl)?;
        let now = (self.shared.clock)();
        let mut records = self.lock();
        let live = records.live(key, now).map(|entry| entry.record());
        Ok(match transition::begin(live, fingerprint) {
            transition::Begin::Pending => Begin::Pending,
            transition::Begin::Conflict => Begin::Conflict,
            transition::Begin::Completed { result } => Begin::Completed(result.to_vec()),
            transition::Begin::Acquire => {
                let entry = Entry {
                    fingerprint: fingerprint.to_vec(),
                    owner: owner.to_vec(),
                    result: None,
                    deadline_ms: now.saturating_add(ttl_ms),
                };
                records.sweep(now);
                records.by_key.insert(key.to_vec(), entry);
                Begin::Acquired
            }
        })
    }

    fn complete_now(
        &self,
        key: &[u8],
        fingerprint: &[u8],
        owner: &[u8],
        result: &[u8],
    ) -> Result<bool, Error> {
        bounds::key(key)?;
        bounds::token("fingerprint", fingerprint)?;
        bounds::token("owner", owner)?;
        bounds::result(result)?;
        let now = (self.shared.clock)();
        let mut records = self.lock();
        let Some(entry) = records.live(key, now) else {
            return Ok(false);
        };
        Ok(
            match transition::complete(Some(entry.record()), fingerprint, owner, result) {
                Complete::Store => {
                    entry.result = Some(result.to_vec());
                    true
                }
                Complete::AlreadyStored => true,
                Complete::Refused => false,
            },
        )
    }

    fn abort_now(&self, key: &[u8], fingerprint: &[u8], owner: &[u8]) -> Result<bool, Error> {
        bounds::key(key)?;
        bounds::token("fingerprint", fingerprint)?;
        bounds::token("owner", owner)?;
        let now = (self.shared.clock)();
        let mut records = self.lock();
        let live = records.live(key, now).map(|entry| entry.record());
        Ok(match transition::abort(live, fingerprint, owner) {
            Abort::Remove => records.by_key.remove(key).is_some(),
            Abort::Refused => false,
        })
    }
}

impl Records {
    /// The record of a key when it is live; one that has ended is removed.
    fn live(&mut self, key: &[u8], now: u64) -> Option<&mut Entry> {
        if self.by_key.get(key).is_some_and(|entry| now >= entry.deadline_ms) {
            self.by_key.remove(key);
        }
        self.by_key.get_mut(key)
    }

    /// Removes what has ended when there are many: each record is looked at a bounded number of times.
    fn sweep(&mut self, now: u64) {
        if self.by_key.len() < self.sweep_at {
            return;
        }
        self.by_key.retain(|_, entry| now < entry.deadline_ms);
        self.sweep_at = SWEEP_RECORDS.max(self.by_key.len().saturating_mul(2));
    }
}

impl Store for MemoryStore {
    async fn begin(
        &self,
        key: &[u8],
        fingerprint: &[u8],
        owner: &[u8],
        ttl: Duration,
    ) -> Result<Begin, Error> {
        self.begin_now(key, fingerprint, owner, ttl)
    }

    async fn complete(
        &self,
        key: &[u8],
        fingerprint: &[u8],
        owner: &[u8],
        result: &[u8],
    ) -> Result<bool, Error> {
        self.complete_now(key, fingerprint, owner, result)
    }

    async fn abort(&self, key: &[u8], fingerprint: &[u8], owner: &[u8]) -> Result<bool, Error> {
        self.abort_now(key, fingerprint, owner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::MemoryStore;
    use crate::Begin;

    fn manual() -> (MemoryStore, Arc<AtomicU64>) {
        let now = Arc::new(AtomicU64::new(1_000));
        let clock = Arc::clone(&now);
        (MemoryStore::with_clock(move || clock.load(Ordering::SeqCst)), now)
    }

    #[test]
    fn a_record_ends_at_its_millisecond_and_not_before() {
        let (store, now) = manual();
        let begin = |owner: &[u8]| {
            store
                .begin_now(b"k", b"f", owner, Duration::from_millis(50))
                .unwrap()
        };
        assert_eq!(begin(b"a"), Begin::Acquired);
        now.store(1_049, Ordering::SeqCst);
        assert_eq!(begin(b"b"), Begin::Pending);
        assert_eq!(store.inspect(b"k").unwrap().ttl, Duration::from_millis(1));
        now.store(1_050, Ordering::SeqCst);
        assert_eq!(store.inspect(b"k"), None);
        // The first owner is late at the very moment at which the second may begin.
        assert!(!store.complete_now(b"k", b"f", b"a", b"late").unwrap());
        assert_eq!(begin(b"b"), Begin::Acquired);
        assert!(!store.abort_now(b"k", b"f", b"a").unwrap());
        assert!(store.complete_now(b"k", b"f", b"b", b"").unwrap());
        assert_eq!(begin(b"c"), Begin::Completed(Vec::new()));
    }

    #[test]
    fn ended_records_do_not_gather() {
        let (store, now) = manual();
        for number in 0..100_000_u64 {
            let key = number.to_le_bytes();
            let begun = store.begin_now(&key, b"f", b"o", Duration::from_millis(10));
            assert_eq!(begun.unwrap(), Begin::Acquired);
            now.fetch_add(1, Ordering::SeqCst);
        }
        assert!(store.lock().by_key.len() <= 2 * super::SWEEP_RECORDS);
    }
}
