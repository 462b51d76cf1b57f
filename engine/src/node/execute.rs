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
use crate::decide::{Call, State, View, decide};
use crate::decision::{Action, Decision, Effects, Records, Scratch};
use crate::group;
use crate::info::Facts;
use crate::log::{Log, Reservation};
use crate::session::{Session, SessionChange};

const NO_SPACE: &str = "MISCONF No space can be reserved in the log: nothing was written. Reads are answered, and writes \
                        work again when there is space.";

const NO_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";

const NO_TRANSACTIONS: &str = "ERR unknown command 'MULTI': there are no transactions in this version. Nothing behind it \
                               is executed, and the connection is closed.";

impl Node {
    /// Runs one command at `now` and appends its reply to `out`.
    ///
    /// Either everything happens in this call (records appended and applied, reply encoded, session changed, counted) or,
    /// for [`Outcome::Wait`], nothing at all, except that other keys may have been evicted to make room for it.
    pub fn execute<L: Log>(
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
            Err(_) if command::begins_transaction(args.name()) => {
                self.refuse(session, NO_TRANSACTIONS.into(), out);
                return Outcome::Close {
                    depends_on: Lsn::ZERO,
                };
            }
            Err(text) => return self.refuse(session, text, out),
        };
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
            let state = State {
                keyspace: &self.keyspace,
                barrier: &self.barrier,
                counters: &self.counters,
                facts,
                session,
                epoch: self.epoch,
                bulk_bytes_max: self.config.bulk_bytes_max,
                memory_limit: self.memory_limit,
                peak_bytes: self.peak_bytes,
                clock,
                access_clock: self
                    .memory_limit
                    .wants_access_times()
                    .then(|| self.access_clock(clock)),
                random: self.random,
            };
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
            session.change(change);
            // The last end is the highest, and everything that was looked at lies below it.
            let depends_on = self.commit_all(log, now, &records).unwrap_or(depends_on);
            self.touch(call, now);
            return match action {
                Action::Answer => Outcome::Reply { depends_on },
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

    /// Appends and applies the records of one command; answers the end of the last one.
    fn commit_all<L: Log>(&mut self, log: &mut L, now: UnixMs, records: &Records<'_>) -> Option<Lsn> {
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
    fn refuse(&mut self, session: &mut Session, text: Text, out: &mut Vec<u8>) -> Outcome {
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
