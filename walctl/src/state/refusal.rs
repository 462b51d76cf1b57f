//! Why there is no state at a target, in words and as JSON, and which states there are instead.

use std::io::{self, Write};
use std::path::Path;

use idem_protocol::Lsn;
use idem_wal::recovery::{Judgement, Until};
use idem_wal::storage::{Dir, Storage};
use serde::Serialize;

use super::span::{Salvage, Span};
use crate::exit::{Exit, Failure};
use crate::output::Out;
use crate::store;
use crate::text::Time;
use crate::view::View;

/// A target that was not reached.
#[derive(Debug)]
pub(crate) struct Refusal {
    exit: Exit,
    what: String,
    /// One line each, below it.
    reasons: Vec<String>,
    verdict: Option<Verdict>,
    spans: Vec<Span>,
    /// Whether the verdict is on log that a start does not read, of which `walctl verify` says nothing.
    is_below: bool,
    is_archive: bool,
    is_nothing: bool,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Verdict {
    verdict: &'static str,
    letter: char,
    end_lsn: u64,
}

/// The one object on stdout.
#[derive(Serialize)]
struct Json<'a> {
    error: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    reasons: &'a [String],
    #[serde(flatten)]
    verdict: Option<Verdict>,
    /// Which states there are.
    ranges: Vec<Range>,
}

#[derive(Serialize)]
struct Range {
    from_lsn: u64,
    from_time_ms: u64,
    to_lsn: u64,
    to_time_ms: u64,
}

impl From<&Span> for Range {
    fn from(span: &Span) -> Range {
        Range {
            from_lsn: span.from.0.get(),
            from_time_ms: span.from.1.get(),
            to_lsn: span.to.0.get(),
            to_time_ms: span.last_time().get(),
        }
    }
}

impl Refusal {
    /// The verdict refuses the log, and the target is not before the damage. `is_whole` is the verdict of `walctl verify`;
    /// another one is on more of the log, which only an earlier state needs.
    pub(super) fn damaged(view: &View, judgement: &Judgement, is_whole: bool, salvage: Salvage) -> Refusal {
        let (letter, word) = (judgement.letter(), judgement.verdict.word());
        let part = if is_whole {
            "the log"
        } else {
            "what an earlier state needs of the log"
        };
        let mut reasons: Vec<String> = judgement
            .reasons()
            .map(|finding| match &finding.place {
                Some(place) if !place.name.is_empty() => {
                    format!("{}: {}", place.dir.join(&place.name), finding.message)
                }
                _ => finding.message.clone(),
            })
            .collect();
        reasons.extend(salvage.inexact.iter().map(|(name, start, end)| {
            format!(
                "{} was written while the log went on from lsn {start} to {end}: without that part of the log it is the \
                 state of no moment",
                Dir::Snap.join(name)
            )
        }));
        Refusal {
            exit: judgement.verdict.into(),
            what: format!("{letter} {word}: {part} reads up to lsn {}", judgement.end_lsn),
            reasons,
            verdict: Some(Verdict {
                verdict: word,
                letter,
                end_lsn: judgement.end_lsn.get(),
            }),
            spans: salvage.spans,
            is_below: !is_whole,
            is_archive: is_archive(view),
            is_nothing: false,
        }
    }

    /// There is no log.
    pub(super) fn nothing() -> Refusal {
        Refusal {
            exit: Exit::Failed,
            what: "there is no log here".to_owned(),
            reasons: Vec::new(),
            verdict: None,
            spans: Vec::new(),
            is_below: false,
            is_archive: false,
            is_nothing: true,
        }
    }

