//! `LIMIT key max window_ms [SLIDING | TOKENS [COST n]] [WITHRETRY]`.
//!
//! What a call does is `protocol`'s rule; here are the checks of arguments and what is found under the key. A call that
//! fits writes its whole record with its deadline; one that is refused writes nothing, and its reply still waits for the
//! calls before it that it reveals.

use idem_protocol::Deadline;
use idem_protocol::command::args::{is, parse_i64};
use idem_protocol::command::errors::{self, Text};
use idem_protocol::limit::{self, BUCKET_MAX, LimitRecord, MAX_MAX, Mode, Verdict};
use idem_protocol::resp::encode::Reply;
use idem_protocol::wal::Record;

use super::found::Value;
use super::{Call, Decided, View};
use crate::decision::Decision;

const SYNTAX: &str =
    "ERR syntax error: behind window_ms come SLIDING, or TOKENS [COST n], then WITHRETRY, in this order";

/// What a client asked for.
struct Asked {
    call: limit::Call,
    with_retry: bool,
}

pub(super) fn decide<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let key = call.arg(1);
    let asked = asked(call)?;
    let live = counter(call, view)?;
    match limit::call(live, asked.call, view.now()) {
        Verdict::Fits {
            record,
            deadline,
            left,
        } => {
            let value = call.scratch.counter(record);
            let record = Record::StringPut { key, deadline, value };
            Ok(Decision::record(call.db, record, asked.reply(Some(left), 0)))
        }
        Verdict::Refused { retry_ms } => Ok(Decision::reply(asked.reply(None, retry_ms))),
        Verdict::OtherMode => Err(other_mode(live)),
    }
}

/// The counter of the key; what is none is of the wrong type.
fn counter(call: Call<'_>, view: &mut View<'_>) -> Result<Option<(LimitRecord, Deadline)>, Text> {
    let Some(entry) = view.live(call.db, call.arg(1)) else {
        return Ok(None);
    };
    let record = match entry.value() {
        Value::String(bytes) => LimitRecord::decode(bytes),
        Value::Hash(_) => None,
    };
    let record = record.ok_or_else(errors::wrong_type)?;
    Ok(Some((record, entry.deadline())))
}

fn other_mode(live: Option<(LimitRecord, Deadline)>) -> Text {
    let word = live.map_or("another", |(record, _)| match record.mode() {
        Mode::Fixed => "fixed window",
        Mode::Sliding => "SLIDING",
        Mode::Tokens => "TOKENS",
    });
    format!("ERR the key counts in {word} mode until it ends").into()
}

/// Reads the arguments: first their order, then their ranges.
fn asked(call: Call<'_>) -> Result<Asked, Text> {
    let mut words = call.args.tail(4).iter().peekable();
    let (mut mode, mut cost) = (Mode::Fixed, None);
    if words.next_if(|word| is(word, "SLIDING")).is_some() {
        mode = Mode::Sliding;
    } else if words.next_if(|word| is(word, "TOKENS")).is_some() {
        mode = Mode::Tokens;
        if words.next_if(|word| is(word, "COST")).is_some() {
            cost = Some(words.next().ok_or(SYNTAX)?);
        }
    }
    let with_retry = words.next_if(|word| is(word, "WITHRETRY")).is_some();
    if words.next().is_some() {
        return Err(SYNTAX.into());
    }
    let most = if mode == Mode::Tokens { BUCKET_MAX } else { MAX_MAX };
    let max = number("max", call.arg(2), most)?;
    let window_ms = number("window_ms", call.arg(3), u32::MAX)?;
    let cost = cost.map_or(Ok(1), |cost| number("COST", cost, max))?;
    Ok(Asked {
        call: limit::Call {
            mode,
            max,
            window_ms,
            cost,
        },
        with_retry,
    })
}

/// An integer from 1 to `most`; the error names the argument.
fn number(name: &str, text: &[u8], most: u32) -> Result<u32, Text> {
    parse_i64(text)
        .and_then(|number| u32::try_from(number).ok())
        .filter(|number| (1..=most).contains(number))
        .ok_or_else(|| errors::out_of_range(name, u64::from(most)))
}

impl Asked {
    /// `left` is `None` for a call that did not fit.
    fn reply<'k>(&self, left: Option<u32>, retry_ms: u64) -> Reply<'k> {
        if self.with_retry {
            let left = left.map_or(-1, i64::from);
            // A wait has 49 bits at most.
            let retry_ms = i64::try_from(retry_ms).unwrap_or(i64::MAX);
            Reply::Array(vec![Reply::Int(left), Reply::Int(retry_ms)])
        } else {
            left.map_or(Reply::Null, |left| Reply::Int(i64::from(left)))
        }
    }
}
