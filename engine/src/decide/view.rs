//! The state as a command may look at it, and the record of what it looked at.

use idem_protocol::command::errors::{self, Text};
use idem_protocol::idem::{IdemError, IdemRecord};
use idem_protocol::{Deadline, Epoch, Lsn, UnixMs};

use super::found::{Fields, Found, Value};
use crate::barrier::Barrier;
use crate::counters::Counters;
use crate::deed::Deed;
use crate::eviction::{ACCESS_CLOCK_SHIFT, MemoryLimit, uncounted_bytes, used_bytes};
use crate::info::Facts;
use crate::keyspace::Keyspace;
use crate::monitoring::Monitoring;
use crate::overlay::Overlay;
use crate::pubsub::PubSub;
use crate::random::Random;
use crate::session::Session;
use crate::transaction::watch::{Watch, WatchedKey};

/// Everything that there is to look at. Only a [`View`] looks.
#[derive(Clone, Copy)]
pub(crate) struct State<'k> {
    pub(crate) keyspace: &'k Keyspace,
    /// What earlier commands of the same EXEC changed; none outside of one.
    pub(crate) overlay: Option<&'k Overlay>,
    /// What earlier commands of the same EXEC ask of the server; none outside of one.
    pub(crate) deeds: &'k [Deed],
    pub(crate) barrier: &'k Barrier,
    pub(crate) counters: &'k Counters,
    pub(crate) facts: &'k dyn Facts,
    pub(crate) session: &'k Session,
    pub(crate) pubsub: &'k PubSub,
    pub(crate) monitoring: &'k Monitoring,
    pub(crate) epoch: Epoch,
    pub(crate) bulk_bytes_max: usize,
    pub(crate) memory_limit: MemoryLimit,
    /// The most that ever counted against it, in bytes.
    pub(crate) peak_bytes: u64,
    /// What the clock says. `now` stays behind it while the log cannot be written.
    pub(crate) clock: UnixMs,
    /// What an access would be noted with; `None` when none is.
    pub(crate) access_clock: Option<u32>,
    pub(crate) random: Random,
}

/// One command's look at the state, at one `now`.
pub struct View<'k> {
    state: State<'k>,
    now: UnixMs,
    depends_on: Lsn,
    needs_clock: bool,
}

impl<'k> View<'k> {
    pub(crate) const fn new(state: State<'k>, now: UnixMs) -> Self {
        View {
            state,
            now,
            depends_on: Lsn::ZERO,
            needs_clock: false,
        }
    }

    /// The decision's time: never below the log's, and exactly what its records carry.
    pub const fn now(&self) -> UnixMs {
        self.now
    }

    /// The server's clock, for whoever asks for the time itself. It goes on while the log cannot be written; what ends and
    /// what is written goes by [`View::now`].
    pub const fn clock(&self) -> UnixMs {
        self.state.clock
    }

    /// Whether this is a command of a transaction of which nobody knows yet whether it takes place.
    pub(super) const fn is_trial(&self) -> bool {
        self.state.overlay.is_some()
    }

    /// Entries or fields were passed over that only this transaction shows or hides.
    pub(super) fn pass_over(&self, count: usize) {
        if let Some(overlay) = self.state.overlay {
            overlay.pass_over(count);
        }
    }

