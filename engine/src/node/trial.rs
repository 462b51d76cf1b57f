//! The trial of a transaction: what its commands would do, decided one on what the other leaves, with nothing changed.
//!
//! All of it happens in one turn, while everybody else waits, and before it is known whether any of it counts. So the work
//! and the memory of a trial are bounded by what the client sent and by the bounds below; what is over them is refused as
//! a whole, which costs nothing, because nothing has happened.

use std::ops::Range;

use idem_protocol::command::errors::Text;
use idem_protocol::command::{self, CommandId, Flags};
use idem_protocol::resp::ArgsQueue;
use idem_protocol::resp::encode::{Reply, encode};
use idem_protocol::wal::{RECORD_BYTES_MAX, Record, SubRecordsBuf};
use idem_protocol::{Lsn, UnixMs};

use super::Node;
use crate::counters::{ErrorCode, Tally};
use crate::decide::{Call, View, decide};
use crate::decision::{Action, Effects, Scratch};
use crate::deed::Deed;
use crate::info::Facts;
use crate::overlay::Overlay;
use crate::pubsub::MATCHING_STEPS_MAX;
use crate::session::{Session, SessionChange};

/// Bytes that the replies of one transaction may have together, unless one value may be longer. A client that cannot be
/// sent them would be dropped without a word about a transaction that took place.
const REPLIES_BYTES_MAX: usize = 48 << 20;

/// Bytes that its record may have, unless the queue may have half as many: `APPEND` makes a long value of a short request,
/// and the record holds it once for each.
const PARTS_BYTES_MAX: u64 = 64 << 20;

/// Bytes of messages that its `PUBLISH`es may give to all receivers together, each message counted for each receiver.
const MESSAGES_BYTES_MAX: u64 = 32 << 20;

/// What a message costs beside its bytes.
const MESSAGE_BYTES: u64 = 64;

/// Entries and fields that its commands may pass over because the transaction itself changed them: a tenth of a second.
const PASSED_OVER_MAX: u64 = 1 << 20;

/// What the commands of a transaction would do, as far as they were decided.
pub(super) struct Trial {
    /// The connection as the commands would leave it.
    pub(super) session: Session,
    /// Each command's database.
    pub(super) dbs: Vec<u8>,
    pub(super) parts: SubRecordsBuf,
    pub(super) replies: Vec<u8>,
    pub(super) tallies: Vec<Tally>,
    pub(super) errors: Vec<ErrorCode>,
    pub(super) deeds: Vec<Deed>,
    pub(super) closes: bool,
    /// A command that may need memory wrote something.
    pub(super) grows: bool,
    pub(super) needs_clock: bool,
    pub(super) depends_on: Lsn,
    /// Bytes that receivers of messages would get.
    messages_bytes: u64,
    /// Work of holding channels against patterns.
    matching_steps: usize,
    /// For each `CONFIG REWRITE`: where its reply stands, and how many deeds come before it.
    rewrites: Vec<(Range<usize>, usize)>,
}

/// How EXEC says that a transaction has not taken place.
pub(super) fn aborted(why: &str) -> Text {
    format!("EXECABORT Transaction discarded because of: {why}").into()
}

