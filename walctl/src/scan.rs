//! Every record of the kept log, in order, for commands that look at all of it.
//!
//! Like `dump` it reads without judging, from the oldest segment that is there to the first place that is no frame. What
//! the reading could not show (segments that went meanwhile, a record of a newer version, something at the end that is no
//! end) comes back as words for stderr, and decides the exit code.

use std::path::Path;

use idem_protocol::Lsn;
use idem_protocol::wal::Record;
use idem_wal::reader::{Frame, LogReader, LogRecord, LogStep, frame_records};
use idem_wal::storage::Dir;

use crate::exit::{Exit, Failure};
use crate::log_end::{self, LogEnd};
use crate::output::Printed;
use crate::progress::Meter;
use crate::view::View;

/// Takes the log as it is read.
pub(crate) trait Visitor {
    /// The kept log begins here. Called once, before anything else.
    fn begin(&mut self, first: Lsn) -> Result<(), Failure> {
        let _ = first;
        Ok(())
    }

    /// A group commit or a seal, before its records.
    fn frame(&mut self, file: &str, frame: &Frame<'_>) {
        let _ = (file, frame);
    }

    /// A record. With [`Printed::Closed`] as the answer nothing more is read.
    fn record(&mut self, record: &LogRecord<'_>, decoded: &Record<'_>) -> Result<Printed, Failure>;

    /// What lies before `to` went away before it was read.
    fn gap(&mut self, to: Lsn) {
        let _ = to;
    }
}

/// How far the log was read.
#[derive(Debug)]
pub(crate) struct Scanned {
    /// The end of what was read.
    pub(crate) end: Lsn,
    /// What is wrong with it.
    complaint: Option<String>,
}

impl Scanned {
    /// Says on stderr what was not read, and how `walctl` ends for it. To be called after the data was printed.
    pub(crate) fn conclude(self, dir: &Path) -> Exit {
        let Some(complaint) = self.complaint else {
            return Exit::Clean;
        };
        eprintln!(
            "walctl: {complaint}\nwalctl: for the verdict: walctl verify {}",
            dir.display()
        );
        Exit::Failed
    }
}

/// Reads it all. `None` when the visitor had enough.
pub(crate) fn scan(
    view: &View,
    meter: &Meter,
    visitor: &mut dyn Visitor,
) -> Result<Option<Scanned>, Failure> {
    let was_live = view.is_live()?;
    let is_live = || Ok(was_live || view.is_live()?);
    let failed = || Failure::io("reading the log");
    let mut reader = LogReader::open(view, Lsn::ZERO).map_err(failed())?;
    let mut begun = false;
    let mut removed = None;
    loop {
        match reader.next_step().map_err(failed())? {
            LogStep::Frame { file, frame } => {
                if !std::mem::replace(&mut begun, true) {
                    visitor.begin(frame.header.lsn)?;
                }
                visitor.frame(file, &frame);
                for record in frame_records(file, frame) {
                    let decoded = match record.raw.decode() {
                        Ok(decoded) => decoded,
                        Err(error) => {
                            let name = Dir::Wal.join(file);
                            let (offset, lsn) = (record.offset, record.raw.lsn);
                            return Ok(Some(Scanned {
                                end: lsn,
                                complaint: Some(format!("{name} offset {offset}, lsn {lsn}: {error}")),
                            }));
                        }
                    };
                    if visitor.record(&record, &decoded)? == Printed::Closed {
                        return Ok(None);
                    }
                }
            }
            LogStep::Removed { from, to } => {
                let words = format!("lsn {from} to {to}: these segments were removed while the log was read");
                meter.aside(|| eprintln!("walctl: note: {words}"));
                removed.get_or_insert(words);
                visitor.gap(to);
            }
            LogStep::End {
                file,
                offset,
                lsn,
                stop,
                segments_left,
            } => {
                if !begun && !file.is_empty() {
                    visitor.begin(lsn)?;
                }
                let end = LogEnd {
                    file,
                    offset,
                    lsn,
                    stop,
                    segments_left,
                };
                let mut complaint = log_end::what_is_wrong(view, &end, &is_live)?;
                if complaint.is_none() && removed.is_some() && !is_live()? {
                    complaint = removed.map(|words| format!("{words}, and not by a server"));
                }
                return Ok(Some(Scanned { end: lsn, complaint }));
            }
        }
    }
}
