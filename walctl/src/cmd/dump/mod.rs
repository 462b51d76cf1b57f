//! `walctl dump DIR`: the records of a log, one a line.
//!
//! It reads from the segment that holds the first wanted position to the first place that is no frame, without judging:
//! when that place is not plainly the end of the log, it says where and what, and leaves the verdict to `walctl verify`.
//! Records of a live directory beyond its synced mark are shown too; a power loss could still take them back. What its server
//! removes before it was read is a note on stderr; without a server, it is missing.

mod args;
mod filter;
mod walk;

use std::sync::Arc;

use idem_protocol::Lsn;
use idem_wal::reader::LogReader;

pub(crate) use self::args::Args;
use crate::exit::{Exit, Failure};
use crate::log_end;
use crate::output::{self, Out, Printed};
use crate::progress::Meter;
use crate::text::Time;
use crate::view::View;
use filter::Filter;
use walk::{Ended, Printer};

/// Prints what matches; the exit code says whether the log was read to its end.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let meter = Arc::new(Meter::new(output::leaves_room_for_a_bar()));
    let view = View::open(&args.dir, Arc::clone(&meter))?;
    let was_live = view.is_live()?;
    let filter = Filter::new(args);
    let mut reader = LogReader::open(&view, args.from_lsn.unwrap_or(Lsn::ZERO))
        .map_err(Failure::io(args.dir.display()))?;
    let out = Out::stdout(!args.json).beside(Arc::clone(&meter));
    let mut printer = Printer::new(out, args);
    let mut removed = None;
    let ended = walk::walk(&mut reader, &filter, &mut printer, &mut |from, to| {
        let words = format!("lsn {from} to {to}: these segments were removed while the log was read");
        meter.aside(|| eprintln!("walctl: note: {words}"));
        removed.get_or_insert(words);
    });
    meter.finish();
    // What was printed before an error is as good as ever.
    let printed = printer.finish();
    let ended = ended?;
    if ended == Ended::Closed || printed? == Printed::Closed {
        return Ok(Exit::Clean);
    }
    if printer.lines() == 0 && filter.is_narrow() {
        explain_nothing(args);
    }
    let is_live = || Ok(was_live || view.is_live()?);
    let mut complaint = match ended {
        Ended::Closed | Ended::Limit => None,
        Ended::Unreadable(what) => Some(what),
        Ended::End(end) => log_end::what_is_wrong(&view, &end, &is_live)?,
    };
    if complaint.is_none() && removed.is_some() && !is_live()? {
        complaint = removed.map(|words| format!("{words}, and not by a server"));
    }
    let Some(complaint) = complaint else {
        return Ok(Exit::Clean);
    };
    eprintln!(
        "walctl: {complaint}\nwalctl: for the verdict: walctl verify {}",
        args.dir.display()
    );
    Ok(Exit::Failed)
}

/// Times are easily given in another unit or zone than was meant: says what was understood.
fn explain_nothing(args: &Args) {
    let mut words = String::from("no record matches");
    if let Some(from) = args.from_time {
        words += &format!(", from {}", Time::from(from));
    }
    if let Some(to) = args.to_time {
        words += &format!(", to {}", Time::from(to));
    }
    eprintln!("walctl: {words}");
}
