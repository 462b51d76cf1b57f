//! The formulas of LIMIT, exhaustively over a small space, and at the far ends of their ranges.
//!
//! Goal: `limit::call` is what docs/protocol.md says of the three modes, and the wait that a refusal names is exactly the
//! shortest. Method: every sequence of calls over a small alphabet of waits, maxima, windows and costs is played against a
//! model that keeps the calls themselves and not a record, and that finds moments by trying each millisecond. Where the
//! space is too large for that, the properties are checked at random numbers.

use idem_protocol::limit::{BUCKET_MAX, Call, LimitRecord, MAX_MAX, Mode, TOKEN_PARTS, Usage, Verdict, call};
use idem_protocol::{Deadline, UnixMs};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const MODES: [Mode; 3] = [Mode::Fixed, Mode::Sliding, Mode::Tokens];
const START: u64 = 1_000;

/// The calls that were counted, as a person with a list would keep them.
#[derive(Clone, Debug, Default)]
struct Model {
    /// When the first window opened, and its length; `None` when nothing is known.
    opened: Option<(u64, u64)>,
    /// When each counted call came.
    counted: Vec<u64>,
    /// A bucket's level in parts after its last withdrawal, when that was, and the largest it could be then.
    level: u128,
    drawn: u64,
    full: u128,
}

impl Model {
    /// Whether a call fits at `now`, and how many of cost 1 would still fit behind it.
    fn fits(&self, mode: Mode, ask: Call, now: u64) -> Option<u32> {
        let max = u128::from(ask.max);
        let left = match (self.opened.filter(|_| !self.over(mode, now)), mode) {
            (None, _) => max - u128::from(ask.cost),
            (Some(_), Mode::Fixed) => max.checked_sub(self.counted.len() as u128 + 1)?,
            (Some((opened, window)), Mode::Sliding) => {
                let index = |time: u64| (time - opened) / window;
                let in_window =
                    |wanted: u64| self.counted.iter().filter(|time| index(**time) == wanted).count() as u128;
                let this = in_window(index(now));
                let before = index(now).checked_sub(1).map_or(0, in_window);
                let rest = u128::from(window - (now - opened) % window);
                // The floor, by counting: the most whole calls that do not weigh more than the overlap.
                let weighed = (0..=before)
                    .rev()
                    .find(|whole| whole * u128::from(window) <= before * rest);
                max.checked_sub(this + weighed.expect("nothing weighs nothing") + 1)?
            }
            (Some((_, window)), Mode::Tokens) => {
                let level = self.level_at(max * u128::from(TOKEN_PARTS), window, now);
                level.checked_sub(u128::from(ask.cost) * u128::from(TOKEN_PARTS))? / u128::from(TOKEN_PARTS)
            }
        };
        Some(u32::try_from(left).expect("no more than max"))
    }

    fn level_at(&self, full: u128, window: u64, now: u64) -> u128 {
        let risen = u128::from(now - self.drawn) * full / u128::from(window);
        (self.level + risen).min(full)
    }

    /// Whether everything is as if no call had ever come.
    fn over(&self, mode: Mode, now: u64) -> bool {
        let Some((opened, window)) = self.opened else {
            return true;
        };
        let last = self.counted.last().copied().unwrap_or(opened);
        match mode {
            Mode::Fixed => now >= opened + window,
            Mode::Sliding => (now - opened) / window >= (last - opened) / window + 2,
            Mode::Tokens => self.level_at(self.full, window, now) == self.full,
        }
    }

    fn count(&mut self, mode: Mode, ask: Call, now: u64) {
        let full = u128::from(ask.max) * u128::from(TOKEN_PARTS);
        if self.over(mode, now) {
            *self = Model {
                opened: Some((now, u64::from(ask.window_ms))),
                level: full,
                ..Model::default()
            };
        } else {
            let (_, window) = self.opened.expect("what is not over was opened");
            self.level = self.level_at(full, window, now);
        }
        self.level = self
            .level
            .saturating_sub(u128::from(ask.cost) * u128::from(TOKEN_PARTS));
        self.counted.push(now);
        (self.drawn, self.full) = (now, full);
    }
}

/// What is stored under the key, as the server keeps it: gone at its deadline.
type Stored = Option<(LimitRecord, Deadline)>;