    /// Who asks.
    pub const fn session(&self) -> &'k Session {
        self.state.session
    }

    /// Who listens to what; no reply waits for that.
    pub const fn pubsub(&self) -> &'k PubSub {
        self.state.pubsub
    }

    /// What was slow; no reply waits for that.
    pub const fn monitoring(&self) -> &'k Monitoring {
        self.state.monitoring
    }

    /// Longest string that the configuration allows (`proto-max-bulk-len`), in bytes.
    pub const fn bulk_bytes_max(&self) -> usize {
        self.state.bulk_bytes_max
    }

    /// The memory limit, for INFO.
    pub const fn memory_limit(&self) -> MemoryLimit {
        self.state.memory_limit
    }

    /// What counts against it, in bytes.
    pub fn used_bytes(&self) -> u64 {
        used_bytes(self.state.keyspace)
    }

    /// The most that ever did, as far as somebody looked: ten times a second, and with every INFO.
    pub const fn peak_bytes(&self) -> u64 {
        self.state.peak_bytes
    }

    /// What does not, in bytes.
    pub fn uncounted_bytes(&self) -> u64 {
        uncounted_bytes(self.state.keyspace, self.state.barrier)
    }

    /// The epoch in which this node is primary.
    pub const fn epoch(&self) -> Epoch {
        self.state.epoch
    }

    /// Totals, for INFO.
    pub const fn counters(&self) -> &'k Counters {
        self.state.counters
    }

    /// What the commands before this one in its transaction ask of the server: nothing of it has been carried out.
    pub const fn deeds(&self) -> &'k [Deed] {
        self.state.deeds
    }

    /// What the server knows.
    pub const fn facts(&self) -> &'k dyn Facts {
        self.state.facts
    }

    /// The newest change that was looked at; zero when nothing was.
    pub fn depends_on(&self) -> Lsn {
        self.depends_on
    }

    /// Whether something was taken as ended that the log does not know to have ended: unless the command's own records
    /// carry the time, a Clock record has to.
    pub fn needs_clock(&self) -> bool {
        self.needs_clock
    }

    /// The entry of a key, when it is there and has not ended.
    pub fn live(&mut self, db: u8, key: &[u8]) -> Option<Found<'k>> {
        self.live_hashed(db, key).0
    }

    /// The same, with the key's hash: keyed, so that no client can choose keys whose hashes meet.
    pub fn live_hashed(&mut self, db: u8, key: &[u8]) -> (Option<Found<'k>>, u64) {
        let keyspace = self.state.keyspace;
        let hash = keyspace.key_hash(key);
        self.depend(self.state.barrier.of_key(db, hash));
        let entry = match self.state.overlay {
            None => keyspace.get(db, key).map(Found::kept),
            Some(overlay) => found_through(overlay, keyspace, db, key),
        };
        (entry.filter(|entry| !self.ended(entry.deadline())), hash)
    }

    /// A key as WATCH needs it: what identifies it, and how it is now. A look that nobody is told about, so that nothing
    /// depends on it.
    pub(super) fn watch(&self, db: u8, key: &[u8]) -> (WatchedKey, Watch) {
        let keyspace = self.state.keyspace;
        let entry = keyspace.get(db, key).map(|entry| entry.deadline());
        let watch = Watch {
            since: self.state.barrier.marks().appended(),
            found: entry.filter(|deadline| !deadline.has_ended(self.now)),
        };
        ((db, keyspace.key_hash(key)), watch)
    }

    /// Whether a deadline that was seen has come meanwhile; an answer that depends on it waits as for any end.
    pub(crate) fn has_ended(&mut self, deadline: Deadline) -> bool {
        self.ended(deadline)
    }

    /// The string of a key; an error for another type.
    pub fn string(&mut self, db: u8, key: &[u8]) -> Result<Option<&'k [u8]>, Text> {
        match self.live(db, key).map(|entry| entry.value()) {
            None => Ok(None),
            Some(Value::String(bytes)) => Ok(Some(bytes)),
            Some(Value::Hash(_)) => Err(errors::wrong_type()),
        }
    }

    /// The string of a key with the key's deadline; an error for another type.
    pub fn string_until(&mut self, db: u8, key: &[u8]) -> Result<Option<(&'k [u8], Deadline)>, Text> {
        match self.live(db, key).map(|entry| (entry.value(), entry.deadline())) {
            None => Ok(None),
            Some((Value::String(bytes), deadline)) => Ok(Some((bytes, deadline))),
            Some((Value::Hash(_), _)) => Err(errors::wrong_type()),
        }
    }

    /// The hash of a key with the key's deadline; an error for another type.
    pub fn hash(&mut self, db: u8, key: &[u8]) -> Result<Option<(Fields<'k>, Deadline)>, Text> {
        match self.live(db, key).map(|entry| (entry.value(), entry.deadline())) {
            None => Ok(None),
            Some((Value::Hash(hash), deadline)) => Ok(Some((hash, deadline))),
            Some((Value::String(_), _)) => Err(errors::wrong_type()),
        }
    }

    /// The IDEM record of a key with its deadline. What is no well-formed record is of the wrong type, whatever its
    /// deadline; a record without a deadline is an error of its own, because its retention was taken away.
    pub fn idem(&mut self, db: u8, key: &[u8]) -> Result<Option<(IdemRecord<'k>, Deadline)>, Text> {
        let Some(entry) = self.live(db, key) else {
            return Ok(None);
        };
        let record = match entry.value() {
            Value::String(bytes) => IdemRecord::decode_stored(bytes),
            Value::Hash(_) => Err(IdemError::NotARecord),
        };
        let record = record.map_err(|_| errors::wrong_type())?;
        if entry.deadline().is_none() {
            return Err("ERR the record has no deadline: it was taken away, for instance by PERSIST".into());
        }
        Ok(Some((record, entry.deadline())))
    }

    /// One step of a scan over the live entries of a database; answers the next cursor, 0 at the end. What only this
    /// transaction has comes with the last step.
    pub fn scan(&mut self, db: u8, cursor: u64, count: usize, visit: &mut dyn FnMut(Found<'k>)) -> u64 {
        self.depend_on_everything();
        let State {
            keyspace, overlay, ..
        } = self.state;
        let Some(overlay) = overlay else {
            return keyspace.scan(db, cursor, count, &mut |entry| {
                if !self.ended(entry.deadline()) {
                    visit(Found::kept(entry));
                }
            });
        };
        let next = if overlay.is_flushed(db) {
            0
        } else {
            keyspace.scan(db, cursor, count, &mut |entry| {
                if overlay.get(db, entry.key()).is_none() && !self.ended(entry.deadline()) {
                    visit(Found::kept(entry));
                }
            })
        };
        if next == 0 {
            self.changed_entries(overlay, db, &mut |entry| {
                visit(entry);
                true
            });
        }
        next
    }

    /// Live entries from a place chosen at random on, until `visit` answers false or each was seen once.
    pub fn sample(&mut self, db: u8, visit: &mut dyn FnMut(Found<'k>) -> bool) {
        self.depend_on_everything();
        let State {
            keyspace, overlay, ..
        } = self.state;
        let at = self.state.random.fork().next();
        let mut more = true;
        if overlay.is_none_or(|overlay| !overlay.is_flushed(db)) {
            keyspace.sample(db, at, &mut |entry| {
                let changed = overlay.is_some_and(|overlay| overlay.get(db, entry.key()).is_some());
                self.pass_over(usize::from(changed));
                if !changed && !self.ended(entry.deadline()) {
                    more = visit(Found::kept(entry));
                }
                more
            });
        }
        if let Some(overlay) = overlay.filter(|_| more) {
            self.changed_entries(overlay, db, visit);
        }
    }

    /// What this transaction has put or changed in a database, until `visit` answers false.
    fn changed_entries(&mut self, overlay: &'k Overlay, db: u8, visit: &mut dyn FnMut(Found<'k>) -> bool) {
        let keyspace = self.state.keyspace;
        for (key, changed) in overlay.keys(db) {
            overlay.pass_over(1);
            let entry = Found::changed(key, changed, keyspace.get(db, key));
            if let Some(entry) = entry.filter(|entry| !self.ended(entry.deadline()))
                && !visit(entry)
            {
                return;
            }
        }
    }

    /// For how many seconds an entry was not used, since the start at the longest; `None` when accesses are not noted.
    pub fn idle_seconds(&self, entry: &Found<'_>) -> Option<u64> {
        let clock = self.state.access_clock?;
        let since = clock.saturating_sub(entry.touched().unwrap_or(clock));
        Some((u64::from(since) << ACCESS_CLOCK_SHIFT) / 1000)
    }

    /// How many entries a database holds, ended ones that wait to be reclaimed included, as in Redis.
    pub fn len(&mut self, db: u8) -> u64 {
        self.depend_on_everything();
        match self.state.overlay {
            None => self.state.keyspace.len(db),
            Some(overlay) => overlay.len(db, self.state.keyspace),
        }
    }

    /// The keyspace, for numbers about it that say nothing about single keys: no reply waits for those.
    pub fn statistics(&self) -> &'k Keyspace {
        self.state.keyspace
    }

    /// The positions of the log.
    pub fn barrier(&self) -> &'k Barrier {
        self.state.barrier
    }

    /// For what shows that something changed, whatever it was.
    pub(crate) fn depend_on_everything(&mut self) {
        self.depend(self.state.barrier.marks().appended());
    }

    fn depend(&mut self, on: Lsn) {
        self.depends_on = self.depends_on.max(on);
    }

    /// Whether a deadline has come, and what saying so depends on.
    fn ended(&mut self, deadline: Deadline) -> bool {
        if !deadline.has_ended(self.now) {
            return false;
        }
        if deadline.has_ended(self.state.barrier.log_time()) {
            self.depend(self.state.barrier.of_time(deadline.get()));
        } else {
            self.needs_clock = true;
        }
        true
    }
}

/// The entry of a key as the keyspace would have it once `overlay` is applied; it may have ended.
fn found_through<'k>(overlay: &'k Overlay, keyspace: &'k Keyspace, db: u8, key: &[u8]) -> Option<Found<'k>> {
    let kept = keyspace.get(db, key);
    match overlay.get(db, key) {
        Some((key, changed)) => Found::changed(key, changed, kept),
        None => kept.filter(|_| !overlay.is_flushed(db)).map(Found::kept),
    }
}

impl std::fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View")
            .field("now", &self.now)
            .field("depends_on", &self.depends_on)
            .field("needs_clock", &self.needs_clock)
            .finish_non_exhaustive()
    }
}
