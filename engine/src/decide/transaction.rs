//! `MULTI`, `DISCARD`, `WATCH`, `UNWATCH`, and `EXEC` where there is nothing to execute. What EXEC does is the node's
//! (`node/exec.rs`): it decides every command that was queued.

use idem_protocol::command::errors::Text;
use idem_protocol::resp::encode::Reply;

use super::{Call, Decided, View};
use crate::decision::Decision;
use crate::session::SessionChange;
use crate::transaction::watch::WATCHED_MAX;

fn change<'c, 'k>(session: SessionChange<'c>) -> Decided<'c, 'k> {
    Ok(Decision {
        session,
        ..Decision::reply(Reply::Ok)
    })
}

pub(super) fn multi<'c, 'k>(view: &View<'k>) -> Decided<'c, 'k> {
    if view.session().transaction.is_some() {
        return Err("ERR MULTI calls can not be nested".into());
    }
    change(SessionChange::Begin)
}

pub(super) fn discard<'c, 'k>(view: &View<'k>) -> Decided<'c, 'k> {
    if view.session().transaction.is_none() {
        return Err("ERR DISCARD without MULTI".into());
    }
    change(SessionChange::Discard)
}

/// Inside a transaction the node has taken it before it comes here.
pub(super) fn exec<'c, 'k>() -> Decided<'c, 'k> {
    Err("ERR EXEC without MULTI".into())
}

/// Says nothing about the keys, so its answer waits for nothing.
pub(super) fn watch<'c: 'k, 'k>(call: Call<'c>, view: &View<'k>) -> Decided<'c, 'k> {
    if view.session().transaction.is_some() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    let keys = call.args.tail(1);
    if view.session().watched.len().saturating_add(keys.len()) > WATCHED_MAX {
        return Err(too_many());
    }
    change(SessionChange::Watch(
        keys.iter().map(|key| view.watch(call.db, key)).collect(),
    ))
}

fn too_many() -> Text {
    format!("ERR a connection can watch {WATCHED_MAX} keys at most").into()
}

/// In the middle of EXEC there is nothing left to forget.
pub(super) fn unwatch<'c, 'k>() -> Decided<'c, 'k> {
    change(SessionChange::Unwatch)
}
