//! One command, from its arguments to its reply.

use idem_protocol::command::errors::Text;
use idem_protocol::command::{self, CommandId, Flags};
use idem_protocol::resp::Args;
use idem_protocol::resp::encode::{Reply, encode};
use idem_protocol::wal::{RECORD_BYTES_MAX, Record};
use idem_protocol::{Lsn, UnixMs};

use super::evict::Room;
use super::{Node, Outcome};
use crate::counters::ErrorCode;
use crate::decide::{Call, State, View, decide, refusal};
use crate::decision::{Action, Decision, Effects, Records, Scratch};
use crate::group;
use crate::info::Facts;
use crate::log::{Log, Reservation};
use crate::overlay::Overlay;
use crate::session::{Session, SessionChange};
use crate::transaction::runs_at_once;

pub(super) const NO_SPACE: &str = "MISCONF No space can be reserved in the log: nothing was written. Reads are answered, and writes \
                        work again when there is space.";

pub(super) const NO_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";

impl Node {
    /// Decides one command and carries it out; see [`Node::execute`].
    pub(super) fn answer<L: Log>(
        &mut self,
        session: &mut Session,
        args: Args<'_>,
        now: UnixMs,
        log: &mut L,
        facts: &dyn Facts,
        out: &mut Vec<u8>,
    ) -> Outcome {
        #[cfg(feature = "sabotage")]
        self.append_late_deadlines(now, log);

        let route = match command::resolve(args) {
            Ok(route) => route,
            Err(text) => {
                session.last_command = command::lookup(args.name()).map(|spec| spec.name);
                if args.name().eq_ignore_ascii_case(b"exec") {
                    // An end that is spelled wrongly is one all the same.
                    self.leave_transaction(session);
                    let text = text.strip_prefix("ERR ").unwrap_or(&text);
                    return self.abort(session, text, out);
                }
                if let Some(transaction) = &mut session.transaction {
                    transaction.fail();
                }
                return self.refuse(session, text, out);
            }
        };
        session.last_command = Some(route.full_name());
        if let Some(text) = refusal(session, &route) {
            return self.refuse(session, text, out);
        }
        if session.transaction.is_some() {
            if route.spec.id == CommandId::Exec {
                return self.exec(session, route, args, now, log, facts, out);
            }
            if !runs_at_once(&route) {
                return self.queue(session, route, args, log, out);
            }
        }
        let mut can_write = log.can_write();
        let mut no_room = false;
        let clock = now.max(self.barrier.log_time());
        self.random.step();
        if route.spec.id == CommandId::Info {
            // So that no INFO ever shows a lower peak than one before it.
            self.note_peak();
        }
        loop {
            // New for each decision: what one of them computed is not what the next one would.
            let scratch = Scratch::default();
            let call = Call {
                route,
                args,
                db: session.db,
                scratch: &scratch,
            };
            let log_time = self.barrier.log_time();
            // What had not ended by the log's time cannot end while no record can say so: a restart would show it again.
            let now = if can_write { now.max(log_time) } else { log_time };
            let state = self.state(session, facts, None, clock);
            let mut view = View::new(state, now);
            let mut decision = decide(call, &mut view);
            let depends_on = view.depends_on();
            if let Some(bytes) = too_large(&decision.records) {
                decision = Decision::error(format!(
                    "ERR the command needs {bytes} bytes of the log, the limit is {RECORD_BYTES_MAX}"
                ));
            }
            let grows = !decision.records.is_empty() && route.flags().contains(Flags::DENYOOM);
            // Where the log has no space either, nothing can be evicted: that is MISCONF's to say.
            if grows && self.is_full() && (can_write || !self.evicts()) {
                if no_room {
                    decision = Decision::error(NO_MEMORY);
                } else {
                    drop(decision);
                    match self.make_room(call, now, log) {
                        Room::Made => {}
                        Room::Later => return Outcome::Wait,
                        Room::None => no_room = true,
                        Room::NoSpace => can_write = false,
                    }
                    continue;
                }
            }
            if decision.records.is_empty() && view.needs_clock() {
                decision.records.push((0, Record::Clock));
            }
            if !decision.records.is_empty() {
                if !can_write {
                    decision = Decision::error(NO_SPACE);
                } else if !group::eligible(session, call.route.spec) && !log.close_group() {
                    return Outcome::Wait;
                } else {
                    match log.reserve(reserved_bytes(&decision.records)) {
                        Reservation::Granted => {}
                        Reservation::Wait => return Outcome::Wait,
                        Reservation::NoSpace => {
                            can_write = false;
                            continue;
                        }
                    }
                }
            }
            // From here on nothing can fail. The reply borrows from the state that its records are about to change.
            let (
                reply,
                Effects {
                    records,
                    session: change,
                    action,
                    tally,
                },
            ) = decision.split();
            if action != Action::SnapshotThenAnswer {
                let protocol = match change {
                    SessionChange::Hello { protocol, .. } => protocol,
                    _ => session.protocol,
                };
                encode(&reply, protocol, out);
            }
            let error = match &reply {
                Reply::Error(text) => Some(ErrorCode::of(text)),
                _ => None,
            };
            drop(reply);
            if let Some(code) = error {
                self.counters.errors.count(code);
            }
            self.counters.commands += 1;
            self.counters.count(tally);
            session.commands += 1;
            self.change_session(session, change);
            // The last end is the highest, and everything that was looked at lies below it.
            let depends_on = self.commit_all(log, now, &records).unwrap_or(depends_on);
            self.touch(session, call, now);
            return match action {
                // Outside of a transaction the file is written when the command is decided.
                Action::Answer | Action::RewriteConfig => Outcome::Reply { depends_on },
                Action::Deed(deed) => {
                    self.deeds.push(*deed);
                    Outcome::Reply { depends_on }
                }
                Action::DeedThenClose(deed) => {
                    self.deeds.push(*deed);
                    Outcome::Close { depends_on }
                }
                Action::Close => Outcome::Close { depends_on },
                Action::Sleep(duration) => Outcome::Sleep { duration, depends_on },
                Action::Snapshot => Outcome::Snapshot {
                    wait: false,
                    depends_on,
                },
                Action::SnapshotThenAnswer => Outcome::Snapshot {
                    wait: true,
                    depends_on,
                },
            };
        }
    }

