//! `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`, and `HSCAN key cursor [MATCH pattern] [COUNT count]`.
//!
//! What is there during the whole scan is answered at least once, whatever grows, splits or goes meanwhile: the keyspace
//! promises it. Filters look at what a step visited, so a step may answer nothing and still not be the last one.
//!
//! COUNT says how much a step visits and is a hint: a step is bounded whatever a client asks for, because everybody waits
//! while it runs.

use idem_protocol::command::args::{Glob, is, parse_i64, parse_u64};
use idem_protocol::command::errors::{self, Text};
use idem_protocol::resp::encode::Reply;

use super::found::Fields;
use super::keys::type_name;
use super::object::is_listpack;
use super::{Call, Decided, View, bound};
use crate::decision::Decision;
use crate::keyspace::{cursor_of, position_of};

/// Entries a step visits when the client does not say.
const COUNT_DEFAULT: usize = 10;
/// A larger COUNT is taken as this.
const COUNT_MAX: usize = 10_000;
/// Bytes of fields and values that one step through a hash visits, apart from the last field: values can be large.
const HSCAN_BYTES_MAX: usize = 1 << 20;
/// Empty stretches of a hash that a step goes past even when COUNT is small, so that a client does not need a call for each
/// one that a mass deletion left.
const HSCAN_PARTS_LEAST: usize = 16;

struct Filter<'c> {
    pattern: Option<Glob>,
    type_name: Option<&'c [u8]>,
    count: usize,
}

impl Filter<'_> {
    fn matches(&self, name: &[u8]) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| pattern.matches(name))
    }
}

pub(super) fn scan<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let cursor = parse_u64(call.arg(1)).ok_or_else(errors::invalid_cursor)?;
    let filter = filter(call, 2, true)?;
    let mut keys = Vec::new();
    let next = view.scan(call.db, cursor, filter.count, &mut |entry| {
        let of_type = filter
            .type_name
            .is_none_or(|wanted| is(wanted, type_name(&entry.value())));
        if of_type && filter.matches(entry.key()) {
            keys.push(entry.key());
        }
    });
    Ok(step(next, keys))
}

/// A hash that Redis would hold as a list comes whole, as it does there, whatever COUNT says.
pub(super) fn hscan<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let cursor = parse_u64(call.arg(2)).ok_or_else(errors::invalid_cursor)?;
    // Options come second here: as in Redis, a key that is missing answers whatever they are.
    let Some((hash, _)) = view.hash(call.db, call.arg(1))? else {
        return Ok(step(0, Vec::new()));
    };
    let filter = filter(call, 3, false)?;
    let mut found = Vec::new();
    // Those that only the transaction has come with every last part.
    view.pass_over(hash.changed_len());
    let mut visit = |(field, value)| {
        if filter.matches(field) {
            found.extend([field, value]);
        }
    };
    let next = if is_listpack(hash) {
        hash.iter().for_each(visit);
        0
    } else {
        visit_fields(hash, cursor, filter.count, &mut visit)
    };
    Ok(step(next, found))
}

/// Visits about `count` fields from `cursor` on; answers where to go on, 0 at the end.
fn visit_fields<'k>(
    hash: Fields<'k>,
    cursor: u64,
    count: usize,
    visit: &mut dyn FnMut((&'k [u8], &'k [u8])),
) -> u64 {
    let Some(mut position) = position_of(cursor) else {
        return 0;
    };
    let (mut fields, mut bytes) = (0, 0);
    for _ in 0..count.max(HSCAN_PARTS_LEAST) {
        let part = hash.part_of(position, count - fields, HSCAN_BYTES_MAX - bytes);
        for (field, value) in part.fields {
            fields += 1;
            bytes += field.len() + value.len();
            visit((field, value));
        }
        match part.next {
            Some(next) => position = next,
            None => return 0,
        }
        if fields >= count || bytes >= HSCAN_BYTES_MAX {
            break;
        }
    }
    cursor_of(position)
}

fn step<'c, 'k>(next: u64, found: Vec<&'k [u8]>) -> Decision<'c, 'k> {
    Decision::reply(Reply::Array(vec![
        Reply::Owned(next.to_string().into_bytes()),
        Reply::Bulks(found.into()),
    ]))
}

/// The options from argument `at` on.
fn filter<'c>(call: Call<'c>, mut at: usize, with_type: bool) -> Result<Filter<'c>, Text> {
    let mut filter = Filter {
        pattern: None,
        type_name: None,
        count: COUNT_DEFAULT,
    };
    // The last one counts, and is read then: a request can name many.
    let mut pattern = None;
    while let Some(word) = call.args.get(at) {
        let Some(value) = call.args.get(at + 1) else {
            return Err(errors::syntax());
        };
        if is(word, "MATCH") {
            pattern = Some(bound::pattern(value)?);
        } else if with_type && is(word, "TYPE") {
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
    filter.pattern = pattern.map(|pattern| Glob::new(pattern, false));
    Ok(filter)
}
