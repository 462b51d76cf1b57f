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
use idem_protocol::wal::Record;
use idem_protocol::{Lsn, UnixMs};
use smallvec::smallvec;

use super::evict::Room;
use super::execute::{NO_MEMORY, NO_SPACE};
use super::trial::{Trial, aborted};
use super::{Node, Outcome};
use crate::decide::{Call, View};
use crate::decision::{Records, Scratch};
use crate::info::Facts;
use crate::log::{Log, Reservation};
use crate::session::Session;
use crate::transaction::Transaction;

const FAILED_BEFORE: &str = "EXECABORT Transaction discarded because of previous errors.";

const NOT_INSIDE: &str = "ERR Command not allowed inside a transaction";

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
            let mut trial = if ended || self.watches.has_changed(&session.watched) {
                view.depend_on_everything();
                let (depends_on, needs_clock) = (view.depends_on(), view.needs_clock());
                Trial::answer(session, &Reply::NullArray, depends_on, needs_clock)
            } else {
                self.trial(session, transaction.queue(), now, clock, facts)
            };
            // As for a single command: where the log has no space either, nothing can be evicted.
            if trial.grows && self.is_full() && (can_write || !self.evicts()) {
                if !no_room {
                    match self.make_room(call, now, log) {
                        Room::Made => {}
                        Room::Later => return Outcome::Wait,
                        Room::None => no_room = true,
                        Room::NoSpace => can_write = false,
                    }
                    continue;
                }
                trial = trial.refused(session, NO_MEMORY);
            }
            if !trial.parts.is_empty() && !can_write {
                trial = trial.refused(session, NO_SPACE);
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
            // From here on nothing of it can fail, so what reaches beyond the log begins.
            let depends_on = self.commit_all(log, now, &records).unwrap_or(trial.depends_on);
            drop(records);
            trial.rewrite_config(facts);
            return self.settle_trial(session, transaction.queue(), trial, now, depends_on, out);
        }
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

    /// Says that a transaction has not taken place, for a reason that has nothing to do with what is stored.
    pub(super) fn abort(&mut self, session: &mut Session, why: &str, out: &mut Vec<u8>) -> Outcome {
        self.refuse(session, aborted(why), out)
    }
}
