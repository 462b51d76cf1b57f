//! A decision: what a command would do, as a value that somebody else carries out.
//!
//! Deciding reads, carrying out writes; between them lies the reservation of log space, which may fail. Because nothing
//! has happened before it, failing needs no undo.

use std::cell::OnceCell;
use std::io::Write;
use std::time::Duration;

use idem_protocol::limit::{LimitRecord, RECORD_BYTES};
use idem_protocol::resp::encode::Reply;
use idem_protocol::wal::{Record, SubRecords};
use smallvec::{SmallVec, smallvec};

use crate::counters::Tally;
use crate::deed::Deed;
use crate::session::SessionChange;

/// The records of one command, each with its database. Nearly always none or one.
pub type Records<'c> = SmallVec<[(u8, Record<'c>); 1]>;

/// What a command does and says. `'c` is the lifetime of its arguments, `'k` that of the state it looked at: records
/// outlive the look at the state, because applying them changes it.
///
/// What the reply depends on is not here: the [`View`](crate::decide::View) keeps it, look by look, so that no command
/// can forget it.
#[derive(Debug)]
pub struct Decision<'c, 'k> {
    /// To append and apply, in this order, all or none. Empty: nothing changes.
    pub records: Records<'c>,
    /// The answer, true once the records are applied and safe.
    pub reply: Reply<'k>,
    /// What changes on the connection.
    pub session: SessionChange<'c>,
    /// What the server does apart from answering.
    pub action: Action,
    /// What is counted.
    pub tally: Tally,
}

/// A decision without its reply: what is left to do once the reply is encoded.
#[derive(Debug)]
pub struct Effects<'c> {
    /// As in [`Decision`].
    pub records: Records<'c>,
    /// As in [`Decision`].
    pub session: SessionChange<'c>,
    /// As in [`Decision`].
    pub action: Action,
    /// As in [`Decision`].
    pub tally: Tally,
}

/// What a command asks of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// To answer.
    #[default]
    Answer,
    /// To answer and close the connection.
    Close,
    /// To answer, and to let everybody wait for so long before that.
    Sleep(Duration),
    /// To answer and make a snapshot.
    Snapshot,
    /// To make a snapshot and answer when it is done; the decision's own reply is not sent.
    SnapshotThenAnswer,
    /// `CONFIG REWRITE` inside a transaction, which writes the file when it takes place, and not before.
    RewriteConfig,
    /// To answer, and something about other connections or the server itself.
    Deed(Box<Deed>),
    /// The same, and the connection is closed behind the answer.
    DeedThenClose(Box<Deed>),
}

impl<'c, 'k> Decision<'c, 'k> {
    /// An answer that changes nothing.
    pub fn reply(reply: Reply<'k>) -> Self {
        Decision {
            records: SmallVec::new(),
            reply,
            session: SessionChange::None,
            action: Action::Answer,
            tally: Tally::None,
        }
    }

    /// An error that changes nothing.
    pub fn error(text: impl Into<std::borrow::Cow<'static, str>>) -> Self {
        Decision::reply(Reply::Error(text.into()))
    }

    /// An answer, and what the server does apart from it.
    pub fn deed(deed: Deed, reply: Reply<'k>) -> Self {
        Decision {
            action: Action::Deed(Box::new(deed)),
            ..Decision::reply(reply)
        }
    }

    /// One record and the answer that comes true with it.
    pub fn record(db: u8, record: Record<'c>, reply: Reply<'k>) -> Self {
        Decision {
            records: smallvec![(db, record)],
            ..Decision::reply(reply)
        }
    }

    /// What a command does to several keys: one record for one of them, a [`Record::Transaction`] for more, so that the log
    /// holds all of them or none under one lsn; nothing for none.
    pub fn records(
        db: u8,
        records: Vec<(u8, Record<'c>)>,
        scratch: &'c Scratch<'c>,
        reply: Reply<'k>,
    ) -> Self {
        match scratch.records(|| records) {
            [] => Decision::reply(reply),
            [(db, record)] => Decision::record(*db, *record, reply),
            parts => Decision::record(
                db,
                Record::Transaction {
                    records: SubRecords::Slice(parts),
                },
                reply,
            ),
        }
    }

    /// The reply, which borrows from the state, and the rest, which does not.
    pub fn split(self) -> (Reply<'k>, Effects<'c>) {
        let Decision {
            records,
            reply,
            session,
            action,
            tally,
        } = self;
        (
            reply,
            Effects {
                records,
                session,
                action,
                tally,
            },
        )
    }

    /// The same, counted.
    #[must_use]
    pub fn counted(self, tally: Tally) -> Self {
        Decision { tally, ..self }
    }
}

/// Where a decision puts what its record needs in one piece and the client did not send in one: lists of arguments, values
/// that are computed, the records of a transaction. The caller owns it and lets it live as long as the records. Commands
/// of one key and one value as it was sent never touch it, and numbers fit in it, so neither allocates.
#[derive(Debug, Default)]
pub struct Scratch<'a> {
    pairs: OnceCell<Vec<(&'a [u8], &'a [u8])>>,
    strings: OnceCell<Vec<&'a [u8]>>,
    bytes: OnceCell<Computed>,
    records: OnceCell<Vec<(u8, Record<'a>)>>,
    counter: OnceCell<[u8; RECORD_BYTES]>,
}

/// A value that a command computed: room for any 64-bit number without the heap.
pub type Computed = SmallVec<[u8; 24]>;

impl<'a> Scratch<'a> {
    /// Keeps the bytes of a counter record; no allocation. As [`Scratch::pairs`].
    pub fn counter(&self, record: LimitRecord) -> &[u8] {
        self.counter.get_or_init(|| record.encode())
    }

    /// Keeps pairs; a second call keeps the first list, as a decision has one record of them.
    pub fn pairs(&self, make: impl FnOnce() -> Vec<(&'a [u8], &'a [u8])>) -> &[(&'a [u8], &'a [u8])] {
        self.pairs.get_or_init(make)
    }

    /// Keeps strings; as [`Scratch::pairs`].
    pub fn strings(&self, make: impl FnOnce() -> Vec<&'a [u8]>) -> &[&'a [u8]] {
        self.strings.get_or_init(make)
    }

    /// Keeps a computed value; as [`Scratch::pairs`].
    pub fn bytes(&self, make: impl FnOnce() -> Computed) -> &[u8] {
        self.bytes.get_or_init(make)
    }

    /// Keeps a number as its digits; as [`Scratch::pairs`].
    pub fn digits(&self, number: i64) -> &[u8] {
        self.bytes(|| {
            let mut digits = Computed::new();
            // Writing to memory cannot fail.
            let _ = write!(digits, "{number}");
            digits
        })
    }

    /// Keeps the parts of a transaction; as [`Scratch::pairs`].
    pub fn records(&self, make: impl FnOnce() -> Vec<(u8, Record<'a>)>) -> &[(u8, Record<'a>)] {
        self.records.get_or_init(make)
    }
}
