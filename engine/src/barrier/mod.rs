//! When a reply may go out.
//!
//! Every reply carries the lsn of the newest thing that it reveals, and leaves when the *barrier position* has reached
//! it. Memory runs ahead of the disk, replies never do: an error, a miss or a `pending` says as much about the state as
//! an OK, and a client that acts on what a restart takes back acts twice.
//!
//! What a reply that wrote depends on is simple: the end of its last record. For one that only looked it is the last
//! change of what it looked at ([`RecentChanges`]), and, where it found an ended entry, the record that brought the log's time
//! past the deadline ([`LogTimes`]).
//!
//! # Positions
//!
//! * *settled*: what `appendfsync` promises for: synced in `always`, written otherwise. Never goes back. What changed
//!   last at or below it is forgotten here, and reading it depends on *this position*.
//! * *barrier*: what replies are compared with. The same, but in `everysec` it falls back to the synced position while
//!   the oldest unsynced record is older than a second. Since reads of settled keys depend on the settled position, they
//!   wait then too: a power loss could take back more than the last second, and no reply may build on that.
//!
//! # Another policy
//!
//! [`Barrier::set_policy`] moves the barrier, forward or back; the settled position never goes back. So from *no* to *always* a
//! read of what was settled as written depends on that position all the same, and waits until it is synced: from then on no
//! reply goes out whose contents a power loss could take back, whenever they were written.

mod changes;
mod times;

use idem_protocol::{Lsn, UnixMs};

pub use changes::{KEPT_CHANGES_MAX, RecentChanges};
pub use times::LogTimes;

use crate::watermark::Watermarks;

/// `appendfsync`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A reply goes out when what it reveals is on the disk.
    #[default]
    Always,
    /// … is in the kernel's hands, and nothing unsynced is older than a second.
    Everysec,
    /// … is in the kernel's hands.
    No,
}

/// How old the oldest unsynced record may be in `everysec` before replies wait, in milliseconds.
pub const UNSYNCED_AGE_MS_MAX: u64 = 1000;

/// Positions of the log and what is needed to know, per look, which of them a reply waits for.
#[derive(Debug)]
pub struct Barrier {
    policy: Durability,
    /// What was settled when the policy changed.
    settled_before: Lsn,
    /// In `everysec`: how old the records up to here are is not known, because nobody was to sync them when they came.
    ageless: Lsn,
    marks: Watermarks,
    changes: RecentChanges,
    times: LogTimes,
}

impl Barrier {
    /// A barrier for a log of which everything up to `end` is durable, with `log_time` the time of its newest record.
    pub fn new(policy: Durability, end: Lsn, log_time: UnixMs) -> Self {
        Barrier {
            policy,
            settled_before: end,
            ageless: end,
            marks: Watermarks::durable(end),
            changes: RecentChanges::new(end),
            times: LogTimes::new(log_time),
        }
    }

    /// Starts over, as [`Barrier::new`] with the same policy.
    pub fn reopen(&mut self, end: Lsn, log_time: UnixMs) {
        *self = Barrier::new(self.policy, end, log_time);
    }

    /// Takes another policy from now on. The log has to be synced under it, and is to be synced once soon.
    pub fn set_policy(&mut self, policy: Durability) {
        self.settled_before = self.settled();
        if self.policy == Durability::No {
            self.ageless = self.marks.written();
        }
        self.policy = policy;
        self.changes.settle(self.settled());
    }

    /// The positions of the log.
    pub const fn marks(&self) -> Watermarks {
        self.marks
    }

    /// The time of the newest record.
    pub fn log_time(&self) -> UnixMs {
        self.times.newest()
    }

    /// A record was appended; its changes are noted through [`Barrier::changes_mut`].
    pub fn append(&mut self, end: Lsn, time: UnixMs) {
        let start = self.marks.appended();
        self.marks.append(end);
        self.times.append(start, end, time);
    }

    /// For noting what a record changed.
    pub fn changes_mut(&mut self) -> &mut RecentChanges {
        &mut self.changes
    }

    /// The log thread reports its positions.
    pub fn progress(&mut self, written: Lsn, synced: Lsn) {
        self.marks.progress(written, synced);
        self.changes.settle(self.settled());
        // In `no` nobody may ever sync; in `everysec` the age of the oldest unsynced record is asked for.
        self.times.forget(match self.policy {
            Durability::Always | Durability::Everysec => synced,
            Durability::No => written,
        });
    }

