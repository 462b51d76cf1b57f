//! `CLIENT LIST`, `INFO` and `KILL`: which connections there are, and ending some of them.
//!
//! A line has Redis's fields in Redis's order, because tools split it at blanks and equals signs. What has no counterpart
//! here is what Redis shows when there is nothing: `ssub=0`, `argv-mem=0`, `oll=0`, `redir=-1`. There are no users but the
//! one that everybody is, `default`.

use std::fmt::{Display, Write as _};
use std::net::SocketAddr;

use idem_protocol::command::args::{is, parse_i64, parse_i64_in};
use idem_protocol::command::errors::{self, Text};
use idem_protocol::resp::Protocol;
use idem_protocol::resp::encode::Reply;

use super::{Call, Decided, View, bound, count, shown};
use crate::decision::{Action, Decision};
use crate::deed::Deed;
use crate::info::ClientFacts;
use crate::session::Session;

/// The user that every connection is.
const USER: &str = "default";

/// What a connection is to others. Of the third kind, links of replicas and to a primary, there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Normal,
    PubSub,
    Link,
}

impl Kind {
    /// As `TYPE` names it.
    fn by_name(name: &[u8]) -> Result<Kind, Text> {
        Ok(match name {
            _ if is(name, "normal") => Kind::Normal,
            _ if is(name, "pubsub") => Kind::PubSub,
            _ if is(name, "master") || is(name, "replica") || is(name, "slave") => Kind::Link,
            _ => return Err(format!("ERR Unknown client type '{}'", shown(name)).into()),
        })
    }

    fn of(session: &Session) -> Kind {
        if session.subscriptions.is_empty() {
            Kind::Normal
        } else {
            Kind::PubSub
        }
    }
}

/// Visits the connections, or the one of that id, each with its session; the caller's is the view's own.
fn visit<'k>(view: &View<'k>, only: Option<u64>, each: &mut dyn FnMut(&ClientFacts<'_>, &Session)) {
    let caller = view.session();
    view.facts().clients(only, &mut |client| {
        if client.id == caller.id {
            each(client, caller);
        } else if let Some(session) = client.session {
            each(client, session);
        }
    });
}

/// Whether there is a connection of that id.
pub(super) fn exists(id: i64, view: &View<'_>) -> bool {
    let mut found = false;
    if let Ok(id) = u64::try_from(id) {
        visit(view, Some(id), &mut |_, _| found = true);
    }
    found
}

/// `CLIENT INFO`.
pub(super) fn info<'c: 'k, 'k>(call: Call<'c>, view: &View<'k>) -> Decision<'c, 'k> {
    let mut text = String::new();
    visit(view, Some(view.session().id), &mut |client, session| {
        line(&mut text, client, session, Some(call.name()));
    });
    Decision::reply(Reply::Verbatim("txt", text.into()))
}

/// `CLIENT LIST [TYPE type | ID id …]`.
pub(super) fn list<'c: 'k, 'k>(call: Call<'c>, view: &View<'k>) -> Decided<'c, 'k> {
    let caller = view.session().id;
    let mut text = String::new();
    let mut add = |client: &ClientFacts<'_>, session: &Session| {
        let name = (client.id == caller).then(|| call.name());
        line(&mut text, client, session, name);
    };
    match (call.args.len(), call.args.get(2)) {
        (2, _) => visit(view, None, &mut add),
        (4, Some(word)) if is(word, "TYPE") => {
            let kind = Kind::by_name(call.arg(3))?;
            visit(view, None, &mut |client, session| {
                if Kind::of(session) == kind {
                    add(client, session);
                }
            });
        }
        (4.., Some(word)) if is(word, "ID") => {
            // All are read before the first is looked for.
            let ids = bound::names(call.args.tail(3))?.iter().map(parse_i64);
            let ids: Option<Vec<i64>> = ids.collect();
            for id in ids.ok_or("ERR Invalid client ID")? {
                if let Ok(id) = u64::try_from(id) {
                    visit(view, Some(id), &mut add);
                }
            }
        }
        _ => return Err(errors::syntax()),
    }
    Ok(Decision::reply(Reply::Verbatim("txt", text.into())))
}

/// Which connections to end: those to which everything that is given applies.
#[derive(Debug, Default)]
struct Filter<'c> {
    id: Option<u64>,
    kind: Option<Kind>,
    address: Option<&'c [u8]>,
    local: Option<&'c [u8]>,
    age_seconds: Option<u64>,
    spares_caller: bool,
}

/// `CLIENT KILL address` and `CLIENT KILL [option value] …`.
pub(super) fn kill<'c: 'k, 'k>(call: Call<'c>, view: &View<'k>) -> Decided<'c, 'k> {
    let is_old_form = call.args.len() == 3;
    let filter = if is_old_form {
        Filter {
            address: Some(call.arg(2)),
            ..Filter::default()
        }
    } else {
        filter(call)?
    };
    let caller = view.session().id;
    let (mut ids, mut kills_caller) = (Vec::new(), false);
    visit(view, filter.id, &mut |client, session| {
        if !filter.admits(client, session) {
        } else if client.id != caller {
            ids.push(client.id);
        } else if !filter.spares_caller {
            kills_caller = true;
        }
    });
    // Within a transaction: whom an earlier command of it ends is not ended twice.
    for deed in view.deeds() {
        if let Deed::Kill { ids: earlier } = deed {
            ids.retain(|id| earlier.binary_search(id).is_err());
        }
    }
    let killed = ids.len() + usize::from(kills_caller);
    let reply = match (is_old_form, killed) {
        (true, 0) => return Err("ERR No such client".into()),
        (true, _) => Reply::Ok,
        (false, _) => Reply::Int(count(killed)),
    };
    Ok(match (ids.is_empty(), kills_caller) {
        (true, false) => Decision::reply(reply),
        (true, true) => Decision {
            action: Action::Close,
            ..Decision::reply(reply)
        },
        (false, false) => Decision::deed(Deed::Kill { ids }, reply),
        // Its own reply is sent before it goes.
        (false, true) => Decision {
            action: Action::DeedThenClose(Box::new(Deed::Kill { ids })),
            ..Decision::reply(reply)
        },
    })
}