    /// The log does not reach the target.
    pub(super) fn outside(view: &View, until: Until, end: Lsn, span: Option<Span>) -> Refusal {
        let is_archive = is_archive(view);
        let mut reasons = Vec::new();
        let target = words(until);
        let what = match span {
            Some(span) => {
                let Span { from, to, .. } = span;
                let is_later = match until {
                    Until::Time(time) => time > span.last_time(),
                    Until::Lsn(lsn) => lsn > to.0,
                    Until::End => false,
                };
                if is_later && is_archive {
                    reasons.push("the log went on after what is archived of it".to_owned());
                    if matches!(until, Until::Time(_)) && from.1 <= span.last_time() {
                        reasons.push(format!(
                            "perhaps within the millisecond of lsn {}: up to --to-time {}, it is known to be complete",
                            to.0,
                            Time::from(span.last_time())
                        ));
                    }
                }
                if !is_later && from.0 > Lsn::ZERO {
                    reasons.push(format!(
                        "states reach back to the end of the oldest snapshot that is kept (the newest but one), here lsn {}: a \
                         snapshot is a state only at its end, and the log before it goes for none without lsn 0",
                        from.0
                    ));
                }
                format!(
                    "{target} is outside of the log, which has lsn {} ({}) to lsn {} ({}); --to-lsn {} is its end",
                    from.0,
                    Time::from(from.1),
                    to.0,
                    Time::from(to.1),
                    to.0
                )
            }
            None => format!("{target} is outside of the log, which ends at lsn {end}"),
        };
        Refusal {
            exit: Exit::Failed,
            what,
            reasons,
            verdict: None,
            spans: span.into_iter().collect(),
            is_below: false,
            is_archive,
            is_nothing: false,
        }
    }

    /// Says it on stderr, and with `json` as one object on stdout; answers the exit code. `dir` is what was
    /// looked at.
    pub(crate) fn complain(&self, dir: &Path, json: bool) -> Result<Exit, Failure> {
        eprintln!("walctl: {}", self.what);
        for reason in &self.reasons {
            eprintln!("walctl:   {reason}");
        }
        for line in self.advice(dir) {
            eprintln!("walctl: {line}");
        }
        if json {
            self.print(&mut Out::stdout(false))
                .map_err(Failure::io("writing to stdout"))?;
        }
        Ok(self.exit)
    }

    /// What can be had instead, and from where.
    fn advice(&self, dir: &Path) -> Vec<String> {
        let mut lines = Vec::new();
        if self.is_nothing {
            // A store looks like a directory that waits for its first server.
            let histories = store::histories(dir).unwrap_or_default();
            if !histories.is_empty() {
                lines.push(format!(
                    "walctl archive keeps logs in it: walctl restore --from {} --into NEW …",
                    dir.display()
                ));
            }
            lines.extend(
                histories
                    .iter()
                    .map(|(history, _)| format!("an archived log is in {}", history.display())),
            );
            return lines;
        }
        let dir = dir.display();
        if self.verdict.is_some() {
            let spans: Vec<String> = self.spans.iter().map(range).collect();
            let source = if self.is_archive {
                format!("--from {dir}")
            } else {
                dir.to_string()
            };
            lines.push(match self.spans.last() {
                Some(last) => format!(
                    "it has the states from {}: walctl restore {source} --into NEW --to-lsn {}",
                    spans.join(", and from "),
                    last.to.0
                ),
                None => "no state can be made of what is there".to_owned(),
            });
            let deep = if self.is_below { "--deep " } else { "" };
            lines.push(format!("for all that is wrong: walctl verify {deep}{dir}"));
        }
        let is_early = self.spans.first().is_none_or(|first| first.from.0 > Lsn::ZERO);
        if !self.is_archive && (self.verdict.is_some() || is_early) {
            lines.push(format!(
                "where walctl archive has copied this log to a STORE: walctl restore --from STORE --into NEW --to-{} …",
                if self.verdict.is_some() { "lsn" } else { "time" }
            ));
        }
        lines
    }

    fn print(&self, out: &mut Out) -> io::Result<()> {
        let object = Json {
            error: &self.what,
            reasons: &self.reasons,
            verdict: self.verdict,
            ranges: self.spans.iter().map(Range::from).collect(),
        };
        serde_json::to_writer(&mut *out, &object)?;
        out.end_line()?;
        out.flush()
    }
}

fn range(span: &Span) -> String {
    let Span { from, to, .. } = span;
    format!(
        "lsn {} ({}) to lsn {} ({})",
        from.0,
        Time::from(from.1),
        to.0,
        Time::from(to.1)
    )
}

/// A target as a person would call it.
pub(super) fn words(until: Until) -> String {
    match until {
        Until::End => "the end of the log".to_owned(),
        Until::Lsn(lsn) => format!("lsn {lsn}"),
        Until::Time(time) => Time::from(time).to_string(),
    }
}

/// Whether this is a history of a store: its log went on elsewhere.
pub(super) fn is_archive(view: &View) -> bool {
    let names = view.list(Dir::Root).unwrap_or_default();
    names.iter().any(|name| name == store::MANIFEST_NAME)
}
