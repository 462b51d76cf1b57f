//! `walctl dump DIR`: the records of a log, one a line.
//!
//! It reads from the segment that holds the first wanted position to the first place that is no frame, without judging:
//! when that place is not plainly the end of the log, it says where and what, and leaves the verdict to `walctl verify`.
//! Records of a live directory beyond its synced mark are shown too; a power loss could still take them back. What its server
//! removes before it was read is a note on stderr; without a server, it is missing.
//!
//! `--follow` waits where the log ends ([`follow`]), `--past-damage` goes on where it is damaged ([`crate::skipped`]). Of a
//! file that a start cut off the end of a log it shows what is whole ([`cut`]).

mod args;
mod cut;
mod filter;
mod follow;
mod lines;
mod printer;
mod stop;
mod walk;

use std::sync::Arc;

use idem_protocol::Lsn;
use idem_protocol::wal::parse_segment_name;
use idem_wal::reader::LogReader;
use idem_wal::storage::{Dir, Storage};

pub(crate) use self::args::Args;
use crate::exit::{Exit, Failure};
use crate::log_end::{self, Complaint};
use crate::output::{self, Out, Printed};
use crate::progress::Meter;
use crate::text::Time;
use crate::view::View;
use crate::vouched;
use filter::Filter;
use printer::Printer;
use walk::{Ended, Walk};

/// Prints what matches; the exit code says whether the log was read to its end.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    if args.dir.is_file() {
        return cut::run(args);
    }
    let meter = Arc::new(Meter::new(!args.follow && output::leaves_room_for_a_bar()));
    let view = View::open(&args.dir, Arc::clone(&meter))?;
    let filter = Filter::new(args);
    let out = Out::stdout(!args.json).beside(Arc::clone(&meter));
    let mut printer = Printer::new(out, args);
    note_beginning(&view, args)?;
    let mut walk = Walk::new(args, &view, &filter, &mut printer, &meter)?;
    let reader = LogReader::open(&view, args.from_lsn.unwrap_or(Lsn::ZERO))
        .map_err(Failure::io(args.dir.display()))?;
    let ended = walk.run(reader);
    // Who follows a log may have come to another directory.
    let view = walk.view.clone();
    meter.finish();
    // What was printed before an error is as good as ever.
    let printed = walk.printer.finish();
    let ended = ended?;
    if ended == Ended::Closed || printed? == Printed::Closed {
        return Ok(Exit::Clean);
    }
    if walk.printer.lines() == 0 && filter.is_narrow() && ended != Ended::Stopped {
        explain_nothing(args);
    }
    let mut complaint = match ended {
        Ended::Closed | Ended::Stopped => None,
        Ended::Limit => vouched::complaint(&view, None),
        Ended::Unreadable(complaint) => Some(complaint),
        Ended::End(end) => match log_end::what_is_wrong(&view, &end, &|| walk.is_live())? {
            Some(what) if walk.skip_rest(&end, &what) => None,
            other => other.map(|words| Complaint {
                words,
                file: Some(end.file),
            }),
        },
    };
    // Who follows a log for long has seen servers come and go: which of them removed it cannot be told.
    if complaint.is_none()
        && !args.follow
        && let Some(words) = walk.removed()
        && !walk.is_live()?
    {
        complaint = Some(Complaint {
            words: format!("{words}, and not by a server"),
            file: None,
        });
    }
    if complaint.is_none() && walk.skipped().is_none() {
        return Ok(Exit::Clean);
    }
    if let Some(complaint) = &complaint {
        eprintln!("walctl: {}", complaint.words);
    }
    let of_complaint = complaint.as_ref().and_then(|complaint| complaint.file.as_deref());
    let file = walk.first_skipped().or(of_complaint);
    eprintln!("walctl: {}", log_end::advice(&view, &args.dir, file));
    Ok(walk.skipped().unwrap_or(Exit::Failed))
}

/// What was asked for may lie in log that is no longer kept: nothing printed is then not nothing that happened.
fn note_beginning(view: &View, args: &Args) -> Result<(), Failure> {
    let names = view.list(Dir::Wal).map_err(Failure::io(args.dir.display()))?;
    let first = names.iter().filter_map(|name| parse_segment_name(name)).min();
    if let Some(first) = first.filter(|first| args.from_lsn.unwrap_or(Lsn::ZERO) < *first) {
        eprintln!(
            "walctl: note: the log is kept from lsn {first} on; of what was before, walctl replay shows what is left, in the \
             snapshots"
        );
    }
    Ok(())
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
