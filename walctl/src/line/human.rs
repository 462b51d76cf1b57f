//! A line for people: columns first, then whatever the kind of record has to say.

use std::fmt::Display;
use std::io::{self, Write};

use idem_protocol::{Deadline, UnixMs};

use super::{FrameLine, Line, State, Value};
use crate::output::{Paint, Tone};
use crate::text::{Escaped, Shown, Time};

/// Wide enough for most logs; a wider entry moves the rest of its own line.
const LSN_WIDTH: usize = 12;
const NAME_WIDTH: usize = 14;
const DB_WIDTH: usize = 3;
const KEY_WIDTH: usize = 24;
const STATE_WIDTH: usize = 9;

/// Entries with two blanks between them, and none at the end of the line.
struct Columns<'o, W> {
    out: &'o mut W,
    paint: Paint,
    /// Blanks that are due before the next entry.
    due: usize,
}

impl<W: Write> Columns<'_, W> {
    /// An entry of its own width.
    fn push(&mut self, entry: impl Display) -> io::Result<()> {
        write!(self.out, "{:due$}{entry}", "", due = self.due)?;
        self.due = 2;
        Ok(())
    }

    /// An entry that is at least `width` wide. It is short text; whatever may be long is pushed.
    fn column(&mut self, width: usize, entry: &str, tone: Option<Tone>) -> io::Result<()> {
        match tone {
            Some(tone) => self.push(self.paint.tone(tone, entry))?,
            None => self.push(entry)?,
        }
        self.due += width.saturating_sub(entry.chars().count());
        Ok(())
    }

    fn key(&mut self, key: Escaped<'_>) -> io::Result<()> {
        if key.0.len() <= KEY_WIDTH {
            self.column(KEY_WIDTH, &key.to_string(), None)
        } else {
            self.push(key)
        }
    }
}

/// Writes `line` without its end.
pub(crate) fn record(out: &mut impl Write, paint: Paint, line: &Line<'_>) -> io::Result<()> {
    let mut columns = Columns { out, paint, due: 0 };
    lead(&mut columns, line, line.name.unwrap_or_default())?;
    match line.key {
        Some(key) => columns.key(key)?,
        None => columns.due += KEY_WIDTH + 2,
    }
    details(&mut columns, line)
}

/// Writes `line` without its end as something that happened to a key which the reader knows: its name instead of the
/// record's, no key, and a `note` at the end.
pub(crate) fn event(
    out: &mut impl Write,
    paint: Paint,
    name: &str,
    line: &Line<'_>,
    note: Option<&str>,
) -> io::Result<()> {
    // The event's name says it already.
    let line = Line {
        reason: None,
        ..line.clone()
    };
    let mut columns = Columns { out, paint, due: 0 };
    lead(&mut columns, &line, name)?;
    details(&mut columns, &line)?;
    match note {
        Some(note) => columns.push(paint.tone(Tone::Quiet, format_args!("({})", Shown(note)))),
        None => Ok(()),
    }
}

fn lead<W: Write>(columns: &mut Columns<'_, W>, line: &Line<'_>, name: &str) -> io::Result<()> {
    let paint = columns.paint;
    columns.push(format_args!("{:>LSN_WIDTH$}", line.lsn))?;
    columns.push(paint.tone(Tone::Quiet, Time::from(UnixMs::new(line.time_ms))))?;
    columns.column(NAME_WIDTH, name, None)?;
    match line.db {
        Some(db) => columns.push(format_args!("{db:>DB_WIDTH$}"))?,
        None => columns.due += DB_WIDTH + 2,
    }
    Ok(())
}

fn details<W: Write>(columns: &mut Columns<'_, W>, line: &Line<'_>) -> io::Result<()> {
    if let Some(state) = line.state {
        let tone = match state {
            State::Pending => Tone::Warning,
            State::Completed => Tone::Good,
            State::Aborted => Tone::Bad,
        };
        columns.column(STATE_WIDTH, state.word(), Some(tone))?;
    }
    match line.deadline_ms {
        Some(Some(ms)) => columns.push(format_args!("until {}", Time::from(Deadline::at(ms))))?,
        Some(None) => columns.push("no end")?,
        None => {}
    }
    if let Some(owner) = line.owner {
        columns.push(format_args!("owner {owner}"))?;
    }
    if let Some(fingerprint) = line.fingerprint {
        columns.push(format_args!("fingerprint {fingerprint}"))?;
    }
    if let Some(fields) = line.fields {
        columns.push(format_args!("fields {fields}"))?;
    }
    if let Some(bytes) = line.value_bytes {
        columns.push(format_args!("value {bytes} B"))?;
    }
    if let (Some(bytes), Some(State::Completed)) = (line.result_bytes, line.state) {
        columns.push(format_args!("result {bytes} B"))?;
    }
    epoch_and_members(columns, line)?;
    if let (Some(index), Some(count)) = (line.tx_index, line.tx_count) {
        columns.push(format_args!("part {} of {count}", index + 1))?;
    }
    if let (Some(file), Some(offset)) = (&line.file, line.offset) {
        columns.push(format_args!("{file} offset {offset}"))?;
    }
    values(columns, line)
}

fn values<W: Write>(columns: &mut Columns<'_, W>, line: &Line<'_>) -> io::Result<()> {
    if let Some(result) = line.result.filter(|result| !result.0.is_empty()) {
        columns.push(format_args!("= {result}"))?;
    }
    match line.value {
        Some(Value::String([])) => {}
        // Shown as the record that it is.
        Some(Value::String(_)) if line.result.is_some() => {}
        Some(Value::String(bytes)) => columns.push(format_args!("= {}", Escaped(bytes)))?,
        Some(Value::Set(pairs)) => {
            for (field, value) in pairs.iter() {
                columns.push(format_args!("{} = {}", Escaped(field), Escaped(value)))?;
            }
        }
        Some(Value::Removed(fields)) => {
            for field in fields.iter() {
                columns.push(Escaped(field))?;
            }
        }
        None => {}
    }
    Ok(())
}

fn epoch_and_members<W: Write>(columns: &mut Columns<'_, W>, line: &Line<'_>) -> io::Result<()> {
    if let Some(epoch) = line.epoch {
        columns.push(format_args!("epoch {epoch}"))?;
    }
    if let Some(reason) = line.reason {
        columns.push(reason)?;
    }
    if let Some(node) = &line.node {
        columns.push(format_args!("node {node}"))?;
    }
    if let (Some(required), Some(members)) = (line.required, line.members) {
        columns.push(format_args!("{required} required"))?;
        for (node, address) in members.0.iter() {
            columns.push(format_args!("{node} {}", Escaped(address)))?;
        }
    }
    Ok(())
}

/// Writes a group commit or seal without the end of the line.
pub(crate) fn frame(out: &mut impl Write, paint: Paint, line: &FrameLine) -> io::Result<()> {
    let text = format!(
        "-- {}: records {}, bytes {}, synced lsn {}, {} offset {}",
        line.frame, line.records, line.record_bytes, line.synced_lsn, line.file, line.offset
    );
    write!(out, "{:>LSN_WIDTH$}  {}", line.lsn, paint.tone(Tone::Quiet, text))
}
