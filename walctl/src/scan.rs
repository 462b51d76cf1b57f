//! Every record of the kept log, in order, for commands that look at all of it.
//!
//! Like `dump` it reads without judging, from the oldest segment that is there to the first place that is no frame. What
//! the reading could not show (segments that went meanwhile, a record of a newer version, something at the end that is no
//! end) comes back as words for stderr, and decides the exit code.

use std::io;
use std::path::Path;

use idem_protocol::Lsn;
use idem_protocol::wal::{BodyError, Record};
use idem_wal::reader::{
    Frame, Gap, LogReader, LogRecord, LogStep, Past, Piece, Stop, frame_records, salvage,
};
use idem_wal::storage::Dir;

use crate::exit::{Exit, Failure};
use crate::log_end::{self, Complaint, LogEnd};
use crate::output::Printed;
use crate::progress::Meter;
use crate::skipped::Skipped;
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

    /// What lies before `to` was not read: it went away before, or is damaged.
    fn gap(&mut self, to: Lsn) {
        let _ = to;
    }
}

/// How far the log was read.
#[derive(Debug)]
pub(crate) struct Scanned {
    /// The end of what was read.
    pub(crate) end: Lsn,
    /// Why it is no end of a log.
    complaint: Option<Complaint>,
    /// How to end for what was passed on the way; nothing when nothing was.
    skipped: Option<Exit>,
    /// The segment with the first of it.
    first_skipped: Option<String>,
}

impl Scanned {
    /// Whether reading ended before the log does.
    pub(crate) fn is_cut_short(&self) -> bool {
        self.complaint.is_some()
    }

    /// Whether something on the way could not be read.
    pub(crate) fn has_skipped(&self) -> bool {
        self.skipped.is_some()
    }

    /// Says on stderr what was not read, and how `walctl` ends for it. To be called after the data was printed.
    pub(crate) fn conclude(self, view: &View, dir: &Path) -> Exit {
        if self.complaint.is_none() && self.skipped.is_none() {
            return Exit::Clean;
        }
        let mut file = self.first_skipped;
        if let Some(complaint) = self.complaint {
            eprintln!("walctl: {}", complaint.words);
            file = file.or(complaint.file);
        }
        eprintln!("walctl: {}", log_end::advice(view, dir, file.as_deref()));
        self.skipped.unwrap_or(Exit::Failed)
    }
}

/// Reads it all. With `past`, also what follows damage; each range that is passed over goes there. `None` when the visitor
/// had enough.
pub(crate) fn scan(
    view: &View,
    meter: &Meter,
    visitor: &mut dyn Visitor,
    past: Option<&mut Skipped<'_>>,
) -> Result<Option<Scanned>, Failure> {
    let was_live = view.is_live()?;
    let is_live = || Ok(was_live || view.is_live()?);
    let failed = || Failure::io("reading the log");
    let mut reader = LogReader::open(view, Lsn::ZERO).map_err(failed())?;
    let mut removed = None;
    let mut scan = Scan {
        visitor,
        past,
        begun: false,
    };
    loop {
        let step = match reader.next_step() {
            Ok(step) => step,
            Err(error) => {
                let lsn = reader.lsn();
                match scan.unreadable(&mut reader, &error)? {
                    Some(Taken::All) => continue,
                    Some(_) => return Ok(Some(scan.scanned(lsn, None))),
                    None => {
                        scan.begin(lsn)?;
                        return Ok(Some(scan.scanned(lsn, Some(log_end::unreadable(lsn, &error)))));
                    }
                }
            }
        };
        let taken = match step {
            LogStep::Frame { file, frame } => scan.frame(file, frame)?,
            LogStep::Removed { from, to } => {
                let words = format!("lsn {from} to {to}: these segments were removed while the log was read");
                meter.aside(|| eprintln!("walctl: note: {words}"));
                removed.get_or_insert(words);
                scan.visitor.gap(to);
                Taken::All
            }
            LogStep::End {
                file,
                offset,
                lsn,
                stop,
                segments_left,
            } => {
                let end = LogEnd {
                    file,
                    offset,
                    lsn,
                    stop,
                    segments_left,
                };
                match scan.pass(&mut reader, &is_live)? {
                    Some(taken) => taken,
                    None => {
                        if !end.file.is_empty() {
                            scan.begin(lsn)?;
                        }
                        let mut complaint = scan.complaint(view, &end, &is_live)?;
                        if complaint.is_none() && removed.is_some() && !is_live()? {
                            complaint = removed.map(|words| Complaint {
                                words: format!("{words}, and not by a server"),
                                file: None,
                            });
                        }
                        return Ok(Some(scan.scanned(lsn, complaint)));
                    }
                }
            }
        };
        match taken {
            Taken::All => {}
            Taken::Enough => return Ok(None),
            Taken::Unreadable(lsn, complaint) => return Ok(Some(scan.scanned(lsn, Some(complaint)))),
        }
    }
}

/// Who takes what is read, and what is not.
struct Scan<'s, 'm> {
    visitor: &'s mut dyn Visitor,
    past: Option<&'s mut Skipped<'m>>,
    begun: bool,
}

/// What became of a part of the log.
enum Taken {
    All,
    /// The visitor had enough.
    Enough,
    /// There is a good record that cannot be understood, at this lsn.
    Unreadable(Lsn, Complaint),
}

