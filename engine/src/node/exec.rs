//! Queueing, and `EXEC`: every command that was queued, as one record.
//!
//! ```text
//! trial: each command is decided at one `now`, through an overlay that has what those before it change
//!    │      its reply is encoded, its record becomes a part of the Transaction; keyspace and session are not touched
//!    ├─ too large, memory full, no space in the log ─▶ EXECABORT, nothing has happened
//!    ├─ the log has no room at this moment ──────────▶ Wait, and all of it is tried again
//!    └─ reserved ─▶ append + apply the one record, then session, counters and deeds
//! ```
//!
//! So a transaction is in the log whole or not at all, and with it on every replica, in every snapshot and after every
//! crash. An error of one command is that command's reply; the others count all the same, as in Redis.

use idem_protocol::command::errors::Text;
use idem_protocol::command::{self, Flags, Route};
use idem_protocol::resp::encode::{Reply, encode};
use idem_protocol::resp::{Args, ArgsQueue};
use idem_protocol::wal::{RECORD_BYTES_MAX, Record, SubRecordsBuf};
use idem_protocol::{Lsn, UnixMs};
use smallvec::smallvec;

use super::evict::Room;
use super::execute::{NO_MEMORY, NO_SPACE};
use super::{Node, Outcome};
use crate::counters::{ErrorCode, Tally};
use crate::decide::{Call, View, decide};
use crate::decision::{Action, Effects, Records, Scratch};
use crate::deed::Deed;
use crate::info::Facts;
use crate::log::{Log, Reservation};
use crate::overlay::Overlay;
use crate::session::{Session, SessionChange};
use crate::transaction::Transaction;

const FAILED_BEFORE: &str = "EXECABORT Transaction discarded because of previous errors.";

const NOT_INSIDE: &str = "ERR Command not allowed inside a transaction";

/// Bytes that the replies of one transaction may have together, unless one value may be longer. A client that cannot be
/// sent them would be dropped without a word about a transaction that took place.
const REPLIES_BYTES_MAX: usize = 48 << 20;

/// What the commands of a transaction would do, as far as they were decided.
struct Trial {
    /// The connection as the commands would leave it.
    session: Session,
    /// Each command's database.
    dbs: Vec<u8>,
    parts: SubRecordsBuf,
    replies: Vec<u8>,
    tallies: Vec<Tally>,
    errors: Vec<ErrorCode>,
    deeds: Vec<Deed>,
    closes: bool,
    /// A command that may need memory wrote something.
    grows: bool,
    needs_clock: bool,
    depends_on: Lsn,
}

impl Node {
    /// Keeps a command for EXEC, or says why the transaction has failed.
    pub(super) fn queue<L: Log>(
        &mut self,
        session: &mut Session,
        route: Route,
        args: Args<'_>,
        log: &L,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let flags = route.flags();
        let bytes_max = self.transaction_bytes_max;
        let Some(transaction) = &mut session.transaction else {
            return self.refuse(session, NOT_INSIDE.into(), out);
        };
        let refusal: Option<Text> = if flags.contains(Flags::NO_MULTI) || route.spec.has_many_replies() {
            Some(NOT_INSIDE.into())
        } else if flags.contains(Flags::DENYOOM) && self.is_full() && !self.evicts() {
            Some(NO_MEMORY.into())
        } else if flags.contains(Flags::WRITE) && !log.can_write() {
            Some(NO_SPACE.into())
        } else if !transaction.push(args, bytes_max) {
            Some(
                format!("ERR the transaction has more than {bytes_max} bytes (client-query-buffer-limit)")
                    .into(),
            )
        } else {
            None
        };
        match refusal {
            Some(text) => {
                transaction.fail();
                self.refuse(session, text, out)
            }
            None => {
                encode(&Reply::Simple("QUEUED"), session.protocol, out);
                Outcome::Reply {
                    depends_on: Lsn::ZERO,
                }
            }
        }
    }

