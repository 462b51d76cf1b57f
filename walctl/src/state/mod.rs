//! The state that a log stands for, rebuilt offline: by the server's own reader, verdict and `apply`.
//!
//! Vocabulary: the *state at L* is what a server would hold that had read the records below L and none after it; a *target*
//! is the position or time that was asked for; a record is *sound* when it lies before everything that the verdict refuses.
//!
//! Invariants
//! * A snapshot is fuzzy and stands for no state before its end, so an earlier state is never read from it: an older one is
//!   used, or the log from lsn 0 ([`idem_wal::recovery::judge_until`]). One that ends where it starts is exact, and needs no
//!   log ([`sound`]).
//! * Only sound records count. A target before the damage is rebuilt, and the damage is a note beside it; one at or after
//!   it is refused with the verdict. Of a live directory only what a sync has covered counts.
//! * What has ended is judged by the log's time, as everywhere. The clock of this machine is asked one thing: whether a time
//!   behind the newest record has come, so that the end of the log is the state at it.
//!
//! Memory is what a server needs for the same keys. What has ended is freed on the way, as in a start.
//!
//! Deliberately absent: a state machine. Whoever wants to look at each record on its way in is an [`Observer`].

mod rebuild;
mod refusal;
mod sound;
mod span;

use std::hash::{BuildHasher, Hasher, RandomState};

use idem_engine::Keyspace;
use idem_engine::digest::{Digest, digest};
use idem_engine::keyspace::EntryRef;
use idem_protocol::snapshot::SnapshotTrailer;
use idem_protocol::wal::{RawRecord, Record};
use idem_protocol::{Lsn, UnixMs};
use idem_wal::recovery::{Place, Sink, Until};

pub(crate) use self::rebuild::{Answer, Rebuilt, rebuild};
pub(crate) use self::span::newest;

/// Any of the databases that a record can name.
const DATABASES: u16 = 256;
/// Log records between two steps of giving memory back, and entries freed or moved in one.
const RECLAIM_EVERY: u32 = 256;
const RECLAIM_BUDGET: usize = 8192;

/// Where a record comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// An item of the snapshot that reading begins with.
    Snapshot,
    /// The log.
    Log,
}

/// Looks at each record before it is applied. Until the state is there, all of it is provisional.
pub(crate) trait Observer {
    /// Forget everything: reading begins anew.
    fn reset(&mut self);
    /// `record` will be applied to `state` next.
    fn before(&mut self, state: &State, origin: Origin, raw: &RawRecord<'_>, record: &Record<'_>);
}

/// For those who want only the state.
impl Observer for () {
    fn reset(&mut self) {}
    fn before(&mut self, _: &State, _: Origin, _: &RawRecord<'_>, _: &Record<'_>) {}
}

/// The keys and values at a position of the log.
#[derive(Debug)]
pub(crate) struct State {
    keyspace: Keyspace,
    lsn: Lsn,
    time: UnixMs,
    last_crc: u32,
    since_reclaim: u32,
}

impl State {
    /// The state at lsn 0.
    pub(crate) fn new() -> State {
        // Keys of a log were chosen by its clients, who must not be able to choose ones that collide here.
        let seed = [(); 4].map(|()| RandomState::new().build_hasher().finish());
        State {
            keyspace: Keyspace::new(DATABASES, seed),
            lsn: Lsn::ZERO,
            time: UnixMs::ZERO,
            last_crc: 0,
            since_reclaim: 0,
        }
    }

    fn reset(&mut self) {
        self.keyspace.clear();
        (self.lsn, self.time, self.last_crc) = (Lsn::ZERO, UnixMs::ZERO, 0);
        self.since_reclaim = 0;
    }

    /// The next record that it takes is the one at `lsn`: where a snapshot's items were taken, its start.
    pub(crate) fn stand_at(&mut self, lsn: Lsn) {
        self.lsn = lsn;
    }

    /// An item stands at the lsn at which its partition was written; it takes up no bytes of the log.
    pub(crate) fn take_item(&mut self, raw: &RawRecord<'_>, item: &Record<'_>) {
        self.keyspace.apply(raw.time, raw.db, item);
        self.time = self.time.max(raw.time);
    }