impl Scan<'_, '_> {
    fn begin(&mut self, first: Lsn) -> Result<(), Failure> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        self.visitor.begin(first)
    }

    fn frame(&mut self, file: &str, frame: Frame<'_>) -> Result<Taken, Failure> {
        self.begin(frame.header.lsn)?;
        self.visitor.frame(file, &frame);
        for record in frame_records(file, frame) {
            match self.record(&record)? {
                Taken::All => {}
                other => return Ok(other),
            }
        }
        Ok(Taken::All)
    }

    fn record(&mut self, record: &LogRecord<'_>) -> Result<Taken, Failure> {
        let error = match record.raw.decode() {
            Ok(decoded) => {
                return Ok(match self.visitor.record(record, &decoded)? {
                    Printed::All => Taken::All,
                    Printed::Closed => Taken::Enough,
                });
            }
            Err(error) => error,
        };
        // What a newer version wrote is no damage, and never passed over.
        let is_newer = matches!(error, BodyError::UnknownOpcode(_));
        if let Some(skipped) = self.past.as_deref_mut().filter(|_| !is_newer) {
            skipped.body(record, error);
            self.visitor.gap(record.raw.end());
            return Ok(Taken::All);
        }
        let (name, offset, lsn) = (Dir::Wal.join(record.file), record.offset, record.raw.lsn);
        let complaint = Complaint {
            words: format!("{name} offset {offset}, lsn {lsn}: {error}"),
            file: Some(record.file.to_owned()),
        };
        Ok(Taken::Unreadable(lsn, complaint))
    }

    /// Goes on behind the place where reading ended, when that is wanted. Nothing when this is the end.
    fn pass(
        &mut self,
        reader: &mut LogReader<View>,
        is_live: &dyn Fn() -> Result<bool, Failure>,
    ) -> Result<Option<Taken>, Failure> {
        if self.past.is_none() {
            return Ok(None);
        }
        let error = match reader.pass(is_live()?) {
            Ok(Past::Over) => return Ok(None),
            Ok(Past::Again) => return Ok(Some(Taken::All)),
            Ok(Past::Gap(gap)) => {
                self.gap(&gap)?;
                return Ok(Some(Taken::All));
            }
            Ok(Past::Broken { file, frame, stop }) => return self.broken(file, frame, stop).map(Some),
            Err(error) => error,
        };
        match self.unreadable(reader, &error)? {
            Some(Taken::All) => Ok(Some(Taken::All)),
            Some(_) => Ok(None),
            None => Err(Failure::io("reading the log")(error)),
        }
    }

    fn gap(&mut self, gap: &Gap) -> Result<(), Failure> {
        self.begin(gap.from)?;
        if let Some(skipped) = &mut self.past {
            skipped.gap(gap);
        }
        self.visitor.gap(gap.to);
        Ok(())
    }

    /// Goes on behind what cannot be read, when damage is passed: all of it when something follows, enough when this was the
    /// end. Nothing when it is not to be passed.
    fn unreadable(
        &mut self,
        reader: &mut LogReader<View>,
        error: &io::Error,
    ) -> Result<Option<Taken>, Failure> {
        if self.past.is_none() {
            return Ok(None);
        }
        let passed = reader.pass_unreadable(error);
        let Some(passed) = passed.map_err(Failure::io("reading the log"))? else {
            return Ok(None);
        };
        self.gap(&passed.gap)?;
        Ok(Some(if passed.follows { Taken::All } else { Taken::Enough }))
    }

    /// A frame that is not whole: its good records are taken, the rest is named.
    fn broken(&mut self, file: &str, frame: Frame<'_>, stop: Stop) -> Result<Taken, Failure> {
        self.begin(frame.header.lsn)?;
        self.visitor.frame(file, &frame);
        let mut all_good = true;
        let mut end = frame.header.lsn;
        for piece in salvage(&frame.header, frame.payload) {
            match piece {
                Piece::Record(at, raw) => {
                    end = raw.end();
                    let offset = frame.records_at() + at as u64;
                    match self.record(&LogRecord { file, offset, raw })? {
                        Taken::All => {}
                        other => return Ok(other),
                    }
                }
                Piece::Bad(bad) => {
                    all_good = false;
                    if let Some(skipped) = &mut self.past {
                        skipped.bad(file, frame.records_at(), &bad);
                    }
                    self.visitor.gap(bad.to);
                }
            }
        }
        if let Some(skipped) = self.past.as_deref_mut().filter(|_| all_good) {
            skipped.header(file, &frame, stop);
            self.visitor.gap(end);
        }
        Ok(Taken::All)
    }

    /// What is wrong with the place where reading ended; where damage is passed over, a range like the others.
    fn complaint(
        &mut self,
        view: &View,
        end: &LogEnd,
        is_live: &dyn Fn() -> Result<bool, Failure>,
    ) -> Result<Option<Complaint>, Failure> {
        let Some(words) = log_end::what_is_wrong(view, end, is_live)? else {
            return Ok(None);
        };
        let is_damage = !end.file.is_empty() && end.stop.is_some();
        if let Some(skipped) = self.past.as_deref_mut().filter(|_| is_damage) {
            skipped.rest(&end.file, &words);
            return Ok(None);
        }
        let file = Some(end.file.clone());
        Ok(Some(Complaint { words, file }))
    }

    fn scanned(&self, end: Lsn, complaint: Option<Complaint>) -> Scanned {
        let skipped = self.past.as_deref();
        Scanned {
            end,
            complaint,
            skipped: skipped.and_then(Skipped::exit),
            first_skipped: skipped.and_then(Skipped::first_file).map(str::to_owned),
        }
    }
}
