//! Commands about whole databases: `DBSIZE`, `FLUSHDB`, `FLUSHALL`, and snapshots: `SAVE`, `BGSAVE`, `LASTSAVE`.

use idem_protocol::command::args::is;
use idem_protocol::command::errors::{self, Text};
use idem_protocol::resp::encode::Reply;
use idem_protocol::wal::Record;

use super::{Call, Decided, View};
use crate::decision::{Action, Decision};

pub(super) fn dbsize<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    Ok(Decision::reply(Reply::Int(
        i64::try_from(view.len(call.db)).unwrap_or(i64::MAX),
    )))
}

/// Written also when the database is empty: the reply then says so, and the record is the cheapest way to wait for
/// everything before it.
pub(super) fn flushdb<'c: 'k, 'k>(call: Call<'c>) -> Decided<'c, 'k> {
    mode(call)?;
    Ok(Decision::record(call.db, Record::FlushDb, Reply::Ok))
}

pub(super) fn flushall<'c: 'k, 'k>(call: Call<'c>) -> Decided<'c, 'k> {
    mode(call)?;
    Ok(Decision::record(call.db, Record::FlushAll, Reply::Ok))
}

/// ASYNC and SYNC are taken and mean the same: memory always goes back in small steps.
fn mode(call: Call<'_>) -> Result<(), Text> {
    match call.args.get(1) {
        None => Ok(()),
        Some(word) if call.args.len() == 2 && (is(word, "ASYNC") || is(word, "SYNC")) => Ok(()),
        Some(_) => Err(errors::syntax()),
    }
}

fn already_running() -> Text {
    "ERR Background save already in progress".into()
}

/// The server answers when the snapshot is done.
pub(super) fn save<'c, 'k>(view: &View<'k>) -> Decided<'c, 'k> {
    if view.facts().snapshot_running() {
        return Err(already_running());
    }
    Ok(Decision {
        action: Action::SnapshotThenAnswer,
        ..Decision::reply(Reply::Ok)
    })
}

/// With SCHEDULE a running snapshot is no error: the server makes another one after it.
pub(super) fn bgsave<'c: 'k, 'k>(call: Call<'c>, view: &View<'k>) -> Decided<'c, 'k> {
    let schedule = match (call.args.len(), call.args.get(1)) {
        (1, _) => false,
        (2, Some(word)) if is(word, "SCHEDULE") => true,
        _ => return Err(errors::syntax()),
    };
    let status = match (view.facts().snapshot_running(), schedule) {
        (false, _) => "Background saving started",
        (true, true) => "Background saving scheduled",
        (true, false) => return Err(already_running()),
    };
    Ok(Decision {
        action: Action::Snapshot,
        ..Decision::reply(Reply::Simple(status))
    })
}

pub(super) fn lastsave<'c, 'k>(view: &View<'k>) -> Decided<'c, 'k> {
    Ok(Decision::reply(Reply::Int(
        i64::try_from(view.facts().last_save()).unwrap_or(i64::MAX),
    )))
}