fn live(stored: Stored, now: u64) -> Stored {
    stored.filter(|(_, deadline)| !deadline.has_ended(UnixMs::new(now)))
}

fn ask(stored: Stored, call_: Call, now: u64) -> Verdict {
    call(live(stored, now), call_, UnixMs::new(now))
}

/// Plays one call on both, and compares everything that can be compared.
fn play(model: &mut Model, stored: &mut Stored, mode: Mode, call: Call, now: u64) {
    let expected = model.fits(mode, call, now);
    match ask(*stored, call, now) {
        Verdict::Fits {
            record,
            deadline,
            left,
        } => {
            assert_eq!(expected, Some(left), "{call:?} at {now} on {stored:?}");
            assert_eq!(LimitRecord::decode(&record.encode()), Some(record));
            assert_eq!(deadline.get(), record.ends_at());
            model.count(mode, call, now);
            *stored = Some((record, deadline));
            // Over when the model says so: not a millisecond before, not one after.
            assert!(model.over(mode, deadline.get()), "{call:?} at {now}: {record:?}");
            assert!(
                !model.over(mode, deadline.get() - 1),
                "{call:?} at {now}: {record:?}"
            );
        }
        Verdict::Refused { retry_ms } => {
            assert_eq!(expected, None, "{call:?} at {now} on {stored:?}");
            let first = (1..).find(|wait| model.fits(mode, call, now + wait).is_some());
            assert_eq!(Some(retry_ms), first, "{call:?} at {now} on {stored:?}");
            let fits = |at| matches!(ask(*stored, call, at), Verdict::Fits { .. });
            assert!(fits(now + retry_ms) && !fits(now + retry_ms - 1));
        }
        Verdict::OtherMode => panic!("one mode only"),
    }
}

/// Every sequence of four calls, each after one of five waits, with one of three maxima, one of two windows, and for a
/// bucket every cost: the mode that asks least of the alphabet still plays 800 000 of them.
#[test]
fn every_short_history() {
    for mode in MODES {
        let mut alphabet = Vec::new();
        for wait in [0, 1, 2, 3, 7] {
            for max in 1..=3 {
                for window_ms in [3, 4] {
                    for cost in 1..=if mode == Mode::Tokens { max } else { 1 } {
                        alphabet.push((
                            wait,
                            Call {
                                mode,
                                max,
                                window_ms,
                                cost,
                            },
                        ));
                    }
                }
            }
        }
        play_all(&alphabet, 4, mode, &Model::default(), None, START);
    }
}

fn play_all(alphabet: &[(u64, Call)], depth: usize, mode: Mode, model: &Model, stored: Stored, now: u64) {
    if depth == 0 {
        return;
    }
    for (wait, call) in alphabet {
        let (mut model, mut stored) = (model.clone(), stored);
        play(&mut model, &mut stored, mode, *call, now + wait);
        play_all(alphabet, depth - 1, mode, &model, stored, now + wait);
    }
}

/// Long histories with one maximum and one window, where fractions add up.
#[test]
fn long_histories() {
    for mode in MODES {
        for max in 1..=5 {
            for window_ms in 1..=7 {
                let (mut model, mut stored, mut now) = (Model::default(), None, START);
                let mut state = u64::from(max * 31 + window_ms);
                for _ in 0..300 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    now += [0, 0, 1, 1, 2, 3, 5, 16][usize::try_from(state >> 61).unwrap()];
                    let cost = if mode == Mode::Tokens {
                        1 + u32::try_from(state >> 40 & 7).unwrap() % max
                    } else {
                        1
                    };
                    play(
                        &mut model,
                        &mut stored,
                        mode,
                        Call {
                            mode,
                            max,
                            window_ms,
                            cost,
                        },
                        now,
                    );
                }
            }
        }
    }
}

/// As many calls as `left` says fit behind a call, at the same moment, and no more.
#[test]
fn left_is_what_is_left() {
    for mode in MODES {
        for max in 1..=6 {
            let call = Call {
                mode,
                max,
                window_ms: 100,
                cost: 1,
            };
            let mut stored = None;
            for expected in (0..max).rev() {
                let Verdict::Fits {
                    record,
                    deadline,
                    left,
                } = ask(stored, call, START)
                else {
                    panic!("{mode:?}: {expected} of {max} were left");
                };
                assert_eq!(left, expected);
                stored = Some((record, deadline));
            }
            assert!(matches!(ask(stored, call, START), Verdict::Refused { .. }));
        }
    }
}

