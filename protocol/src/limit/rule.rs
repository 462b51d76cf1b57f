//! What one call does: the formulas of the three modes.
//!
//! | mode | used at `now` | fits when | the record ends |
//! |---|---|---|---|
//! | fixed | count | used < max | when the window does |
//! | sliding | count + floor(previous · (window − elapsed) / window) | used < max | when the next window would |
//! | tokens | full − level; the level rises by floor(elapsed · max · 2^20 / window), at most to full | level ≥ cost · 2^20 | when the bucket is full |
//!
//! A sliding window that is over becomes the previous one of a window that begins where it ended. A bucket's record is
//! written at each withdrawal and starts to refill from there; what the floor takes away then is less than 2^-20 token a
//! call.
//!
//! **What a record says is final, not the key's deadline.** The deadline is only when the memory may go. `PERSIST` and a
//! later `EXPIRE` therefore change nothing about the counting. An earlier `EXPIRE` takes the record away sooner, unless a
//! call that fits comes before that and writes the deadline anew; the wait that a refusal names knows of it.
//!
//! Records can come from a client's `SET`, with a start in the future. They count as if nothing had elapsed.

use super::record::{LimitRecord, TOKEN_PARTS, Usage};
use crate::{Deadline, UnixMs};

/// How calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A window that the first call opens.
    Fixed,
    /// The previous window counts by its overlap.
    Sliding,
    /// A bucket that refills.
    Tokens,
}

impl Mode {
    /// The byte on disk.
    pub const fn to_byte(self) -> u8 {
        match self {
            Mode::Fixed => 0,
            Mode::Sliding => 1,
            Mode::Tokens => 2,
        }
    }
}

/// One LIMIT command, its numbers within their bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// How it wants to be counted.
    pub mode: Mode,
    /// Calls per window, or the size of the bucket.
    pub max: u32,
    /// The window in milliseconds, if this call begins one.
    pub window_ms: u32,
    /// Tokens that it takes: 1 to `max`, and 1 in the other modes.
    pub cost: u32,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It fits, once `record` is stored until `deadline`.
    Fits {
        /// What to store.
        record: LimitRecord,
        /// The key's deadline.
        deadline: Deadline,
        /// How many calls of cost 1 would still fit now.
        left: u32,
    },
    /// It does not fit; nothing is stored.
    Refused {
        /// The shortest wait in milliseconds after which this very call would fit if no other came in between; at
        /// least 1.
        retry_ms: u64,
    },
    /// The key counts in another mode.
    OtherMode,
}

/// Decides one call on what lives under the key: its record and its deadline, `None` when it is missing or has ended.
pub fn call(live: Option<(LimitRecord, Deadline)>, call: Call, now: UnixMs) -> Verdict {
    let now_ms = now.get();
    let Some((record, deadline)) = live.filter(|(record, _)| now_ms < record.ends_at()) else {
        return first(call, now_ms);
    };
    let fits_at = match (record.usage, call.mode) {
        (Usage::Fixed { count, .. }, Mode::Fixed) => fixed(record, count, call),
        (Usage::Sliding { count, previous }, Mode::Sliding) => {
            sliding(record.in_window(count, previous, now_ms), call, now_ms)
        }
        (Usage::Tokens { level }, Mode::Tokens) => tokens(record, level, call, now_ms),
        _ => return Verdict::OtherMode,
    };
    fits_at.unwrap_or_else(|fits_at| {
        // Without the record everything fits, so its end is never too early.
        let gone = if deadline.is_some() {
            deadline.get().min(record.ends_at())
        } else {
            record.ends_at()
        };
        Verdict::Refused {
            // A key whose deadline has come is not live, and what fits now is not refused: both lie ahead.
            retry_ms: fits_at.min(gone).saturating_sub(now_ms).max(1),
        }
    })
}

/// The verdict when the call fits, else the moment at which it would.
type Fit = Result<Verdict, u64>;

/// A call that finds nothing: it fits, since `max` and `cost` are within their bounds.
fn first(call: Call, now_ms: u64) -> Verdict {
    let usage = match call.mode {
        Mode::Fixed => Usage::Fixed {
            count: 1,
            previous: 0,
        },
        Mode::Sliding => Usage::Sliding {
            count: 1,
            previous: 0,
        },
        Mode::Tokens => Usage::Tokens {
            level: u64::from(call.max.saturating_sub(call.cost)) * TOKEN_PARTS,
        },
    };
    let record = LimitRecord {
        max: call.max,
        window_ms: call.window_ms,
        start_ms: now_ms,
        usage,
    };
    record.fits(call.max.saturating_sub(call.cost))
}

fn fixed(record: LimitRecord, count: u32, call: Call) -> Fit {
    if count >= call.max {
        return Err(record.ends_at());
    }
    let usage = Usage::Fixed {
        count: count + 1,
        previous: 0,
    };
    let record = LimitRecord {
        max: call.max,
        usage,
        ..record
    };
    Ok(record.fits(call.max - count - 1))
}

