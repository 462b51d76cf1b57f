//! `EXPIRE`, `TTL`, `PERSIST`: reading and changing deadlines. The `P…` commands do it in milliseconds, the `…AT` and
//! `…TIME` ones with absolute times.

use idem_protocol::Deadline;
use idem_protocol::command::args::{is, parse_i64};
use idem_protocol::command::errors::{self, Text};
use idem_protocol::resp::encode::Reply;
use idem_protocol::wal::{DeleteReason, Record};

use super::time::{Base, Unit, absolute};
use super::{Call, Decided, View, shown};
use crate::decision::Decision;

#[derive(Clone, Copy, Default)]
struct Conditions {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

pub(super) fn expire<'c: 'k, 'k>(
    call: Call<'c>,
    view: &mut View<'k>,
    unit: Unit,
    base: Base,
) -> Decided<'c, 'k> {
    let key = call.arg(1);
    let conditions = conditions(call)?;
    let time = parse_i64(call.arg(2)).ok_or_else(errors::not_an_integer)?;
    let at = absolute(time, unit, base.ms(view.now()), call.name())?;

    let Some(current) = view.live(call.db, key).map(|entry| entry.deadline()) else {
        return Ok(Decision::reply(Reply::Int(0)));
    };
    // A key without a deadline ends later than any that has one.
    let ends = if current.is_some() {
        i128::from(current.get())
    } else {
        i128::MAX
    };
    let refused = (conditions.nx && current.is_some())
        || (conditions.xx && current.is_none())
        || (conditions.gt && i128::from(at) <= ends)
        || (conditions.lt && i128::from(at) >= ends);
    if refused {
        return Ok(Decision::reply(Reply::Int(0)));
    }
    let deadline = u64::try_from(at).map_or(Deadline::NONE, Deadline::at);
    let record = if deadline.is_none() || deadline.has_ended(view.now()) {
        Record::Delete {
            reason: DeleteReason::Command,
            key,
        }
    } else {
        Record::DeadlinePut { key, deadline }
    };
    Ok(Decision::record(call.db, record, Reply::Int(1)))
}

fn conditions(call: Call<'_>) -> Result<Conditions, Text> {
    let mut found = Conditions::default();
    for word in call.args.tail(3).iter() {
        let flag = match () {
            () if is(word, "NX") => &mut found.nx,
            () if is(word, "XX") => &mut found.xx,
            () if is(word, "GT") => &mut found.gt,
            () if is(word, "LT") => &mut found.lt,
            () => return Err(format!("ERR Unsupported option {}", shown(word)).into()),
        };
        *flag = true;
    }
    if found.nx && (found.xx || found.gt || found.lt) {
        return Err("ERR NX and XX, GT or LT options at the same time are not compatible".into());
    }
    if found.gt && found.lt {
        return Err("ERR GT and LT options at the same time are not compatible".into());
    }
    Ok(found)
}

/// What is left, or with [`Base::Epoch`] the deadline itself; −1 without a deadline, −2 without a key.
pub(super) fn ttl<'c: 'k, 'k>(
    call: Call<'c>,
    view: &mut View<'k>,
    unit: Unit,
    base: Base,
) -> Decided<'c, 'k> {
    let answer = match view.live(call.db, call.arg(1)).map(|entry| entry.deadline()) {
        None => -2,
        Some(deadline) if deadline.is_none() => -1,
        Some(deadline) => {
            let ms = i64::try_from(deadline.get()).unwrap_or(i64::MAX);
            unit.count(ms.saturating_sub(base.ms(view.now())))
        }
    };
    Ok(Decision::reply(Reply::Int(answer)))
}

pub(super) fn persist<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let key = call.arg(1);
    let has_deadline = view
        .live(call.db, key)
        .is_some_and(|entry| entry.deadline().is_some());
    Ok(if has_deadline {
        Decision::record(
            call.db,
            Record::DeadlinePut {
                key,
                deadline: Deadline::NONE,
            },
            Reply::Int(1),
        )
    } else {
        Decision::reply(Reply::Int(0))
    })
}
