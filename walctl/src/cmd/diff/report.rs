//! What came out of a comparison, in words and as JSON.

use std::io::{self, Write};

use idem_protocol::Lsn;
use serde::Serialize;
use serde_json::Value;

use super::Args;
use super::compare::Difference;
use crate::exit::Exit;
use crate::output::{Out, Tone};
use crate::text::Crc;

/// The answer.
pub(super) enum Answer {
    /// The same bytes from one position to the other. One side may go on.
    Equal {
        from: Lsn,
        to: Lsn,
        goes_on: Option<&'static str>,
    },
    /// The same, and one is shorter, which was asked for.
    OtherEnd { lsn: Lsn, shorter: &'static str },
    /// Not the same.
    Differs(Difference),
    /// The same in all that both hold, and one of them has a place that cannot be read.
    Damaged {
        lsn: Lsn,
        side: &'static str,
        exit: Exit,
        /// What was compared.
        same: Vec<(Lsn, Lsn)>,
    },
}

impl Answer {
    /// How the program ends.
    pub(super) fn exit(&self) -> Exit {
        match self {
            Answer::Equal { .. } => Exit::Clean,
            Answer::OtherEnd { .. } | Answer::Differs(_) => Exit::Differs,
            Answer::Damaged { exit, .. } => *exit,
        }
    }

    /// Where they are not the same any more, the word for why, and the sentence.
    fn difference(&self) -> Option<(Lsn, &'static str, String)> {
        match self {
            Answer::Equal { .. } => None,
            Answer::OtherEnd { lsn, shorter } => {
                Some((*lsn, "end", format!("{shorter} ends, the other one goes on")))
            }
            Answer::Differs(difference) => Some((difference.lsn(), difference.word(), sentence(difference))),
            Answer::Damaged { lsn, side, .. } => {
                let words = format!("the same so far, and {side} is damaged here");
                Some((*lsn, "damage", words))
            }
        }
    }
}

fn sentence(difference: &Difference) -> String {
    match difference {
        Difference::Record { found, .. } => match &**found {
            [Some(a), Some(b)] => format!("other records, CRC {} and {}", Crc(a.crc), Crc(b.crc)),
            _ => "other records".to_owned(),
        },
        Difference::Boundary { .. } => {
            "a record of one log reaches over a boundary of the other one's".to_owned()
        }
        Difference::Epoch { epochs: [a, b], .. } => format!("A is in epoch {a} here, B in epoch {b}"),
        Difference::Cluster { clusters: [a, b], .. } => format!("A belongs to cluster {a}, B to cluster {b}"),
        Difference::NoCommonRange { words, .. } => format!("no position is in both logs: {words}"),
    }
}

/// The object for equal sides, and the one for others.
#[derive(Serialize)]
struct EqualLine {
    equal: bool,
    to_lsn: u64,
    from_lsn: u64,
    /// The side that goes on behind `to_lsn`.
    #[serde(skip_serializing_if = "Option::is_none")]
    goes_on: Option<&'static str>,
}

#[derive(Serialize)]
struct DifferentLine<'a> {
    equal: bool,
    first_lsn: u64,
    reason: &'static str,
    message: String,
    /// The records there.
    #[serde(skip_serializing_if = "Option::is_none")]
    a: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    b: Option<&'a Value>,
    /// Beside damage: what was compared all the same, and is equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    same: Option<Vec<RangeLine>>,
}

#[derive(Serialize)]
struct RangeLine {
    from_lsn: u64,
    to_lsn: u64,
}

/// One object.
pub(super) fn json(out: &mut Out, answer: &Answer) -> io::Result<()> {
    if let Answer::Equal { from, to, goes_on } = answer {
        let line = EqualLine {
            equal: true,
            to_lsn: to.get(),
            from_lsn: from.get(),
            goes_on: *goes_on,
        };
        serde_json::to_writer(&mut *out, &line)?;
    } else {
        let (lsn, reason, message) = answer.difference().expect("whatever is not equal differs");
        let [a, b] = match answer {
            Answer::Differs(Difference::Record { found, .. }) => found
                .each_ref()
                .map(|found| found.as_ref().map(|found| &found.json)),
            _ => [None, None],
        };
        let same = match answer {
            Answer::Damaged { same, .. } => Some(same.iter().map(|(from, to)| RangeLine {
                from_lsn: from.get(),
                to_lsn: to.get(),
            })),
            _ => None,
        };
        let line = DifferentLine {
            same: same.map(Iterator::collect),
            equal: false,
            first_lsn: lsn.get(),
            reason,
            message,
            a,
            b,
        };
        serde_json::to_writer(&mut *out, &line)?;
    }
    out.write_all(b"\n")?;
    out.flush()
}

/// A sentence, and the two records.
pub(super) fn human(out: &mut Out, answer: &Answer, args: &Args) -> io::Result<()> {
    let paint = out.paint();
    if let Answer::Equal { from, to, goes_on } = answer {
        write!(out, "{}: lsn {from} to {to}", paint.tone(Tone::Good, "equal"))?;
        match goes_on {
            Some(side) => writeln!(out, ", where {side} goes on")?,
            None => writeln!(out, ", where both end")?,
        }
        return out.flush();
    }
    let (lsn, _, words) = answer.difference().expect("whatever is not equal differs");
    writeln!(
        out,
        "{}: from lsn {lsn} on: {words}",
        paint.tone(Tone::Bad, "different")
    )?;
    if let Answer::Damaged { same, .. } = answer {
        let ranges: Vec<String> = same.iter().map(|(from, to)| format!("{from} to {to}")).collect();
        match &ranges[..] {
            [] => eprintln!("walctl: nothing that both hold could be compared"),
            ranges => eprintln!("walctl: compared and equal: lsn {}", ranges.join(", ")),
        }
    }
    if let Answer::Differs(Difference::Record { found, .. }) = answer {
        for (name, found) in ["A", "B"].into_iter().zip(&**found) {
            if let Some(found) = found {
                writeln!(out, "  {name} {}", found.text)?;
            }
        }
        for dir in [&args.a, &args.b] {
            writeln!(
                out,
                "  walctl dump {} --from-lsn {lsn} --to-lsn {} --values",
                dir.display(),
                lsn.get().saturating_add(1)
            )?;
        }
    }
    out.flush()
}