    /// Ends the session's transaction. For [`Outcome::Wait`] nothing has happened, as in [`Node::execute`].
    #[expect(
        clippy::too_many_arguments,
        reason = "those of `execute`, and the route that it found"
    )]
    pub(super) fn exec<L: Log>(
        &mut self,
        session: &mut Session,
        route: Route,
        args: Args<'_>,
        now: UnixMs,
        log: &mut L,
        facts: &dyn Facts,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let Some(transaction) = session.transaction.take() else {
            return self.refuse(session, "ERR EXEC without MULTI".into(), out);
        };
        let outcome = if transaction.has_failed() {
            self.refuse(session, FAILED_BEFORE.into(), out)
        } else {
            let scratch = Scratch::default();
            let call = Call {
                route,
                args,
                db: session.db,
                scratch: &scratch,
            };
            self.exec_queued(session, &transaction, call, now, log, facts, out)
        };
        if outcome == Outcome::Wait {
            session.transaction = Some(transaction);
        } else {
            self.watches.remove(&mut session.watched);
        }
        outcome
    }

    /// As [`Node::exec`], for a transaction that has not failed.
    #[expect(clippy::too_many_arguments, reason = "as above")]
    fn exec_queued<L: Log>(
        &mut self,
        session: &mut Session,
        transaction: &Transaction,
        call: Call<'_>,
        now: UnixMs,
        log: &mut L,
        facts: &dyn Facts,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let mut can_write = log.can_write();
        let mut no_room = false;
        let clock = now.max(self.barrier.log_time());
        self.random.step();
        loop {
            let log_time = self.barrier.log_time();
            let now = if can_write { now.max(log_time) } else { log_time };
            let mut view = View::new(self.state(session, facts, None, clock), now);
            let ended = session
                .watched
                .deadlines()
                .any(|deadline| view.has_ended(deadline));
            let trial = if ended || self.watches.has_changed(&session.watched) {
                view.depend_on_everything();
                let (depends_on, needs_clock) = (view.depends_on(), view.needs_clock());
                Trial::nothing(session, depends_on, needs_clock)
            } else {
                match self.trial(session, transaction.queue(), now, clock, facts) {
                    Ok(trial) => trial,
                    Err(text) => return self.abort(session, &text, out),
                }
            };
            // As for a single command: where the log has no space either, nothing can be evicted.
            if trial.grows && self.is_full() && (can_write || !self.evicts()) {
                if no_room {
                    return self.abort(session, NO_MEMORY, out);
                }
                match self.make_room(call, now, log) {
                    Room::Made => {}
                    Room::Later => return Outcome::Wait,
                    Room::None => no_room = true,
                    Room::NoSpace => can_write = false,
                }
                continue;
            }
            let records: Records<'_> = if !trial.parts.is_empty() {
                let records = trial.parts.records();
                smallvec![(call.db, Record::Transaction { records })]
            } else if trial.needs_clock {
                smallvec![(0, Record::Clock)]
            } else {
                smallvec![]
            };
            if !records.is_empty() {
                if !can_write {
                    return self.abort(session, NO_SPACE, out);
                }
                // A transaction joins nobody's group: `group::eligible`.
                if !log.close_group() {
                    return Outcome::Wait;
                }
                match log.reserve(records.iter().map(|(_, record)| record.encoded_len()).sum()) {
                    Reservation::Granted => {}
                    Reservation::Wait => return Outcome::Wait,
                    Reservation::NoSpace => {
                        can_write = false;
                        continue;
                    }
                }
            }
            // From here on nothing can fail.
            let depends_on = self.commit_all(log, now, &records).unwrap_or(trial.depends_on);
            drop(records);
            return self.settle_trial(session, transaction.queue(), trial, now, depends_on, out);
        }
    }

    /// Decides every command of a queue, one on what the other leaves. Nothing is changed.
    ///
    /// # Errors
    /// Why the transaction cannot be carried out, whatever is in memory and in the log: it or its replies are too large.
    fn trial(
        &self,
        session: &mut Session,
        queue: &ArgsQueue,
        now: UnixMs,
        clock: UnixMs,
        facts: &dyn Facts,
    ) -> Result<Trial, Text> {
        let mut trial = Trial::begin(session, queue.len());
        let mut overlay = Overlay::default();
        let mut random = self.random;
        let replies_max = REPLIES_BYTES_MAX.max(self.config.bulk_bytes_max.saturating_add(1 << 20));
        for args in queue.iter() {
            let route = command::resolve(args)?;
            let scratch = Scratch::default();
            let call = Call {
                route,
                args,
                db: trial.session.db,
                scratch: &scratch,
            };
            let mut state = self.state(&trial.session, facts, Some(&overlay), clock);
            state.random = random;
            state.deeds = &trial.deeds;
            random.step();
            let mut view = View::new(state, now);
            let (reply, effects) = decide(call, &mut view).split();
            trial.depends_on = trial.depends_on.max(view.depends_on());
            trial.needs_clock |= view.needs_clock();
            let protocol = match effects.session {
                SessionChange::Hello { protocol, .. } => protocol,
                _ => trial.session.protocol,
            };
            encode(&reply, protocol, &mut trial.replies);
            if let Reply::Error(text) = &reply {
                trial.errors.push(ErrorCode::of(text));
            }
            drop(reply);
            for (db, record) in &effects.records {
                trial.parts.push(*db, record);
                overlay.take(&self.keyspace, now, *db, record);
            }
            trial.grows |= !effects.records.is_empty() && route.flags().contains(Flags::DENYOOM);
            trial.dbs.push(call.db);
            trial.note(effects);
            let bytes = trial.record_bytes();
            if bytes > RECORD_BYTES_MAX {
                return Err(format!("ERR it needs more than {RECORD_BYTES_MAX} bytes of the log").into());
            }
            if trial.replies.len() > replies_max {
                return Err(format!("ERR its replies have more than {replies_max} bytes").into());
            }
        }
        Ok(trial)
    }

    /// Its record is applied: session, counters and deeds follow.
    fn settle_trial(
        &mut self,
        session: &mut Session,
        queue: &ArgsQueue,
        trial: Trial,
        now: UnixMs,
        depends_on: Lsn,
        out: &mut Vec<u8>,
    ) -> Outcome {
        out.extend_from_slice(&trial.replies);
        trial
            .errors
            .iter()
            .for_each(|code| self.counters.errors.count(*code));
        trial.tallies.iter().for_each(|tally| self.counters.count(*tally));
        self.counters.commands += 1 + trial.dbs.len() as u64;
        let (commands, watched) = (session.commands + 1, std::mem::take(&mut session.watched));
        *session = trial.session;
        (session.commands, session.watched) = (commands, watched);
        self.deeds.extend(trial.deeds);
        if self.memory_limit.wants_access_times() {
            for (args, db) in queue.iter().zip(trial.dbs) {
                let scratch = Scratch::default();
                if let Ok(route) = command::resolve(args) {
                    let scratch = &scratch;
                    self.touch(
                        session,
                        Call {
                            route,
                            args,
                            db,
                            scratch,
                        },
                        now,
                    );
                }
            }
        }
        if trial.closes {
            Outcome::Close { depends_on }
        } else {
            Outcome::Reply { depends_on }
        }
    }

    /// Says that a transaction has not taken place, and why.
    pub(super) fn abort(&mut self, session: &mut Session, why: &str, out: &mut Vec<u8>) -> Outcome {
        self.refuse(
            session,
            format!("EXECABORT Transaction discarded because of: {why}").into(),
            out,
        )
    }
}

