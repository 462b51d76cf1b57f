//! `walctl diff A B`: whether two directories hold the same records.
//!
//! Records are the same bytes on every node; groups, segments and snapshots are not. So the streams of record bytes are
//! compared over the range of positions that both hold, without judging. Where one of the two ends in something that is no
//! end, and nothing differed before, its verdict decides: what a start would cut off is no part of a log, and what a start
//! would refuse is no equality.

mod args;
mod compare;
mod report;
mod side;

use std::path::Path;
use std::sync::Arc;

use idem_protocol::Lsn;
use idem_wal::recovery::{Ignore, JudgeOptions, judge};

pub(crate) use self::args::Args;
use self::compare::{Compared, compare};
use self::report::Answer;
use self::side::Side;
use crate::exit::{Exit, Failure};
use crate::log_end;
use crate::output::{self, Out};
use crate::progress::Meter;
use crate::view::View;

/// Compares and prints.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let meter = Arc::new(Meter::new(output::leaves_room_for_a_bar()));
    let a = View::open(&args.a, Arc::clone(&meter))?;
    let b = View::open(&args.b, Arc::clone(&meter))?;
    let compared = compare([&a, &b])?;
    let answer = answer(args, [&a, &b], compared)?;
    meter.finish();
    let mut out = Out::stdout(!args.json);
    output::printed(if args.json {
        report::json(&mut out, &answer)
    } else {
        report::human(&mut out, &answer, args)
    })?;
    Ok(answer.exit())
}

fn answer(args: &Args, views: [&View; 2], compared: Compared) -> Result<Answer, Failure> {
    let Compared {
        from,
        difference,
        sides,
    } = compared;
    if let Some(difference) = difference {
        return Ok(Answer::Differs(difference));
    }
    let sides = sides.expect("where nothing differs, both sides were read");
    let to = sides[0].lsn().min(sides[1].lsn());
    let mut ends = [None, None];
    for (index, (side, path)) in sides.iter().zip([&args.a, &args.b]).enumerate() {
        // A side that goes on was not read to its end; what comes there is nobody's question here.
        if side.end().is_some() && side.lsn() == to {
            if let Some(exit) = damage(views[index], side, path)? {
                return Ok(Answer::Damaged {
                    lsn: to,
                    side: ["A", "B"][index],
                    exit,
                });
            }
            ends[index] = Some(to);
        }
    }
    if args.exact && ends.contains(&None) {
        return Ok(Answer::OtherEnd {
            lsn: to,
            shorter: if ends[0].is_some() { "A" } else { "B" },
        });
    }
    Ok(Answer::Equal {
        from,
        to,
        goes_on: ends.iter().position(Option::is_none).map(|side| ["A", "B"][side]),
    })
}

/// Says on stderr what stands where the log of `side` ends, when it is no plain end; answers the exit code of a verdict
/// that refuses it.
fn damage(view: &View, side: &Side, path: &Path) -> Result<Option<Exit>, Failure> {
    let end = side.end().expect("the side was read to its end");
    let Some(complaint) = log_end::what_is_wrong(view, end, &|| view.is_live())? else {
        return Ok(None);
    };
    let options = JudgeOptions {
        live: view.is_live()?,
        ..JudgeOptions::default()
    };
    let judgement = judge(view, &options, &mut Ignore);
    let (letter, word) = (judgement.letter(), judgement.verdict.word());
    let path = path.display();
    if judgement.verdict.starts() && is_end(&judgement, end.lsn) {
        eprintln!(
            "walctl: note: {path}: {complaint}; a start would cut it off ({letter} {word}), it is not compared"
        );
        return Ok(None);
    }
    if judgement.verdict.starts() {
        eprintln!(
            "walctl: {path}: {complaint}\nwalctl: {path}: it is below the snapshot that a start would read ({letter} {word}); \
             for all that is wrong there: walctl verify --deep {path}"
        );
        return Ok(Some(Exit::Rot));
    }
    eprintln!("walctl: {path}: {complaint}\nwalctl: the verdict is {letter} {word}: walctl verify {path}");
    Ok(Some(judgement.verdict.into()))
}

/// Whether the verdict was about this place. The one of a live directory vouches for less than was read.
fn is_end(judgement: &idem_wal::recovery::Judgement, lsn: Lsn) -> bool {
    judgement.end_lsn == lsn || judgement.live && judgement.end_lsn <= lsn
}