impl Node {
    /// Decides every command of a queue, one on what the other leaves. Nothing is changed.
    /// What is over a bound is refused as a whole.
    pub(super) fn trial(
        &self,
        session: &mut Session,
        queue: &ArgsQueue,
        now: UnixMs,
        clock: UnixMs,
        facts: &dyn Facts,
    ) -> Trial {
        let mut trial = Trial::begin(session, queue.len());
        let mut overlay = Overlay::default();
        let mut random = self.random;
        let longest = self.config.bulk_bytes_max.saturating_add(1 << 20);
        let replies_max = REPLIES_BYTES_MAX.max(longest);
        let parts_max = PARTS_BYTES_MAX
            .max(2 * self.transaction_bytes_max as u64)
            .max(longest as u64)
            .min(RECORD_BYTES_MAX);
        for args in queue.iter() {
            let Ok(route) = command::resolve(args) else {
                // Only what has a route is queued.
                return trial.refused(session, "ERR a queued command is unknown");
            };
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
            let at = trial.replies.len();
            encode(&reply, protocol, &mut trial.replies);
            if let Reply::Error(text) = &reply {
                trial.errors.push(ErrorCode::of(text));
            }
            if let (Reply::Int(receivers), Action::Deed(deed)) = (&reply, &effects.action)
                && let Deed::Publish(publication) = &**deed
            {
                let each = MESSAGE_BYTES + publication.bytes() as u64;
                let all = u64::try_from(*receivers).unwrap_or(0).saturating_mul(each);
                trial.messages_bytes = trial.messages_bytes.saturating_add(all);
            }
            if route.spec.id == CommandId::Publish {
                let steps = self.pubsub.matching_steps(call.arg(1));
                trial.matching_steps = trial.matching_steps.saturating_add(steps);
            }
            if effects.action == Action::RewriteConfig {
                trial.rewrites.push((at..trial.replies.len(), trial.deeds.len()));
            }
            drop(reply);
            for (db, record) in &effects.records {
                trial.parts.push(*db, record);
                overlay.take(&self.keyspace, now, *db, record);
            }
            trial.grows |= !effects.records.is_empty() && route.flags().contains(Flags::DENYOOM);
            trial.dbs.push(call.db);
            trial.note(effects);
            let too_much = if trial.record_bytes() > parts_max {
                format!("ERR it needs more than {parts_max} bytes of the log")
            } else if trial.replies.len() > replies_max {
                format!("ERR its replies have more than {replies_max} bytes")
            } else if trial.messages_bytes > MESSAGES_BYTES_MAX {
                format!(
                    "ERR its messages have more than {MESSAGES_BYTES_MAX} bytes, counted for each receiver"
                )
            } else if trial.matching_steps > MATCHING_STEPS_MAX {
                "ERR its channels' names are too long for the patterns that are subscribed to".to_owned()
            } else if overlay.passed_over() > PASSED_OVER_MAX {
                "ERR its commands look too often at what it has changed itself".to_owned()
            } else {
                continue;
            };
            return trial.refused(session, &too_much);
        }
        trial
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
            messages_bytes: 0,
            matching_steps: 0,
            rewrites: Vec::new(),
        }
    }

    /// A transaction that does nothing but answer.
    pub(super) fn answer(
        session: &mut Session,
        reply: &Reply<'_>,
        depends_on: Lsn,
        needs_clock: bool,
    ) -> Trial {
        let mut trial = Trial::begin(session, 0);
        trial.replies.clear();
        encode(reply, trial.session.protocol, &mut trial.replies);
        if let Reply::Error(text) = reply {
            trial.errors.push(ErrorCode::of(text));
        }
        Trial {
            depends_on,
            needs_clock,
            ..trial
        }
    }

    /// Nothing of it takes place. What it looked at before that became clear shows in the answer, which waits for it.
    pub(super) fn refused(self, session: &mut Session, why: &str) -> Trial {
        let reply = Reply::Error(aborted(why));
        let mut trial = Trial::answer(session, &reply, self.depends_on, self.needs_clock);
        // Whoever watches for refused writes must not miss those of transactions.
        trial.errors.push(ErrorCode::of(why));
        trial
    }

    /// Writes the configuration file, when it was asked for: once, as the last `CONFIG REWRITE` would. The transaction has
    /// taken place by then; if the file cannot be written, that is what each of them answers.
    pub(super) fn rewrite_config(&mut self, facts: &dyn Facts) {
        let Some((_, deeds)) = self.rewrites.last() else {
            return;
        };
        let Err(text) = facts.rewrite_config(self.deeds.get(..*deeds).unwrap_or_default()) else {
            return;
        };
        let mut error = Vec::new();
        encode(&Reply::Error(text.clone()), self.session.protocol, &mut error);
        for (range, _) in std::mem::take(&mut self.rewrites).into_iter().rev() {
            self.replies.splice(range, error.iter().copied());
            self.errors.push(ErrorCode::of(&text));
        }
    }

    /// Keeps what a command does apart from its record and its reply.
    fn note(&mut self, effects: Effects<'_>) {
        self.tallies.push(effects.tally);
        self.session.change(effects.session);
        match effects.action {
            // A rewriting is noted where its reply is.
            Action::Answer | Action::RewriteConfig => {}
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
