//! Times in arguments, and the deadlines that come of them.
//!
//! A relative time becomes an absolute one here, once, from the decision's `now`; records carry nothing else.

use idem_protocol::command::args::{is, parse_i64};
use idem_protocol::command::errors::{self, Text};
use idem_protocol::resp::Args;
use idem_protocol::{Deadline, UnixMs};

use super::View;

/// What a command counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Milliseconds,
}

impl Unit {
    /// Milliseconds as a reply says them: seconds are rounded to the nearest, as Redis does.
    pub(super) fn count(self, ms: i64) -> i64 {
        match self {
            Unit::Milliseconds => ms,
            Unit::Seconds => ms.saturating_add(500) / 1000,
        }
    }
}

/// What a command counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// The decision's time.
    Now,
    /// The beginning of 1970.
    Epoch,
}

impl Base {
    pub(super) fn ms(self, now: UnixMs) -> i64 {
        match self {
            Base::Now => i64::try_from(now.get()).expect("a time has 48 bits"),
            Base::Epoch => 0,
        }
    }
}

/// `time` in Unix milliseconds. Possibly in the past or negative, for the caller to judge. An error when no 64-bit integer
/// holds it in milliseconds.
pub(super) fn absolute(time: i64, unit: Unit, base: i64, command: &str) -> Result<i64, Text> {
    let factor = if unit == Unit::Seconds { 1000 } else { 1 };
    time.checked_mul(factor)
        .and_then(|ms| ms.checked_add(base))
        .ok_or_else(|| errors::invalid_expire_time(command))
}

/// A time that comes with a value: an option of `SET` and `GETEX`, the argument of `SETEX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expiry<'c> {
    pub(super) unit: Unit,
    pub(super) base: Base,
    /// The argument, not looked at yet.
    pub(super) time: &'c [u8],
}

impl<'c> Expiry<'c> {
    /// The option whose word is argument `at`: `EX`, `PX`, `EXAT` or `PXAT`. `None` when it is another word, and when its
    /// own argument is missing.
    pub(super) fn option(args: Args<'c>, at: usize) -> Option<Expiry<'c>> {
        let word = args.get(at)?;
        let (unit, base) = [
            ("EX", Unit::Seconds, Base::Now),
            ("PX", Unit::Milliseconds, Base::Now),
            ("EXAT", Unit::Seconds, Base::Epoch),
            ("PXAT", Unit::Milliseconds, Base::Epoch),
        ]
        .into_iter()
        .find_map(|(known, unit, base)| is(word, known).then_some((unit, base)))?;
        let time = args.get(at + 1)?;
        Some(Expiry { unit, base, time })
    }

    /// Whether both are the same option. The same one twice is fine, and the last counts; two different ones contradict.
    pub(super) fn is_same_option(self, other: Expiry<'_>) -> bool {
        (self.unit, self.base) == (other.unit, other.base)
    }

    /// The deadline. It may have come already, when it was given as an absolute time; 0 and what is negative is refused
    /// before anything is added to it: `EX 0` is no way to say "now".
    pub(super) fn deadline(self, command: &str, view: &View<'_>) -> Result<Deadline, Text> {
        let time = parse_i64(self.time).ok_or_else(errors::not_an_integer)?;
        if time <= 0 {
            return Err(errors::invalid_expire_time(command));
        }
        let ms = absolute(time, self.unit, self.base.ms(view.now()), command)?;
        Ok(Deadline::at(
            u64::try_from(ms).expect("a sum of two that are not negative"),
        ))
    }
}
