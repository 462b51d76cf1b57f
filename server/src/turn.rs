//! How much one connection does before the others have their turn.
//!
//! A turn ends when the connection waits, and not with a read: who sends faster than the server reads would otherwise be
//! read again and again, a hundred times, before anybody else. Within it, a *stretch* is what is executed without
//! releasing the core.

use std::time::Duration;

use crate::clock::boot_time;

/// Commands executed in one turn.
const COMMANDS_MAX: usize = 128;
/// Bytes read in one turn, give or take one read.
const READ_BYTES_MAX: usize = 64 << 10;
/// Bytes of replies made in one stretch, give or take one reply: a few large replies are as much work as many small ones.
const REPLY_BYTES_MAX: usize = 128 << 10;
/// Time of one stretch, looked at every few commands: a step of SCAN can be ten thousand times the work of a GET.
const TIME_MAX: Duration = Duration::from_millis(1);
const TIME_EVERY: usize = 4;
/// Each client that gets a message makes a system call when it has its turn, for one message or for a hundred. A stretch
/// that calls many may last a little longer, so that it is for more messages …
const WAKE_COST: Duration = Duration::from_micros(2);
/// … but no longer than this.
const LONGER_MAX: Duration = Duration::from_millis(1);

/// What a connection has done since the others were last served.
#[derive(Debug, Default)]
pub struct Turn {
    commands: usize,
    read_bytes: usize,
}

/// What it has executed since it borrowed the core.
#[derive(Debug)]
pub struct Stretch {
    /// [`boot_time`] then.
    began: Duration,
    executed: usize,
    /// Beyond [`TIME_MAX`].
    longer: Duration,
    /// The same behind the last command, when it was measured.
    measured: Option<Duration>,
}

impl Turn {
    /// Others have been served.
    pub fn begin(&mut self) {
        *self = Turn::default();
    }

    /// So many bytes were read.
    pub fn note_read(&mut self, bytes: usize) {
        self.read_bytes += bytes;
    }

    /// Whether nothing more should be read before the others are served.
    pub fn has_read_enough(&self) -> bool {
        self.read_bytes >= READ_BYTES_MAX
    }

    /// A command was executed; `measured` is the [`boot_time`] behind it, when that was looked at.
    pub fn note_command(&mut self, stretch: &mut Stretch, measured: Option<Duration>) {
        stretch.measured = measured;
        self.commands += 1;
        stretch.executed += 1;
    }

    /// Whether the others have to be served before the next command. `reply_bytes`: of the replies made in this stretch.
    pub fn is_over(&self, stretch: &Stretch, reply_bytes: usize) -> bool {
        let looked = stretch.measured.is_some();
        let asks_time = looked || (!stretch.is_first() && stretch.executed.is_multiple_of(TIME_EVERY));
        let now = || stretch.measured.unwrap_or_else(boot_time);
        self.commands >= COMMANDS_MAX
            || reply_bytes > REPLY_BYTES_MAX
            || (asks_time && now().saturating_sub(stretch.began) > TIME_MAX + stretch.longer)
    }
}

impl Stretch {
    /// Begins at this [`boot_time`].
    pub fn begin(boot: Duration) -> Stretch {
        Stretch {
            began: boot,
            executed: 0,
            longer: Duration::ZERO,
            measured: None,
        }
    }

    /// So many others have something to send now.
    pub fn note_woken(&mut self, count: usize) {
        let longer = u32::try_from(count).map_or(LONGER_MAX, |count| count * WAKE_COST);
        self.longer = (self.longer + longer).min(LONGER_MAX);
    }

    /// Whether no command has been executed in it.
    pub fn is_first(&self) -> bool {
        self.executed == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bound_ends_a_turn() {
        let mut turn = Turn::default();
        let mut stretch = Stretch::begin(boot_time());
        assert!(!turn.is_over(&stretch, REPLY_BYTES_MAX));
        assert!(turn.is_over(&stretch, REPLY_BYTES_MAX + 1));
        (0..COMMANDS_MAX).for_each(|_| turn.note_command(&mut stretch, None));
        assert!(turn.is_over(&stretch, 0));
        turn.begin();
        let late = Stretch {
            began: stretch.began.saturating_sub(TIME_MAX * 2),
            executed: TIME_EVERY,
            ..Stretch::begin(stretch.began)
        };
        assert!(turn.is_over(&late, 0));
        let mut measured = Stretch::begin(stretch.began);
        turn.note_command(&mut measured, Some(stretch.began + TIME_MAX));
        assert!(!turn.is_over(&measured, 0));
        turn.note_command(&mut measured, Some(stretch.began + TIME_MAX * 2));
        assert!(turn.is_over(&measured, 0));
        // A hundred who have something to read now, and then a million.
        measured.note_woken(100);
        turn.note_command(&mut measured, Some(stretch.began + TIME_MAX + WAKE_COST * 100));
        assert!(!turn.is_over(&measured, 0));
        measured.note_woken(1_000_000);
        turn.note_command(&mut measured, Some(stretch.began + TIME_MAX + LONGER_MAX));
        assert!(!turn.is_over(&measured, 0));
        turn.note_command(&mut measured, Some(stretch.began + TIME_MAX * 2 + LONGER_MAX));
        assert!(turn.is_over(&measured, 0));
        turn.note_read(READ_BYTES_MAX - 1);
        assert!(!turn.has_read_enough());
        turn.note_read(1);
        assert!(turn.has_read_enough());
    }
}