/// A sliding record as it is in the window of `now`.
#[derive(Clone, Copy)]
struct InWindow {
    record: LimitRecord,
    count: u32,
    previous: u32,
}

fn sliding(window: InWindow, call: Call, now_ms: u64) -> Fit {
    let InWindow {
        record,
        count,
        previous,
    } = window;
    let used = u64::from(count) + record.overlap(previous, now_ms);
    if used < u64::from(call.max) {
        let usage = Usage::Sliding {
            count: count + 1,
            previous,
        };
        let left = u32::try_from(u64::from(call.max) - used - 1).expect("at most max");
        let record = LimitRecord {
            max: call.max,
            usage,
            ..record
        };
        return Ok(record.fits(left));
    }
    let window_ms = u64::from(record.window_ms);
    Err(if count < call.max {
        record.start_ms + faded(previous, call.max - count, window_ms)
    } else {
        // Not before the next window, in which today's count is the previous one.
        record.start_ms + window_ms + faded(count, call.max, window_ms)
    })
}

/// The first moment of a window, in milliseconds from its start, at which `previous` weighs less than `room` (at least
/// 1); the window's length when it is the end.
///
/// floor(previous · rest / window) < room, rest being window − elapsed, means previous · rest ≤ room · window − 1.
fn faded(previous: u32, room: u32, window_ms: u64) -> u64 {
    let most = u128::from(room) * u128::from(window_ms) - 1;
    let rest = most.checked_div(u128::from(previous)).unwrap_or(most);
    window_ms.saturating_sub(u64::try_from(rest).unwrap_or(u64::MAX))
}

fn tokens(record: LimitRecord, level: u64, call: Call, now_ms: u64) -> Fit {
    let full = u64::from(call.max) * TOKEN_PARTS;
    let cost = u64::from(call.cost) * TOKEN_PARTS;
    let elapsed = now_ms.saturating_sub(record.start_ms);
    let risen = u128::from(elapsed) * u128::from(full) / u128::from(record.window_ms);
    // A bucket that was larger once holds no more than fits now.
    let level_now = u64::try_from((u128::from(level) + risen).min(u128::from(full))).expect("at most full");
    let Some(rest) = level_now.checked_sub(cost) else {
        return Err(record.start_ms + rise_ms(cost - level.min(cost), full, record.window_ms));
    };
    let record = LimitRecord {
        max: call.max,
        start_ms: now_ms,
        usage: Usage::Tokens { level: rest },
        ..record
    };
    let left = u32::try_from(rest / TOKEN_PARTS).expect("at most max");
    Ok(record.fits(left))
}

/// Milliseconds in which a level rises by `parts`: the least t with floor(t · full / window) ≥ parts.
fn rise_ms(parts: u64, full: u64, window_ms: u32) -> u64 {
    let product = u128::from(parts) * u128::from(window_ms);
    u64::try_from(product.div_ceil(u128::from(full))).unwrap_or(u64::MAX)
}

impl LimitRecord {
    /// From this moment on, in Unix milliseconds, the record says no more than no record would: the end of a fixed
    /// window, the end of the window after a sliding one, the moment a bucket is full.
    pub fn ends_at(&self) -> u64 {
        let window_ms = u64::from(self.window_ms);
        self.start_ms
            + match self.usage {
                Usage::Fixed { .. } => window_ms,
                Usage::Sliding { .. } => 2 * window_ms,
                Usage::Tokens { level } => {
                    let full = u64::from(self.max) * TOKEN_PARTS;
                    rise_ms(full.saturating_sub(level), full, self.window_ms)
                }
            }
    }

    fn fits(self, left: u32) -> Verdict {
        Verdict::Fits {
            record: self,
            deadline: Deadline::at(self.ends_at()),
            left,
        }
    }

    /// A sliding record that has not ended, in the window of `now`: its own, or the one after it.
    fn in_window(self, count: u32, previous: u32, now_ms: u64) -> InWindow {
        let next_ms = self.start_ms + u64::from(self.window_ms);
        if now_ms < next_ms {
            return InWindow {
                record: self,
                count,
                previous,
            };
        }
        InWindow {
            record: LimitRecord {
                start_ms: next_ms,
                ..self
            },
            count: 0,
            previous: count,
        }
    }

    /// What the previous window weighs at `now`.
    fn overlap(&self, previous: u32, now_ms: u64) -> u64 {
        let window_ms = u64::from(self.window_ms);
        let rest_ms = window_ms.saturating_sub(now_ms.saturating_sub(self.start_ms));
        let weighed = u128::from(previous) * u128::from(rest_ms) / u128::from(window_ms);
        u64::try_from(weighed).expect("at most previous")
    }
}