    /// What the policy promises for, and whatever an earlier one did. Never goes back.
    pub fn settled(&self) -> Lsn {
        self.promised().max(self.settled_before)
    }

    /// What the policy promises for.
    const fn promised(&self) -> Lsn {
        match self.policy {
            Durability::Always => self.marks.synced(),
            Durability::Everysec | Durability::No => self.marks.written(),
        }
    }

    /// Replies that depend on this position or an earlier one may go out at `now`.
    pub fn position(&self, now: UnixMs) -> Lsn {
        self.position_at(|| now)
    }

    /// As [`Barrier::position`]; the clock is only looked at where time matters.
    pub fn position_at(&self, now: impl FnOnce() -> UnixMs) -> Lsn {
        let synced = self.marks.synced();
        let too_old = || {
            self.times
                .oldest_above(synced, self.marks.appended())
                .is_some_and(|oldest| now().get().saturating_sub(oldest.get()) > UNSYNCED_AGE_MS_MAX)
        };
        if self.policy == Durability::Everysec && (synced < self.ageless || too_old()) {
            synced
        } else {
            self.promised()
        }
    }

    /// About how much memory is kept for what is not settled, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let bytes = self.changes.memory_bytes() + self.times.memory_bytes();
        u64::try_from(bytes).expect("what is in memory can be counted in 64 bits")
    }

    /// What a look at a key depends on: the end of its last change, and no less than the settled position.
    pub fn of_key(&self, db: u8, hash: u64) -> Lsn {
        self.changes.of_key(db, hash)
    }

    /// What finding something ended depends on: the record that brought the log to `time`. The caller has checked that
    /// the log's time is there.
    pub fn of_time(&self, time: u64) -> Lsn {
        self.times.brought_by(time)
    }

    /// The newest time that a restart is sure to know: what had ended by then may be reclaimed, since no start, under
    /// whatever wall clock, can show it again.
    pub fn settled_time(&self) -> UnixMs {
        self.times.at(self.settled())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lsn(value: u64) -> Lsn {
        Lsn::new(value)
    }

    fn ms(value: u64) -> UnixMs {
        UnixMs::new(value)
    }

    /// Appended to 300 in three records at 1000, 1000 and 1400 ms, then progress.
    fn check(policy: Durability, written: u64, synced: u64, now: u64, position: u64, settled_time: u64) {
        let mut barrier = Barrier::new(policy, lsn(0), ms(900));
        barrier.append(lsn(100), ms(1000));
        barrier.append(lsn(200), ms(1000));
        barrier.append(lsn(300), ms(1400));
        barrier.progress(lsn(written), lsn(synced));
        assert_eq!(
            barrier.position(ms(now)),
            lsn(position),
            "{policy:?} {written} {synced} at {now}"
        );
        assert_eq!(
            barrier.settled_time(),
            ms(settled_time),
            "{policy:?} {written} {synced}"
        );
        assert_eq!(barrier.log_time(), ms(1400));
    }

    #[test]
    fn position_by_policy() {
        use Durability::{Always, Everysec, No};
        check(Always, 0, 0, 1400, 0, 900);
        check(Always, 300, 0, 1400, 0, 900);
        check(Always, 300, 100, 1400, 100, 1000);
        check(Always, 300, 300, 9999, 300, 1400);
        check(No, 0, 0, 1400, 0, 900);
        check(No, 200, 0, 99999, 200, 1000);
        check(No, 300, 0, 99999, 300, 1400);
        // Everysec: written, until the record of 1000 ms has been unsynced for more than a second.
        check(Everysec, 200, 0, 1400, 200, 1000);
        check(Everysec, 300, 0, 2000, 300, 1400);
        check(Everysec, 300, 0, 2001, 0, 1400);
        check(Everysec, 300, 100, 2001, 100, 1400);
        // The record that ends at 200 is synced: the oldest unsynced one is of 1400.
        check(Everysec, 300, 200, 2001, 300, 1400);
        check(Everysec, 300, 200, 2400, 300, 1400);
        check(Everysec, 300, 200, 2401, 200, 1400);
        check(Everysec, 300, 300, 99999, 300, 1400);
        // A clock that is behind the log makes nothing old.
        check(Everysec, 300, 0, 0, 300, 1400);
    }

    /// Goal: whatever policies follow each other, a reply that goes out reveals nothing that the policy of that moment does
    /// not promise for. Method: every short history over records, progress and policies, with a read of every key after each
    /// step; the reads are held like a connection's replies and looked at when they leave.
    #[test]
    fn no_reply_leaves_under_a_policy_that_does_not_promise_for_it() {
        #[derive(Clone, Copy, Debug)]
        enum Step {
            Put(u64),
            Write,
            Sync,
            Policy(Durability),
        }
        use Durability::{Always, Everysec, No};
        const STEPS: [Step; 7] = [
            Step::Put(1),
            Step::Put(2),
            Step::Write,
            Step::Sync,
            Step::Policy(Always),
            Step::Policy(Everysec),
            Step::Policy(No),
        ];
        const LENGTH: u32 = 5;
        const KEYS: [u64; 3] = [1, 2, 3];
        for first in [Always, Everysec, No] {
            for history in 0..STEPS.len().pow(LENGTH) {
                let mut barrier = Barrier::new(first, lsn(0), ms(1000));
                let mut policy = first;
                let mut changed = [lsn(0); 4];
                // What waits to leave: what it depends on, and the change that it reveals.
                let mut waiting: Vec<(Lsn, Lsn)> = Vec::new();
                let mut settled = lsn(0);
                let mut rest = history;
                for _ in 0..LENGTH {
                    let step = STEPS[rest % STEPS.len()];
                    rest /= STEPS.len();
                    let marks = barrier.marks();
                    match step {
                        Step::Put(key) => {
                            let end = marks.appended().plus(24);
                            barrier.append(end, ms(1000));
                            barrier.changes_mut().note_key(0, key, end);
                            changed[usize::try_from(key).unwrap()] = end;
                        }
                        // Under `always` nothing is told before its sync.
                        Step::Write if policy == Always => {
                            barrier.progress(marks.appended(), marks.appended())
                        }
                        Step::Write => barrier.progress(marks.appended(), marks.synced()),
                        Step::Sync => barrier.progress(marks.written(), marks.written()),
                        Step::Policy(next) => {
                            policy = next;
                            barrier.set_policy(next);
                        }
                    }
                    assert!(barrier.settled() >= settled, "the settled position went back");
                    settled = barrier.settled();
                    for key in KEYS {
                        waiting.push((barrier.of_key(0, key), changed[usize::try_from(key).unwrap()]));
                    }
                    let (position, marks) = (barrier.position(ms(1000)), barrier.marks());
                    let promised = if policy == Always {
                        marks.synced()
                    } else {
                        marks.written()
                    };
                    waiting.retain(|(depends_on, reveals)| {
                        let leaves = *depends_on <= position;
                        assert!(
                            !leaves || *reveals <= promised,
                            "{first:?} then history {history}: {reveals} left at {position}, {promised} is safe"
                        );
                        !leaves
                    });
                }
                // And nobody waits for ever.
                let end = barrier.marks().appended();
                barrier.progress(end, end);
                assert!(
                    waiting
                        .iter()
                        .all(|(depends_on, _)| *depends_on <= barrier.position(ms(9999)))
                );
            }
        }
    }

    /// From `no` to `everysec`: what nobody was to sync may be of any age.
    #[test]
    fn what_was_never_to_be_synced_is_synced_first() {
        let mut barrier = Barrier::new(Durability::No, lsn(0), ms(0));
        barrier.append(lsn(100), ms(1000));
        barrier.progress(lsn(100), lsn(0));
        assert_eq!(barrier.position(ms(1000)), lsn(100));
        barrier.set_policy(Durability::Everysec);
        assert_eq!(barrier.position(ms(1000)), lsn(0));
        barrier.append(lsn(200), ms(1000));
        barrier.progress(lsn(200), lsn(100));
        assert_eq!(barrier.position(ms(1000)), lsn(200));
    }

    #[test]
    fn settled_reads_wait_while_everysec_is_overdue() {
        let mut barrier = Barrier::new(Durability::Everysec, lsn(0), ms(0));
        barrier.append(lsn(100), ms(1000));
        barrier.changes_mut().note_key(0, 7, lsn(100));
        assert_eq!(barrier.of_key(0, 7), lsn(100));
        assert_eq!(barrier.of_key(0, 8), lsn(0));
        barrier.progress(lsn(100), lsn(0));
        assert!(barrier.of_key(0, 8) <= barrier.position(ms(1500)));
        assert!(barrier.of_key(0, 7) > barrier.position(ms(2001)));
        assert!(barrier.of_key(0, 8) > barrier.position(ms(2001)));
        barrier.progress(lsn(100), lsn(100));
        assert!(barrier.of_key(0, 7) <= barrier.position(ms(2001)));
    }
}
