//! `IDEM key BEGIN | COMPLETE | ABORT | INSPECT`.
//!
//! Which transition is legal is `protocol`'s table; here are the checks of arguments, what is found under the key, and
//! the one record that carries value and deadline together. Nothing found is copied except into the reply.

use idem_protocol::Deadline;
use idem_protocol::command::SubcommandId;
use idem_protocol::command::args::parse_i64;
use idem_protocol::command::errors::{self, Text};
use idem_protocol::idem::transition::{self, Abort, Begin, Complete};
use idem_protocol::idem::{
    HEADER_BYTES, IdemRecord, IdemState, RESULT_BYTES_MAX, TOKEN_BYTES_MAX, TTL_MS_MAX,
};
use idem_protocol::resp::encode::Reply;
use idem_protocol::wal::Record;
use smallvec::smallvec;

use super::{Call, Decided, View};
use crate::counters::Tally;
use crate::decision::Decision;

pub(super) fn decide<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    match call.subcommand() {
        Some(SubcommandId::IdemBegin) => begin(call, view),
        Some(SubcommandId::IdemComplete) => complete(call, view),
        Some(SubcommandId::IdemAbort) => abort(call, view),
        Some(SubcommandId::IdemInspect) => inspect(call, view),
        // The table lists only the four under IDEM.
        _ => Err(errors::syntax()),
    }
}

fn begin<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let (key, fingerprint, owner) = tokens(call)?;
    let ttl_ms = parse_i64(call.arg(5))
        .and_then(|ttl_ms| u64::try_from(ttl_ms).ok())
        .filter(|ttl_ms| (1..=TTL_MS_MAX).contains(ttl_ms))
        .ok_or_else(errors::not_an_integer)?;
    let live = view.idem(call.db, key)?.map(|(record, _)| record);
    Ok(match transition::begin(live, fingerprint) {
        Begin::Acquire => {
            let record = IdemRecord {
                state: IdemState::Pending,
                fingerprint,
                owner,
                result: &[],
            };
            let deadline = Deadline::at(view.now().get() + ttl_ms);
            let record = Record::IdempotencyPut {
                key,
                deadline,
                record,
            };
            Decision::record(call.db, record, word("acquired")).counted(Tally::Acquired)
        }
        Begin::Conflict => Decision::reply(word("conflict")).counted(Tally::Conflict),
        Begin::Pending => Decision::reply(word("pending")).counted(Tally::Pending),
        Begin::Completed { result } => {
            Decision::reply(Reply::Bulks(smallvec![b"completed".as_slice(), result])).counted(Tally::Replayed)
        }
    })
}

fn complete<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let (key, fingerprint, owner) = tokens(call)?;
    let result = call.arg(5);
    if result.len() > RESULT_BYTES_MAX {
        return Err(format!("ERR result must have at most {RESULT_BYTES_MAX} bytes").into());
    }
    let record = IdemRecord {
        state: IdemState::Completed,
        fingerprint,
        owner,
        result,
    };
    if record.encoded_len() > view.bulk_bytes_max() {
        let room = view
            .bulk_bytes_max()
            .saturating_sub(HEADER_BYTES + fingerprint.len() + owner.len());
        return Err(format!("ERR result must have at most {room} bytes here (proto-max-bulk-len)").into());
    }
    let found = view.idem(call.db, key)?;
    Ok(
        match (
            transition::complete(found.map(|(record, _)| record), fingerprint, owner, result),
            found,
        ) {
            // The deadline is the one that BEGIN set: a completion never extends retention.
            (Complete::Store, Some((_, deadline))) => {
                let record = Record::IdempotencyPut {
                    key,
                    deadline,
                    record,
                };
                Decision::record(call.db, record, Reply::Int(1)).counted(Tally::Completed)
            }
            (Complete::AlreadyStored, _) => Decision::reply(Reply::Int(1)),
            (Complete::Store | Complete::Refused, _) => {
                Decision::reply(Reply::Int(0)).counted(Tally::RefusedComplete)
            }
        },
    )
}

fn abort<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let (key, fingerprint, owner) = tokens(call)?;
    let found = view.idem(call.db, key)?;
    Ok(
        match (
            transition::abort(found.map(|(record, _)| record), fingerprint, owner),
            found,
        ) {
            (Abort::Remove, Some((_, deadline))) => {
                let record = IdemRecord {
                    state: IdemState::Aborted,
                    fingerprint,
                    owner,
                    result: &[],
                };
                let record = Record::IdempotencyPut {
                    key,
                    deadline,
                    record,
                };
                Decision::record(call.db, record, Reply::Int(1)).counted(Tally::Aborted)
            }
            (Abort::Remove | Abort::Refused, _) => Decision::reply(Reply::Int(0)),
        },
    )
}

fn inspect<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let Some((record, deadline)) = view.idem(call.db, call.arg(1))? else {
        return Ok(Decision::reply(Reply::Null));
    };
    let ttl_ms = deadline.get().saturating_sub(view.now().get());
    let pairs = [
        ("state", Reply::text(record.state.word())),
        ("fingerprint", Reply::Bulk(record.fingerprint)),
        ("owner", Reply::Bulk(record.owner)),
        ("deadline_ms", int(deadline.get())),
        ("ttl_ms", int(ttl_ms)),
        ("result_bytes", int(record.result.len() as u64)),
    ];
    Ok(Decision::reply(Reply::Map(
        pairs
            .into_iter()
            .map(|(name, value)| (Reply::text(name), value))
            .collect(),
    )))
}

/// Key, fingerprint, owner.
type Tokens<'c> = (&'c [u8], &'c [u8], &'c [u8]);

/// Key, fingerprint and owner, the two tokens within their bounds.
fn tokens<'c>(call: Call<'c>) -> Result<Tokens<'c>, Text> {
    for (name, token) in [("fingerprint", call.arg(3)), ("owner", call.arg(4))] {
        if !(1..=TOKEN_BYTES_MAX).contains(&token.len()) {
            return Err(format!("ERR {name} must have 1 to {TOKEN_BYTES_MAX} bytes").into());
        }
    }
    Ok((call.arg(1), call.arg(3), call.arg(4)))
}

fn word<'k>(word: &'static str) -> Reply<'k> {
    Reply::Bulks(smallvec![word.as_bytes()])
}

/// Deadlines beyond what a reply can say do not come from BEGIN, but PEXPIRE may set them.
fn int<'k>(value: u64) -> Reply<'k> {
    Reply::Int(i64::try_from(value).unwrap_or(i64::MAX))
}
