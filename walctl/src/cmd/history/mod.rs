//! `walctl history DIR KEY`: one key's life, from the oldest kept log on.
//!
//! It reads the log as `dump` does, without judging, and names what each record of the key did: the words for transitions
//! of IDEM are those that the server decides by. Expiry has no record; it is shown at its deadline when the log's time has
//! passed it. Where the kept log begins in the middle of the key's life, the oldest valid snapshot is asked. Behind damage,
//! when that is passed, nothing is known of the key until a record says it.

mod args;
mod earlier;
mod event;
mod life;
mod printer;

use std::sync::Arc;

pub(crate) use self::args::Args;
use crate::exit::{Exit, Failure};
use crate::output::{self, Out, Printed};
use crate::progress::Meter;
use crate::scan::{Scanned, scan};
use crate::skipped::Skipped;
use crate::text::Escaped;
use crate::view::View;
use life::Life;
use printer::Printer;

/// Prints the events; the exit code says whether the log was read to its end.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let meter = Arc::new(Meter::new(output::leaves_room_for_a_bar()));
    let view = View::open(&args.dir, Arc::clone(&meter))?;
    let out = Out::stdout(!args.json).beside(Arc::clone(&meter));
    let mut life = Life::new(args, &view, &meter, Printer::new(out, args.json));
    let mut skipped = args.past_damage.then(|| Skipped::new(None, None, &meter));
    let scanned = scan(&view, &meter, &mut life, skipped.as_mut());
    // What was printed before an error is as good as ever.
    let printed = life.finish(scanned.as_ref().ok().and_then(Option::as_ref));
    meter.finish();
    let Some(scanned) = scanned? else {
        return Ok(Exit::Clean);
    };
    if printed? == Printed::Closed {
        return Ok(Exit::Clean);
    }
    if life.printer.lines() == 0 {
        explain_nothing(args, &scanned);
    }
    Ok(scanned.conclude(&view, &args.dir))
}

/// A key is easily mistyped: says what was looked for, and how far. Of a log that was not read to its end, nothing found is
/// not nothing there.
fn explain_nothing(args: &Args, scanned: &Scanned) {
    let key = Escaped(&args.key.0);
    let place = match args.db {
        Some(db) => format!("database {db}"),
        None => "any database".to_owned(),
    };
    let end = scanned.end;
    let read = match (scanned.is_cut_short(), scanned.has_skipped()) {
        (true, _) => format!(" up to lsn {end}; reading stopped there, before the end of the log"),
        (false, true) => format!(" in what could be read up to lsn {end}"),
        (false, false) => String::new(),
    };
    eprintln!("walctl: nothing is known of the key {key} in {place}{read}");
}
