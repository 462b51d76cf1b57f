//! `walctl stat DIR`: what a log is made of, in numbers.
//!
//! It counts what is kept and judges nothing; see [`crate::scan`] for what it says about a log that does not read to its
//! end.

mod args;
mod histogram;
mod report;
mod sketch;
mod tally;

use std::sync::Arc;

pub(crate) use self::args::Args;
use crate::exit::{Exit, Failure};
use crate::output::{self, Out};
use crate::progress::Meter;
use crate::scan::scan;
use crate::view::View;
use report::Report;
use tally::Tally;

/// Counts and prints. What was counted before something went wrong is printed all the same.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let meter = Arc::new(Meter::new(true));
    let view = View::open(&args.dir, Arc::clone(&meter))?;
    let mut tally = Tally::new();
    let scanned = scan(&view, &meter, &mut tally, None);
    meter.finish();
    let scanned = scanned?.expect("counting never has enough");
    let report = Report {
        tally: &tally,
        end: scanned.end,
        largest: tally.keys.largest(args.top),
    };
    let mut out = Out::stdout(!args.json);
    output::printed(if args.json {
        report::json(&mut out, &report)
    } else {
        report::human(&mut out, &report)
    })?;
    Ok(scanned.conclude(&view, &args.dir))
}
