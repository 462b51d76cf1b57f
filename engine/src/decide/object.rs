//! `OBJECT`: how a value is held.
//!
//! Nothing here is held the way Redis holds it, and clients ask all the same: to estimate memory, or to learn whether a
//! hash is still small. So `ENCODING` answers what Redis 7.2 would choose, under its default limits, for a value of this
//! content. Redis remembers how a value came about (one that was appended to stays `raw`, a hash that was large stays a
//! `hashtable`); content alone does not tell.

use idem_protocol::command::args::parse_i64;
use idem_protocol::command::{SubcommandId, docs};
use idem_protocol::resp::encode::Reply;

use super::found::{Fields, Value};
use super::introspect::shorten;
use super::{Call, Decided, View};
use crate::decision::Decision;

/// Longest decimal spelling of a 64-bit integer.
const INT_DIGITS_MAX: usize = 20;
/// Longest string that Redis puts beside its header.
const EMBEDDED_BYTES_MAX: usize = 44;
/// Redis's `hash-max-listpack-entries` …
const LISTPACK_FIELDS_MAX: usize = 512;
/// … and `hash-max-listpack-value`, for fields and for values.
const LISTPACK_BYTES_MAX: usize = 64;

pub(super) fn decide<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    if call.subcommand() == Some(SubcommandId::ObjectHelp) {
        return Ok(Decision::reply(shorten(docs::help_reply(call.route.spec))));
    }
    let Some(entry) = view.live(call.db, call.arg(2)) else {
        return Ok(Decision::reply(Reply::Null));
    };
    match call.subcommand() {
        Some(SubcommandId::ObjectRefcount) => Ok(Decision::reply(Reply::Int(1))),
        Some(SubcommandId::ObjectIdletime) => match view.idle_seconds(&entry) {
            Some(seconds) => Ok(Decision::reply(Reply::Int(i64::try_from(seconds).unwrap_or(i64::MAX)))),
            None => Err(
                "ERR idle time is not tracked: that needs maxmemory and an LRU maxmemory-policy".into(),
            ),
        },
        Some(SubcommandId::ObjectFreq) => Err(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
             switching between policies at runtime LRU and LFU data will take some time to adjust."
                .into(),
        ),
        _ => Ok(Decision::reply(Reply::text(encoding(&entry.value())))),
    }
}

fn encoding(value: &Value<'_>) -> &'static str {
    match value {
        Value::String(bytes) if bytes.len() <= INT_DIGITS_MAX && parse_i64(bytes).is_some() => "int",
        Value::String(bytes) if bytes.len() <= EMBEDDED_BYTES_MAX => "embstr",
        Value::String(_) => "raw",
        Value::Hash(hash) if is_listpack(*hash) => "listpack",
        Value::Hash(_) => "hashtable",
    }
}

/// Whether Redis would hold such a hash as one list. Looks at so many fields at most as such a list may have.
pub(super) fn is_listpack(hash: Fields<'_>) -> bool {
    hash.len() <= LISTPACK_FIELDS_MAX
        && hash
            .iter()
            .all(|(field, value)| field.len().max(value.len()) <= LISTPACK_BYTES_MAX)
}
