//! `SCRIPT`, of a server without scripts.

use idem_protocol::command::{SubcommandId, docs};

use super::introspect::shorten;
use super::{Call, Decided};
use crate::decision::Decision;

pub(super) fn decide<'c: 'k, 'k>(call: Call<'c>) -> Decided<'c, 'k> {
    match call.subcommand() {
        Some(SubcommandId::ScriptKill) => Err("NOTBUSY No scripts in execution right now.".into()),
        _ => Ok(Decision::reply(shorten(docs::help_reply(call.route.spec)))),
    }
}