impl Trial {
    fn begin(session: &mut Session, commands: usize) -> Trial {
        Trial {
            session: session.for_trial(),
            dbs: Vec::new(),
            parts: SubRecordsBuf::default(),
            replies: format!("*{commands}\r\n").into_bytes(),
            tallies: Vec::new(),
            errors: Vec::new(),
            deeds: Vec::new(),
            closes: false,
            grows: false,
            needs_clock: false,
            depends_on: Lsn::ZERO,
        }
    }

    /// What a watched key that changed leaves of a transaction.
    fn nothing(session: &mut Session, depends_on: Lsn, needs_clock: bool) -> Trial {
        let mut trial = Trial::begin(session, 0);
        trial.replies.clear();
        encode(&Reply::NullArray, trial.session.protocol, &mut trial.replies);
        Trial {
            depends_on,
            needs_clock,
            ..trial
        }
    }

    /// Keeps what a command does apart from its record and its reply.
    fn note(&mut self, effects: Effects<'_>) {
        self.tallies.push(effects.tally);
        self.session.change(effects.session);
        match effects.action {
            Action::Answer => {}
            Action::Close => self.closes = true,
            Action::Sleep(duration) => self.deeds.push(Deed::Sleep(duration)),
            // SAVE cannot be queued; as a snapshot that nobody waits for it would do no harm.
            Action::Snapshot | Action::SnapshotThenAnswer => self.deeds.push(Deed::Snapshot),
            Action::Deed(deed) => self.deeds.push(*deed),
            Action::DeedThenClose(deed) => {
                self.deeds.push(*deed);
                self.closes = true;
            }
        }
    }

    /// The size of the record as it is now.
    fn record_bytes(&self) -> u64 {
        let records = self.parts.records();
        Record::Transaction { records }.encoded_len()
    }
}
