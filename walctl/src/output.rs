//! Stdout: buffered, coloured for people, and out of the progress bar's way.

use std::fmt::{self, Display};
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::os::fd::AsFd;
use std::sync::Arc;

use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::progress::Meter;

/// How much is gathered before it is written; on a terminal each line is shown at once.
const BUFFER_BYTES: usize = 1 << 16;

/// Where data goes.
pub(crate) struct Out {
    buffer: BufWriter<Shared>,
    terminal: bool,
    paint: Paint,
}

/// Stdout, with the bar taken off the screen while something is written to it.
struct Shared {
    stdout: Stdout,
    meter: Option<Arc<Meter>>,
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let stdout = &mut self.stdout;
        match &self.meter {
            Some(meter) => meter.aside(|| stdout.write(bytes)),
            None => stdout.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }
}

impl Out {
    /// Stdout; with colours when `colour` is wanted, stdout is a terminal and `NO_COLOR` is not set.
    pub(crate) fn stdout(colour: bool) -> Out {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        Out {
            paint: Paint {
                enabled: colour && terminal && !refused,
            },
            terminal,
            buffer: BufWriter::with_capacity(BUFFER_BYTES, Shared { stdout, meter: None }),
        }
    }

    /// Takes `meter`'s bar off the screen for every write.
    pub(crate) fn beside(mut self, meter: Arc<Meter>) -> Out {
        self.buffer.get_mut().meter = Some(meter);
        self
    }

    /// The colours of this output.
    pub(crate) fn paint(&self) -> Paint {
        self.paint
    }

    /// To be called after each line of a long listing.
    pub(crate) fn end_line(&mut self) -> io::Result<()> {
        self.buffer.write_all(b"\n")?;
        if self.terminal { self.flush() } else { Ok(()) }
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.buffer.flush()
    }
}

/// Whether a bar beside this stdout is of use: with stdout on the terminal (the lines push it down) or in a file, not when
/// another program shows what comes through a pipe.
pub(crate) fn leaves_room_for_a_bar() -> bool {
    let stdout = io::stdout();
    let is_file = || {
        let copy = stdout.as_fd().try_clone_to_owned();
        copy.and_then(|fd| File::from(fd).metadata())
            .is_ok_and(|metadata| metadata.is_file())
    };
    stdout.is_terminal() || is_file()
}

/// What became of data that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Printed {
    /// It is on its way.
    All,
    /// Nobody reads any more: go on without printing, or stop; it is no failure.
    Closed,
}

/// Tells a closed pipe from a failure.
pub(crate) fn printed(result: io::Result<()>) -> Result<Printed, Failure> {
    match result {
        Ok(()) => Ok(Printed::All),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Printed::Closed),
        Err(error) => Err(Failure::io("writing to stdout")(error)),
    }
}

/// What went wrong, for a program that reads JSON Lines.
#[derive(Serialize)]
struct ErrorLine {
    error: String,
}

/// With `--json` a failure is an object on stdout, too, beside the line on stderr and the exit code.
pub(crate) fn failing_in_json(json: bool, result: Result<Exit, Failure>) -> Result<Exit, Failure> {
    if let (true, Err(failure)) = (json, &result) {
        let line = ErrorLine {
            error: failure.to_string(),
        };
        let mut out = Out::stdout(false);
        // When it is stdout that cannot be written to, stderr has to do.
        let _ = serde_json::to_writer(&mut out, &line)
            .map_err(io::Error::from)
            .and_then(|()| out.end_line())
            .and_then(|()| out.flush());
    }
    result
}

/// Colours, or none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Paint {
    enabled: bool,
}

/// What a colour says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Warning,
    Bad,
    Quiet,
}

impl Paint {
    /// `text` in the colour of `tone`.
    pub(crate) fn tone<T: Display>(self, tone: Tone, text: T) -> Painted<T> {
        Painted {
            tone: self.enabled.then_some(tone),
            text,
        }
    }
}

/// Something to be shown, in a colour or not. Width and alignment apply to the text without the colour.
pub(crate) struct Painted<T> {
    tone: Option<Tone>,
    text: T,
}

impl<T: Display> Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(tone) = self.tone else {
            return self.text.fmt(f);
        };
        let code = match tone {
            Tone::Good => 32,
            Tone::Warning => 33,
            Tone::Bad => 31,
            Tone::Quiet => 2,
        };
        write!(f, "\x1b[{code}m")?;
        self.text.fmt(f)?;
        f.write_str("\x1b[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colour_does_not_count_as_width() {
        let plain = Paint { enabled: false };
        let bright = Paint { enabled: true };
        assert_eq!(format!("[{:<5}]", plain.tone(Tone::Good, "abc")), "[abc  ]");
        assert_eq!(
            format!("[{:<5}]", bright.tone(Tone::Good, "abc")),
            "[\x1b[32mabc  \x1b[0m]"
        );
    }

    #[test]
    fn a_closed_pipe_is_no_failure_and_a_full_disk_is_one() {
        assert_eq!(
            printed(Err(io::ErrorKind::BrokenPipe.into())).unwrap(),
            Printed::Closed
        );
        assert_eq!(printed(Ok(())).unwrap(), Printed::All);
        assert!(printed(Err(io::ErrorKind::StorageFull.into())).is_err());
    }
}
