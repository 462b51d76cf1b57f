//! `ROLE`: what this node is in replication, as INFO's section has it.

use idem_protocol::resp::encode::Reply;

use super::{Decided, View};
use crate::decision::Decision;
use crate::info;

/// A primary without replicas; the offset is the one that INFO shows as `master_repl_offset`.
pub(super) fn decide<'c, 'k>(view: &View<'k>) -> Decided<'c, 'k> {
    let offset = info::replication_offset(view);
    Ok(Decision::reply(Reply::Array(vec![
        Reply::text("master"),
        Reply::Int(i64::try_from(offset).unwrap_or(i64::MAX)),
        Reply::Array(Vec::new()),
    ])))
}