    /// Everything that there is to look at, for whoever decides on behalf of `session`. `clock` is the server's, and no
    /// less than the log's time.
    pub(super) fn state<'k>(
        &'k self,
        session: &'k Session,
        facts: &'k dyn Facts,
        overlay: Option<&'k Overlay>,
        clock: UnixMs,
    ) -> State<'k> {
        let notes_accesses = self.memory_limit.wants_access_times();
        State {
            keyspace: &self.keyspace,
            overlay,
            deeds: &[],
            barrier: &self.barrier,
            counters: &self.counters,
            facts,
            session,
            pubsub: &self.pubsub,
            monitoring: &self.monitoring,
            epoch: self.epoch,
            bulk_bytes_max: self.config.bulk_bytes_max,
            memory_limit: self.memory_limit,
            peak_bytes: self.peak_bytes,
            clock,
            access_clock: notes_accesses.then(|| self.access_clock(clock)),
            random: self.random,
        }
    }

    /// Carries out what a command does to its own connection, here and in what the node knows about it.
    fn change_session(&mut self, session: &mut Session, change: SessionChange<'_>) {
        match change {
            SessionChange::None => return,
            SessionChange::Watch(keys) => {
                keys.into_iter()
                    .for_each(|(key, watch)| self.watches.add(&mut session.watched, key, watch));
                return;
            }
            SessionChange::Unwatch => self.watches.remove(&mut session.watched),
            SessionChange::Discard => self.leave_transaction(session),
            SessionChange::Reset => self.forget(session),
            SessionChange::Subscribe { .. } | SessionChange::Unsubscribe { .. } => {
                return self.pubsub.change(session, &change);
            }
            _ => {}
        }
        session.change(change);
    }

    /// Appends and applies the records of one command; answers the end of the last one.
    pub(super) fn commit_all<L: Log>(
        &mut self,
        log: &mut L,
        now: UnixMs,
        records: &Records<'_>,
    ) -> Option<Lsn> {
        let mut end = None;
        for (db, record) in records {
            #[cfg(feature = "sabotage")]
            if let Some(first_half) = self.commit_without_deadline(log, now, *db, record) {
                end = Some(first_half);
                continue;
            }
            end = Some(self.commit(log, now, *db, record));
        }
        end
    }

    /// An error about the arguments alone: it says nothing about the state and waits for nothing.
    pub(super) fn refuse(&mut self, session: &mut Session, text: Text, out: &mut Vec<u8>) -> Outcome {
        self.counters.errors.count(ErrorCode::of(&text));
        encode(&Reply::Error(text), session.protocol, out);
        session.commands += 1;
        self.counters.commands += 1;
        Outcome::Reply {
            depends_on: Lsn::ZERO,
        }
    }
}

/// The size of what no node would take, if this is it. The limit of one record holds for all records of a command, too:
/// they have to fit one group.
fn too_large(records: &Records<'_>) -> Option<u64> {
    let bytes: u64 = records.iter().map(|(_, record)| record.encoded_len()).sum();
    (bytes > RECORD_BYTES_MAX).then_some(bytes)
}

/// What all records of one command take in the log.
fn reserved_bytes(records: &Records<'_>) -> u64 {
    let bytes: u64 = records.iter().map(|(_, record)| record.encoded_len()).sum();
    // A broken build writes transitions as another kind of record, whose value has a length of its own.
    let broken = if cfg!(feature = "sabotage") {
        4 * records.len() as u64
    } else {
        0
    };
    bytes + broken
}
