//! `walctl diff A B`: whether two directories hold the same records.
//!
//! Records are the same bytes on every node; groups, segments and snapshots are not. So the streams of record bytes are
//! compared over the range of positions that both hold, without judging. Where one of the two cannot be read on, its verdict
//! decides what that is: what a start would cut off is no part of a log, and what a start would refuse is no equality, also
//! when nothing differs in all that follows.

mod args;
mod compare;
mod report;
mod side;
mod verdict;

use std::sync::Arc;

pub(crate) use self::args::Args;
use self::compare::{Compared, compare};
use self::report::Answer;
use crate::exit::{Exit, Failure};
use crate::output::{self, Out};
use crate::progress::Meter;
use crate::view::View;

/// Compares and prints.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let meter = Arc::new(Meter::new(output::leaves_room_for_a_bar()));
    let a = View::open(&args.a, Arc::clone(&meter))?;
    let b = View::open(&args.b, Arc::clone(&meter))?;
    let compared = compare([&a, &b], [&args.a, &args.b])?;
    let answer = answer(args, compared);
    meter.finish();
    let mut out = Out::stdout(!args.json);
    output::printed(if args.json {
        report::json(&mut out, &answer)
    } else {
        report::human(&mut out, &answer, args)
    })?;
    Ok(answer.exit())
}

fn answer(args: &Args, compared: Compared) -> Answer {
    let Compared {
        from,
        to,
        same,
        difference,
        sides,
    } = compared;
    if let Some(difference) = difference {
        return Answer::Differs(difference);
    }
    let sides = sides.expect("where nothing differs, both sides were read");
    let damages = sides.iter().zip(["A", "B"]).filter_map(|(side, name)| {
        let damage = side.damage()?;
        Some((damage.lsn, name, damage.exit))
    });
    if let Some((lsn, side, exit)) = damages.min_by_key(|(lsn, ..)| *lsn) {
        return Answer::Damaged {
            lsn,
            side,
            exit,
            same,
        };
    }
    // A side that goes on was not read to its end.
    let ends = sides.each_ref().map(|side| side.is_over() && side.lsn() == to);
    if args.exact && ends.contains(&false) {
        return Answer::OtherEnd {
            lsn: to,
            shorter: if ends[0] { "A" } else { "B" },
        };
    }
    Answer::Equal {
        from,
        to,
        goes_on: ends.iter().position(|ends| !ends).map(|side| ["A", "B"][side]),
    }
}
