//! `walctl snapshot FILE`: what a snapshot file holds, and whether it is a valid one.
//!
//! It is read by the log's own reader, from front to back, with memory for one item. The answer is about the file alone;
//! the directory that it lies in is not looked at.

mod args;
mod report;

use std::io;
use std::path::Path;
use std::sync::Arc;

use idem_protocol::snapshot::SnapshotHeader;
use idem_protocol::wal::{RawRecord, Record, parse_snapshot_name, snapshot_name};
use idem_wal::reader::SnapshotProblem;
use idem_wal::reader::snapshot::read_file;
use idem_wal::storage::{Dir, Storage, StorageFile};

pub(crate) use self::args::Args;
use crate::exit::{Exit, Failure};
use crate::line::{Line, human};
use crate::lone_file::{self, Kind, LoneFile};
use crate::output::{self, Out, Printed};
use crate::progress::Meter;
use crate::view::View;
use report::Report;

/// Reads and prints. A closed pipe changes nothing about the exit code: whether the file is valid was asked for.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let meter = Arc::new(Meter::new(!args.items || output::leaves_room_for_a_bar()));
    let out = Out::stdout(!args.json).beside(Arc::clone(&meter));
    if args.file.is_dir() {
        return Err(directory(&args.file, &meter)?);
    }
    let LoneFile { name, file, kind, .. } = lone_file::open(&args.file, &meter)?;
    // What begins like nothing that is known may have been one.
    if let Some(words) = kind.words().filter(|_| kind != Kind::Snapshot) {
        return Err(Failure::usage(format!(
            "{} is not a snapshot: it is {words}",
            args.file.display()
        )));
    }
    let bytes = file.len().map_err(Failure::io(args.file.display()))?;
    meter.expect(bytes);

    let mut reading = Reading {
        args,
        out,
        report: Report::new(args.file.display().to_string(), bytes),
        closed: false,
        failure: None,
    };
    let mut header = None;
    let read = {
        let mut check = |found: &SnapshotHeader| {
            header = Some(*found);
            check_name(&name, found)
        };
        read_file(file, &name, &mut check, &mut |raw, item| reading.item(raw, item))
    };
    meter.finish();
    let Reading {
        mut out,
        mut report,
        closed,
        failure,
        ..
    } = reading;
    if let Some(failure) = failure {
        return Err(failure);
    }
    report.header = header;
    let exit = match read {
        Ok(snapshot) => {
            report.trailer = Some(snapshot.trailer);
            Exit::Clean
        }
        Err(problem) => {
            let exit = match problem {
                SnapshotProblem::Damaged { .. } => Exit::Rot,
                SnapshotProblem::Unreadable { .. } => Exit::ReadError,
                SnapshotProblem::NewerFormat(_) | SnapshotProblem::OtherCluster(_) => Exit::Foreign,
            };
            report.problem = Some(problem);
            exit
        }
    };
    if !closed {
        output::printed(if args.json {
            report::json(&mut out, &report)
        } else {
            report::human(&mut out, &report, args.items)
        })?;
    }
    Ok(exit)
}

/// Why a directory is none, and where one is.
fn directory(path: &Path, meter: &Arc<Meter>) -> Result<Failure, Failure> {
    let view = View::open(path, Arc::clone(meter))?;
    for dir in [Dir::Root, Dir::Snap] {
        // One that cannot be listed has nothing to offer.
        let names = view.list(dir).unwrap_or_default();
        let newest = names.iter().filter_map(|name| parse_snapshot_name(name)).max();
        if let Some(start) = newest {
            let file = path.join(dir.path()).join(snapshot_name(start));
            let words = format!(
                "{}: a directory, not a snapshot; the newest in it is {}",
                path.display(),
                file.display()
            );
            return Ok(Failure::usage(words));
        }
    }
    Ok(Failure::usage(format!(
        "{}: a directory, not a snapshot, and there is none in it or in its snap",
        path.display()
    )))
}

/// A name that a server would go by has to agree with the header; any other says nothing.
fn check_name(name: &str, header: &SnapshotHeader) -> Result<(), SnapshotProblem> {
    match parse_snapshot_name(name) {
        Some(start) if start != header.start_lsn => Err(SnapshotProblem::Damaged {
            what: format!("the name says start lsn {start}, the header {}", header.start_lsn),
            offset: 0,
            crcs: None,
        }),
        _ => Ok(()),
    }
}

/// Counts the items, and prints them when that is wanted.
struct Reading<'a> {
    args: &'a Args,
    out: Out,
    report: Report,
    closed: bool,
    failure: Option<Failure>,
}

impl Reading<'_> {
    fn item(&mut self, raw: &RawRecord<'_>, item: &Record<'_>) {
        let kind = self.report.kinds.entry(item.opcode()).or_default();
        kind.add(raw);
        if !self.args.items || self.closed || self.failure.is_some() {
            return;
        }
        let line = Line::new(raw, raw.db, item, self.args.values);
        let written = if self.args.json {
            serde_json::to_writer(&mut self.out, &line).map_err(io::Error::from)
        } else {
            let paint = self.out.paint();
            human::record(&mut self.out, paint, &line)
        };
        match output::printed(written.and_then(|()| self.out.end_line())) {
            Ok(Printed::All) => {}
            Ok(Printed::Closed) => self.closed = true,
            Err(failure) => self.failure = Some(failure),
        }
    }
}
