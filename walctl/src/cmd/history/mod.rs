//! `walctl history DIR KEY`: one key's life, from the oldest kept log on.
//!
//! It reads the log as `dump` does, without judging, and names what each record of the key did: the words for transitions
//! of IDEM are those that the server decides by. Expiry has no record; it is shown at its deadline when the log's time has
//! passed it. Where the kept log begins in the middle of the key's life, the oldest valid snapshot is asked.

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
use crate::scan::scan;
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
    let scanned = scan(&view, &meter, &mut life);
    // What was printed before an error is as good as ever.
    let printed = life.finish(
        scanned
            .as_ref()
            .ok()
            .and_then(Option::as_ref)
            .map(|scanned| scanned.end),
    );
    meter.finish();
    let Some(scanned) = scanned? else {
        return Ok(Exit::Clean);
    };
    if printed? == Printed::Closed {
        return Ok(Exit::Clean);
    }
    if life.printer.lines() == 0 {
        explain_nothing(args);
    }
    Ok(scanned.conclude(&args.dir))
}

/// A key is easily mistyped: says what was looked for.
fn explain_nothing(args: &Args) {
    let key = Escaped(&args.key.0);
    match args.db {
        Some(db) => eprintln!("walctl: nothing is known of the key {key} in database {db}"),
        None => eprintln!("walctl: nothing is known of the key {key} in any database"),
    }
}
