//! DELIBERATELY BROKEN. Compiled only with the feature `sabotage`, for the crash harness: it has to notice each of these,
//! or it proves nothing. Nothing here is ever part of a release.

use idem_protocol::idem::IdemState;
use idem_protocol::wal::Record;
use idem_protocol::{Deadline, Lsn, UnixMs};

use super::Node;
use crate::log::{Log, Reservation};

/// How this build is broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sabotage {
    /// Not at all.
    #[default]
    None,
    /// The barrier answers the appended position: replies go out before what they reveal is on disk.
    ReplyBeforeSync,
    /// A transition's value is one record and its deadline a second one, appended by the next command or tick: a kill
    /// between the two leaves a record that never ends.
    DeadlineInSecondRecord,
    /// A message is delivered at once, whatever it may say about writes that are not on disk yet.
    MessageBeforeSync,
}

/// Deadlines that were not written with their values.
pub(super) type LateDeadlines = Vec<(u8, Vec<u8>, Deadline)>;

impl Node {
    /// Whether messages do not wait for what their publishers have been promised.
    pub fn delivers_at_once(&self) -> bool {
        self.config.sabotage == Sabotage::MessageBeforeSync
    }

    /// The broken form of a transition: the value without its deadline. `None` for what is written as always.
    pub(super) fn commit_without_deadline<L: Log>(
        &mut self,
        log: &mut L,
        now: UnixMs,
        db: u8,
        record: &Record<'_>,
    ) -> Option<Lsn> {
        let Record::IdempotencyPut {
            key,
            deadline,
            record,
        } = *record
        else {
            return None;
        };
        let broken =
            self.config.sabotage == Sabotage::DeadlineInSecondRecord && record.state != IdemState::Aborted;
        if !broken {
            return None;
        }
        let mut value = Vec::new();
        record.encode(&mut value);
        self.late.push((db, key.to_vec(), deadline));
        Some(self.commit(
            log,
            now,
            db,
            &Record::StringPut {
                key,
                deadline: Deadline::NONE,
                value: &value,
            },
        ))
    }

    /// The second halves, too late.
    pub(super) fn append_late_deadlines<L: Log>(&mut self, now: UnixMs, log: &mut L) {
        for (db, key, deadline) in std::mem::take(&mut self.late) {
            let record = Record::DeadlinePut { key: &key, deadline };
            if log.reserve(record.encoded_len()) == Reservation::Granted {
                let time = now.max(self.barrier.log_time());
                self.commit(log, time, db, &record);
            } else {
                self.late.push((db, key, deadline));
            }
        }
    }
}
