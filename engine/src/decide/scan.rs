//! `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`.
//!
//! What is there during the whole scan is answered at least once, whatever grows, splits or goes meanwhile: the keyspace
//! promises it. Filters look at what a step visited, so a step may answer nothing and still not be the last one.

use idem_protocol::command::args::{glob_matches, is, parse_i64, parse_u64};
use idem_protocol::command::errors::{self, Text};
use idem_protocol::resp::encode::Reply;

use super::keys::type_name;
use super::{Call, Decided, View};
use crate::decision::Decision;

/// Entries a step visits when the client does not say.
const COUNT_DEFAULT: usize = 10;
/// COUNT is a hint. A larger one is taken as this, so that no client can make all others wait for its scan.
const COUNT_MAX: usize = 10_000;

#[derive(Clone, Copy)]
struct Filter<'c> {
    pattern: Option<&'c [u8]>,
    type_name: Option<&'c [u8]>,
    count: usize,
}

pub(super) fn decide<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let cursor = parse_u64(call.arg(1)).ok_or_else(errors::invalid_cursor)?;
    let filter = filter(call)?;
    let mut keys = Vec::new();
    let next = view.scan(call.db, cursor, filter.count, &mut |entry| {
        let of_type = filter
            .type_name
            .is_none_or(|wanted| is(wanted, type_name(&entry.value())));
        if of_type
            && filter
                .pattern
                .is_none_or(|pattern| glob_matches(pattern, entry.key(), false))
        {
            keys.push(Reply::Bulk(entry.key()));
        }
    });
    Ok(Decision::reply(Reply::Array(vec![
        Reply::Owned(next.to_string().into_bytes()),
        Reply::Array(keys),
    ])))
}

fn filter<'c>(call: Call<'c>) -> Result<Filter<'c>, Text> {
    let mut filter = Filter {
        pattern: None,
        type_name: None,
        count: COUNT_DEFAULT,
    };
    let mut at = 2;
    while let Some(word) = call.args.get(at) {
        let Some(value) = call.args.get(at + 1) else {
            return Err(errors::syntax());
        };
        if is(word, "MATCH") {
            filter.pattern = Some(value);
        } else if is(word, "TYPE") {
            filter.type_name = Some(value);
        } else if is(word, "COUNT") {
            let count = parse_i64(value).ok_or_else(errors::not_an_integer)?;
            if count < 1 {
                return Err(errors::syntax());
            }
            filter.count = usize::try_from(count).map_or(COUNT_MAX, |count| count.min(COUNT_MAX));
        } else {
            return Err(errors::syntax());
        }
        at += 2;
    }
    Ok(filter)
}