fn filter(call: Call<'_>) -> Result<Filter<'_>, Text> {
    let mut filter = Filter {
        spares_caller: true,
        ..Filter::default()
    };
    let mut at = 2;
    while let Some(option) = call.args.get(at) {
        let value = call.args.get(at + 1).ok_or_else(errors::syntax)?;
        if is(option, "ID") {
            let id = parse_i64_in(value, 1..=i64::MAX).ok_or("ERR client-id should be greater than 0")?;
            filter.id = u64::try_from(id).ok();
        } else if is(option, "TYPE") {
            filter.kind = Some(Kind::by_name(value)?);
        } else if is(option, "ADDR") {
            filter.address = Some(value);
        } else if is(option, "LADDR") {
            filter.local = Some(value);
        } else if is(option, "USER") {
            if value != USER.as_bytes() {
                return Err(format!("ERR No such user '{}'", shown(value)).into());
            }
        } else if is(option, "SKIPME") {
            filter.spares_caller = match value {
                _ if is(value, "yes") => true,
                _ if is(value, "no") => false,
                _ => return Err(errors::syntax()),
            };
        } else if is(option, "MAXAGE") {
            let age = parse_i64(value).ok_or("ERR maxage is not an integer or out of range")?;
            let age = u64::try_from(age).ok().filter(|age| *age > 0);
            filter.age_seconds = Some(age.ok_or("ERR maxage should be greater than 0")?);
        } else {
            return Err(errors::syntax());
        }
        at += 2;
    }
    Ok(filter)
}

impl Filter<'_> {
    /// Whether it applies; the caller is a case of its own.
    fn admits(&self, client: &ClientFacts<'_>, session: &Session) -> bool {
        let is_at = |wanted: Option<&[u8]>, address: Option<SocketAddr>| {
            wanted.is_none_or(|wanted| address.is_some_and(|is| is.to_string().as_bytes() == wanted))
        };
        self.id.is_none_or(|id| id == client.id)
            && self.kind.is_none_or(|kind| kind == Kind::of(session))
            && self.age_seconds.is_none_or(|age| client.age_seconds >= age)
            && is_at(self.address, client.address)
            && is_at(self.local, client.local)
    }
}

fn spelled(address: Option<SocketAddr>) -> String {
    address.map_or_else(String::new, |address| address.to_string())
}

/// Letters for what a connection is and does; `N` for nothing of that.
fn flags(client: &ClientFacts<'_>, session: &Session) -> String {
    let letters = [
        (Kind::of(session) == Kind::PubSub, 'P'),
        (session.queued().is_some(), 'x'),
        (client.waits, 'b'),
        (session.no_evict, 'e'),
        (session.no_touch, 'T'),
    ];
    let set: String = letters
        .into_iter()
        .filter_map(|(holds, letter)| holds.then_some(letter))
        .collect();
    if set.is_empty() { "N".to_owned() } else { set }
}

/// One connection's line. `running`: the command that it is in the middle of.
fn line(text: &mut String, client: &ClientFacts<'_>, session: &Session, running: Option<&'static str>) {
    let mut put = |name: &str, value: &dyn Display| {
        let gap = if name == "id" { "" } else { " " };
        write!(text, "{gap}{name}={value}").expect("a string takes every write");
    };
    // Names are printable ASCII without blanks: `check_name` admits nothing else.
    let name = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let queued = session.queued().map_or(-1, count);
    let kept_bytes = session.memory_bytes();
    let free_bytes = client.input_bytes.saturating_sub(client.query_bytes + kept_bytes);
    let protocol = match session.protocol {
        Protocol::Resp2 => 2,
        Protocol::Resp3 => 3,
    };
    put("id", &client.id);
    put("addr", &spelled(client.address));
    put("laddr", &spelled(client.local));
    put("fd", &client.descriptor);
    put("name", &name(&session.name));
    put("age", &client.age_seconds);
    put("idle", &client.idle_seconds);
    put("flags", &flags(client, session));
    put("db", &session.db);
    put("sub", &session.subscriptions.channels());
    put("psub", &session.subscriptions.patterns());
    put("ssub", &0);
    put("multi", &queued);
    put("qbuf", &client.query_bytes);
    put("qbuf-free", &free_bytes);
    put("argv-mem", &0);
    put("multi-mem", &kept_bytes);
    put("rbs", &client.output_bytes);
    put("rbp", &client.output_bytes);
    put("obl", &client.unsent_bytes);
    put("oll", &0);
    put("omem", &client.output_bytes);
    put("tot-mem", &(client.input_bytes + client.output_bytes));
    put("events", &if client.writes { "rw" } else { "r" });
    put("cmd", &running.or(session.last_command).unwrap_or("NULL"));
    put("user", &USER);
    put("redir", &-1);
    put("resp", &protocol);
    put("lib-name", &name(&session.library_name));
    put("lib-ver", &name(&session.library_version));
    text.push('\n');
}
