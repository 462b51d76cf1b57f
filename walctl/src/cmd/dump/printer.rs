//! Lines of either kind on stdout.

use std::io::{self, Write};

use super::Args;
use crate::exit::Failure;
use crate::line::{FrameLine, Line, human};
use crate::output::{self, Out, Printed};

/// Writes lines of either kind.
pub(super) struct Printer {
    out: Out,
    json: bool,
    values: bool,
    frames: bool,
    /// Each line is written at once: somebody waits for it.
    flushes: bool,
    lines: u64,
}

impl Printer {
    pub(super) fn new(out: Out, args: &Args) -> Printer {
        Printer {
            out,
            json: args.json,
            values: args.values,
            frames: args.frames,
            flushes: args.follow,
            lines: 0,
        }
    }

    /// Whether values are wanted.
    pub(super) fn values(&self) -> bool {
        self.values
    }

    /// Whether group commits are wanted.
    pub(super) fn frames(&self) -> bool {
        self.frames
    }

    /// How many records were printed.
    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    /// Writes what is still held.
    pub(super) fn finish(&mut self) -> Result<Printed, Failure> {
        output::printed(self.out.flush())
    }

    pub(super) fn record(&mut self, line: &Line<'_>) -> Result<Printed, Failure> {
        self.lines += 1;
        let written = if self.json {
            serde_json::to_writer(&mut self.out, line).map_err(io::Error::from)
        } else {
            let paint = self.out.paint();
            human::record(&mut self.out, paint, line)
        };
        self.end_line(written)
    }

    pub(super) fn frame(&mut self, line: &FrameLine) -> Result<Printed, Failure> {
        let written = if self.json {
            serde_json::to_writer(&mut self.out, line).map_err(io::Error::from)
        } else {
            let paint = self.out.paint();
            human::frame(&mut self.out, paint, line)
        };
        self.end_line(written)
    }

    fn end_line(&mut self, written: io::Result<()>) -> Result<Printed, Failure> {
        let ended = written.and_then(|()| self.out.end_line());
        output::printed(ended.and_then(|()| if self.flushes { self.out.flush() } else { Ok(()) }))
    }
}