/// Tables of one call each, with numbers that a person can check.
#[test]
fn single_calls() {
    let record = |max, usage| LimitRecord {
        max,
        window_ms: 1000,
        start_ms: START,
        usage,
    };
    let fixed = |count| record(10, Usage::Fixed { count, previous: 0 });
    let sliding = |count, previous| record(10, Usage::Sliding { count, previous });
    let tokens = |halves: u64| {
        record(
            10,
            Usage::Tokens {
                level: halves * TOKEN_PARTS / 2,
            },
        )
    };
    // What is stored, the call's mode, max and cost, when; then the calls left, or the wait.
    let check = |stored: LimitRecord, mode, max, cost, after, expected: Result<u32, u64>| {
        let call = Call {
            mode,
            max,
            window_ms: 5,
            cost,
        };
        let stored = Some((stored, Deadline::at(stored.ends_at())));
        let found = match ask(stored, call, START + after) {
            Verdict::Fits { record, left, .. } => {
                assert_eq!(record.window_ms, 1000, "the window is the record's until it ends");
                Ok(left)
            }
            Verdict::Refused { retry_ms } => Err(retry_ms),
            Verdict::OtherMode => panic!("the mode is the record's"),
        };
        assert_eq!(found, expected, "{call:?} after {after} on {stored:?}");
    };
    check(fixed(9), Mode::Fixed, 10, 1, 999, Ok(0));
    check(fixed(10), Mode::Fixed, 10, 1, 0, Err(1000));
    check(fixed(10), Mode::Fixed, 10, 1, 999, Err(1));
    check(fixed(10), Mode::Fixed, 12, 1, 0, Ok(1));
    check(fixed(10), Mode::Fixed, 3, 1, 400, Err(600));
    // Half of the previous window still counts: 5 of 10.
    check(sliding(4, 10), Mode::Sliding, 10, 1, 500, Ok(0));
    check(sliding(5, 10), Mode::Sliding, 10, 1, 500, Err(1));
    check(sliding(5, 10), Mode::Sliding, 10, 1, 501, Ok(0));
    check(sliding(9, 10), Mode::Sliding, 10, 1, 500, Err(401));
    // Full without the previous one: in the next window the ten have to fade to nine.
    check(sliding(10, 0), Mode::Sliding, 10, 1, 500, Err(501));
    check(sliding(10, 0), Mode::Sliding, 10, 1, 1001, Ok(0));
    check(sliding(10, 7), Mode::Sliding, 10, 1, 1500, Ok(4));
    // Ten a second: one each 100 ms.
    check(tokens(2), Mode::Tokens, 10, 1, 0, Ok(0));
    check(tokens(1), Mode::Tokens, 10, 1, 0, Err(50));
    check(tokens(1), Mode::Tokens, 10, 1, 49, Err(1));
    check(tokens(1), Mode::Tokens, 10, 1, 50, Ok(0));
    check(tokens(0), Mode::Tokens, 10, 10, 1, Err(999));
    check(tokens(18), Mode::Tokens, 10, 10, 1, Err(99));
    check(tokens(18), Mode::Tokens, 4, 4, 0, Ok(0));
}

#[test]
fn another_mode_is_told_apart_and_what_is_over_has_no_mode() {
    for before in MODES {
        for after in MODES {
            let first = Call {
                mode: before,
                max: 2,
                window_ms: 10,
                cost: 1,
            };
            let Verdict::Fits { record, deadline, .. } = ask(None, first, START) else {
                panic!("a first call fits");
            };
            assert_eq!(record.mode(), before);
            let second = Call { mode: after, ..first };
            let same = before == after;
            assert_eq!(
                ask(Some((record, deadline)), second, START + 1) == Verdict::OtherMode,
                !same
            );
            assert!(matches!(
                ask(Some((record, deadline)), second, deadline.get()),
                Verdict::Fits { .. }
            ));
        }
    }
}

