//! An event as a line.

use std::io::{self, Write};

use idem_engine::keyspace::{EntryRef, ValueRef};
use idem_protocol::{Lsn, UnixMs};
use serde::Serialize;

use super::event::{Event, idem_of};
use crate::exit::Failure;
use crate::line::{Line, human};
use crate::output::{self, Out, Printed};
use crate::text::{Escaped, Time};

/// Something that happened to the key.
#[derive(Serialize)]
pub(super) struct Happening<'a> {
    pub(super) event: Event,
    /// There is no record of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) synthesised: bool,
    #[serde(flatten)]
    pub(super) line: Line<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<String>,
}

/// Writes lines of either kind.
pub(super) struct Printer {
    out: Out,
    json: bool,
    lines: u64,
}

impl Printer {
    pub(super) fn new(out: Out, json: bool) -> Printer {
        Printer { out, json, lines: 0 }
    }

    /// How many events there were.
    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    pub(super) fn print(&mut self, happening: &Happening<'_>) -> Result<Printed, Failure> {
        self.lines += 1;
        let written = if self.json {
            serde_json::to_writer(&mut self.out, happening).map_err(io::Error::from)
        } else {
            let paint = self.out.paint();
            let note = match (&happening.note, happening.synthesised) {
                (None, true) => Some("there is no record of it"),
                (note, _) => note.as_deref(),
            };
            human::event(&mut self.out, paint, happening.event, &happening.line, note)
        };
        output::printed(written.and_then(|()| self.out.end_line()))
    }

    /// Writes what is still held.
    pub(super) fn finish(&mut self) -> Result<Printed, Failure> {
        output::printed(self.out.flush())
    }

    /// For people: what the key holds at the place where reading ended.
    pub(super) fn end<'e>(
        &mut self,
        place: &str,
        lsn: Lsn,
        time: UnixMs,
        holds: impl Iterator<Item = (u8, Option<EntryRef<'e>>)>,
    ) -> Result<Printed, Failure> {
        let (out, json) = (&mut self.out, self.json);
        let write = move || -> io::Result<()> {
            let holds: Vec<_> = holds.collect();
            if !json && !holds.is_empty() {
                writeln!(out, "\n{place}, lsn {lsn}, {}", Time::from(time))?;
                for (db, entry) in holds {
                    write!(out, "  database {db}: ")?;
                    hold(out, entry)?;
                }
            }
            out.flush()
        };
        output::printed(write())
    }
}

fn hold(out: &mut impl Write, entry: Option<EntryRef<'_>>) -> io::Result<()> {
    let Some(entry) = entry else {
        return writeln!(out, "not there, as far as the log says");
    };
    match (idem_of(&entry), entry.value()) {
        (Some(record), _) => {
            let (state, owner) = (record.state.word(), Escaped(record.owner));
            write!(
                out,
                "{state}, owner {owner}, fingerprint {}",
                Escaped(record.fingerprint)
            )?;
        }
        (None, ValueRef::String(value)) => write!(out, "a string of {} bytes", value.len())?,
        (None, ValueRef::Hash(hash)) => write!(out, "a hash of {} fields", hash.len())?,
    }
    let deadline = entry.deadline();
    if deadline.is_some() {
        writeln!(out, ", until {}", Time::from(deadline))
    } else {
        writeln!(out, ", no end")
    }
}