    fn take(&mut self, raw: &RawRecord<'_>, record: &Record<'_>) {
        self.keyspace.apply(raw.time, raw.db, record);
        self.pass(raw);
    }

    /// Applies a record of the log. `before` is shown what it does, in parts where it is a Transaction, each with the state
    /// that it meets.
    pub(crate) fn take_parts(
        &mut self,
        raw: &RawRecord<'_>,
        record: &Record<'_>,
        before: &mut dyn FnMut(&Keyspace, u8, &Record<'_>),
    ) {
        if let Record::Transaction { records } = record {
            for (db, part) in records.iter() {
                before(&self.keyspace, db, &part);
                self.keyspace.apply(raw.time, db, &part);
            }
        } else {
            before(&self.keyspace, raw.db, record);
            self.keyspace.apply(raw.time, raw.db, record);
        }
        self.pass(raw);
    }

    /// A record of the log was applied.
    fn pass(&mut self, raw: &RawRecord<'_>) {
        self.lsn = raw.end();
        self.time = self.time.max(raw.time);
        self.last_crc = raw.crc;
        // Only between records of the log: an item may have been prolonged by a record that comes after the items.
        self.since_reclaim += 1;
        if self.since_reclaim == RECLAIM_EVERY {
            self.since_reclaim = 0;
            self.keyspace.maintain(raw.time, RECLAIM_BUDGET);
            self.keyspace.reclaim(raw.time, RECLAIM_BUDGET);
        }
    }

    /// The snapshot that it began with ends here; when no record follows, this is where the state stands.
    pub(crate) fn ends_at_least(&mut self, trailer: &SnapshotTrailer) {
        if trailer.end_lsn >= self.lsn {
            self.lsn = trailer.end_lsn;
            self.last_crc = trailer.end_crc;
        }
        self.time = self.time.max(trailer.log_time);
    }

    /// Where it stands: the end of the last record in it.
    pub(crate) fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// The log's time there.
    pub(crate) fn time(&self) -> UnixMs {
        self.time
    }

    /// CRC of the record that ends there, 0 at lsn 0.
    pub(crate) fn last_crc(&self) -> u32 {
        self.last_crc
    }

    /// All of it, what has ended included.
    pub(crate) fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// The entry under `key` that a client would see at the log's time.
    pub(crate) fn get(&self, db: u8, key: &[u8]) -> Option<EntryRef<'_>> {
        let entry = self.keyspace.get(db, key)?;
        (!entry.deadline().has_ended(self.time)).then_some(entry)
    }

    /// What a client would see at the log's time, in no particular order.
    pub(crate) fn live(&self) -> impl Iterator<Item = (u8, EntryRef<'_>)> {
        let is_live = |(_, entry): &(u8, EntryRef<'_>)| !entry.deadline().has_ended(self.time);
        self.keyspace.iter().filter(is_live)
    }

    /// How many keys that are. Looks at each.
    pub(crate) fn keys(&self) -> usize {
        self.live().count()
    }

    /// The digest that the server would have: equal states have equal digests.
    pub(crate) fn digest(&self) -> Digest {
        digest(&self.keyspace, self.time)
    }
}

/// Feeds a state with what is within the limit.
struct Feed<'o> {
    state: State,
    until: Until,
    observer: &'o mut dyn Observer,
    /// The first record that was left out: where it begins and ends.
    left_out: Option<(Lsn, Lsn)>,
    /// End of the last record that was applied and is more than a time.
    changed_to: Lsn,
}

impl Sink for Feed<'_> {
    fn reset(&mut self) {
        self.state.reset();
        self.observer.reset();
        (self.left_out, self.changed_to) = (None, Lsn::ZERO);
    }

    fn snapshot_item(&mut self, raw: &RawRecord<'_>, item: &Record<'_>) {
        self.observer.before(&self.state, Origin::Snapshot, raw, item);
        self.state.take_item(raw, item);
    }

    fn record(&mut self, _: Place<'_>, raw: &RawRecord<'_>, record: &Record<'_>) {
        if self.left_out.is_some() || !self.until.takes(raw) {
            self.left_out.get_or_insert((raw.lsn, raw.end()));
            return;
        }
        self.observer.before(&self.state, Origin::Log, raw, record);
        self.state.take(raw, record);
        if !matches!(record, Record::Clock) {
            self.changed_to = raw.end();
        }
    }
}