/// `PERSIST` and a later `EXPIRE` change nothing; an earlier one shortens the wait.
#[test]
fn other_deadlines() {
    for mode in MODES {
        let ask_one = Call {
            mode,
            max: 1,
            window_ms: 1000,
            cost: 1,
        };
        let Verdict::Fits { record, deadline, .. } = ask(None, ask_one, START) else {
            panic!("a first call fits");
        };
        let refused = ask(Some((record, deadline)), ask_one, START + 10);
        for other in [Deadline::NONE, Deadline::at(deadline.get() + 5000)] {
            assert_eq!(ask(Some((record, other)), ask_one, START + 10), refused);
            assert!(matches!(
                ask(Some((record, other)), ask_one, deadline.get()),
                Verdict::Fits { .. }
            ));
        }
        let earlier = Deadline::at(START + 50);
        assert_eq!(
            ask(Some((record, earlier)), ask_one, START + 10),
            Verdict::Refused { retry_ms: 40 }
        );
    }
}

fn near<T: Copy + std::fmt::Debug + 'static>(values: &'static [T]) -> impl Strategy<Value = T> {
    prop::sample::select(values)
}

prop_compose! {
    /// A record that some call could have written, or that a client wrote; its numbers at either end or anywhere.
    fn any_record()(
        mode in 0..3,
        max in prop_oneof![1..=MAX_MAX, near(&[1, 2, 1000, BUCKET_MAX, MAX_MAX])],
        window_ms in prop_oneof![1..=u32::MAX, near(&[1, 2, 1000, u32::MAX])],
        start_ms in prop_oneof![near(&[0, START, (1 << 48) - 1]), 0..=UnixMs::MAX.get()],
        share in any::<u64>(),
        previous in prop_oneof![0..=MAX_MAX, near(&[0, 1, MAX_MAX])],
    ) -> LimitRecord {
        let within = |most: u64| share % (most + 1);
        let count = 1 + u32::try_from(within(u64::from(max) - 1)).expect("below max");
        let bucket = max.min(BUCKET_MAX);
        let (max, usage) = match mode {
            0 => (max, Usage::Fixed { count, previous: 0 }),
            1 => (max, Usage::Sliding { count, previous }),
            _ => (bucket, Usage::Tokens { level: within(u64::from(bucket - 1) * TOKEN_PARTS) }),
        };
        LimitRecord { max, window_ms, start_ms, usage }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 20_000,
        rng_seed: RngSeed::Fixed(0x11_317),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// With any numbers: no panic, a record that can be stored, and a wait that is enough and not a millisecond too long.
    #[test]
    fn the_wait_is_the_shortest(
        record in any_record(),
        after in prop_oneof![0_u64..1 << 34, near(&[0, 1, 999, 1000, 1001])],
        max in prop_oneof![1..=MAX_MAX, near(&[1, 2, BUCKET_MAX, MAX_MAX])],
        cost in any::<u32>(),
        share in any::<u64>(),
    ) {
        prop_assert_eq!(LimitRecord::decode(&record.encode()), Some(record));
        let mode = record.mode();
        let max = if mode == Mode::Tokens { max.min(BUCKET_MAX) } else { max };
        let cost = if mode == Mode::Tokens { 1 + cost % max } else { 1 };
        let asked = Call { mode, max, window_ms: 7, cost };
        let stored = Some((record, Deadline::at(record.ends_at())));
        let now = UnixMs::new(record.start_ms.saturating_add(after)).get();
        match ask(stored, asked, now) {
            Verdict::Fits { record, deadline, left } => {
                prop_assert_eq!(LimitRecord::decode(&record.encode()), Some(record));
                prop_assert!(deadline.get() > now && left < max);
            }
            Verdict::Refused { retry_ms } => {
                let fits = |at: u64| matches!(call(live(stored, at), asked, UnixMs::new(at)), Verdict::Fits { .. });
                // The last instant that exists is no time to come back at.
                if now + retry_ms <= UnixMs::MAX.get() {
                    prop_assert!(fits(now + retry_ms), "not enough");
                    prop_assert!(!fits(now + retry_ms - 1), "too long");
                    prop_assert!(!fits(now + share % retry_ms), "it would have fitted in between");
                }
            }
            Verdict::OtherMode => prop_assert!(false, "the mode is the record's"),
        }
    }
}
