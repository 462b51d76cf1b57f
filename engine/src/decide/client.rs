//! `CLIENT`: what a connection says about itself, and what operators do to others. Which connections there are, and
//! ending them, is in [`super::client_list`].
//!
//! Client-side caching is not here: `TRACKING ON` is refused, and what asks about it is told that it is off.

use idem_protocol::UnixMs;
use idem_protocol::command::args::{is, parse_i64};
use idem_protocol::command::errors::{self, Text};
use idem_protocol::command::{SubcommandId, docs};
use idem_protocol::resp::encode::Reply;

use super::introspect::shorten;
use super::{Call, Decided, View, client_list, shown};
use crate::decision::Decision;
use crate::deed::Deed;
use crate::pause::PauseScope;
use crate::session::{ReplyMode, SessionChange};

/// Longest name that a connection may give itself, its library or the library's version. Redis has no limit; here a
/// name is held for as long as its connection, and ten thousand connections must not hold gigabytes of them.
const NAME_BYTES_MAX: usize = 1024;

const NO_TRACKING: &str = "ERR client-side caching is not in this server: CLIENT TRACKING can only be OFF";

const NO_CACHING: &str = "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT \
                          mode enabled";

pub(super) fn decide<'c: 'k, 'k>(call: Call<'c>, view: &View<'k>) -> Decided<'c, 'k> {
    let session = view.session();
    match call.subcommand() {
        Some(SubcommandId::ClientCaching) => Err(NO_CACHING.into()),
        Some(SubcommandId::ClientGetname) => Ok(Decision::reply(if session.name.is_empty() {
            Reply::Null
        } else {
            Reply::Bulk(&session.name)
        })),
        Some(SubcommandId::ClientGetredir) => Ok(Decision::reply(Reply::Int(-1))),
        Some(SubcommandId::ClientHelp) => Ok(Decision::reply(shorten(docs::help_reply(call.route.spec)))),
        Some(SubcommandId::ClientId) => Ok(Decision::reply(Reply::Int(
            i64::try_from(session.id).unwrap_or(i64::MAX),
        ))),
        Some(SubcommandId::ClientInfo) => Ok(client_list::info(call, view)),
        Some(SubcommandId::ClientKill) => client_list::kill(call, view),
        Some(SubcommandId::ClientList) => client_list::list(call, view),
        Some(SubcommandId::ClientNoEvict) => change(SessionChange::NoEvict(is_on(call)?)),
        Some(SubcommandId::ClientNoTouch) => change(SessionChange::NoTouch(is_on(call)?)),
        Some(SubcommandId::ClientPause) => pause(call, view),
        Some(SubcommandId::ClientReply) => change(SessionChange::Replies(reply_mode(call, view)?)),
        Some(SubcommandId::ClientSetinfo) => set_info(call),
        Some(SubcommandId::ClientSetname) => {
            check_name(call.arg(2), "Client names")?;
            change(SessionChange::Name(call.arg(2)))
        }
        Some(SubcommandId::ClientTracking) => tracking(call, view),
        Some(SubcommandId::ClientTrackinginfo) => Ok(Decision::reply(tracking_info())),
        Some(SubcommandId::ClientUnblock) => unblock(call),
        Some(SubcommandId::ClientUnpause) => Ok(Decision::deed(Deed::Unpause, Reply::Ok)),
        _ => Err(errors::syntax()),
    }
}

/// What stands in one column of a listing: printable ASCII without blanks. Empty is fine and means none.
pub(super) fn check_name(name: &[u8], what: &str) -> Result<(), Text> {
    if !name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Err(format!("ERR {what} cannot contain spaces, newlines or special characters.").into());
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(format!("ERR {what} cannot be longer than {NAME_BYTES_MAX} bytes.").into());
    }
    Ok(())
}

fn change<'c, 'k>(session: SessionChange<'c>) -> Decided<'c, 'k> {
    Ok(Decision {
        session,
        ..Decision::reply(Reply::Ok)
    })
}

fn is_on(call: Call<'_>) -> Result<bool, Text> {
    match call.arg(2) {
        word if is(word, "ON") => Ok(true),
        word if is(word, "OFF") => Ok(false),
        _ => Err(errors::syntax()),
    }
}

/// Where nothing is answered, SKIP changes nothing.
fn reply_mode(call: Call<'_>, view: &View<'_>) -> Result<ReplyMode, Text> {
    match call.arg(2) {
        word if is(word, "ON") => Ok(ReplyMode::On),
        word if is(word, "OFF") => Ok(ReplyMode::Off),
        word if is(word, "SKIP") && view.session().replies == ReplyMode::Off => Ok(ReplyMode::Off),
        word if is(word, "SKIP") => Ok(ReplyMode::SkipNext),
        _ => Err(errors::syntax()),
    }
}

/// Libraries send this when they connect, with whatever they are called: what is refused is one reply, and the connection
/// is as it was.
fn set_info<'c: 'k, 'k>(call: Call<'c>) -> Decided<'c, 'k> {
    let (field, value) = (call.arg(2), call.arg(3));
    let wanted: fn(&'c [u8]) -> SessionChange<'c> = if is(field, "LIB-NAME") {
        SessionChange::LibraryName
    } else if is(field, "LIB-VER") {
        SessionChange::LibraryVersion
    } else {
        return Err(format!("ERR Unrecognized option '{}'", shown(field)).into());
    };
    check_name(value, &shown(field))?;
    change(wanted(value))
}

fn pause<'c: 'k, 'k>(call: Call<'c>, view: &View<'k>) -> Decided<'c, 'k> {
    let scope = match (call.args.get(3), call.args.len()) {
        (None, _) => PauseScope::All,
        (Some(word), 4) if is(word, "ALL") => PauseScope::All,
        (Some(word), 4) if is(word, "WRITE") => PauseScope::Writes,
        (Some(_), 4) => return Err("ERR CLIENT PAUSE mode must be WRITE or ALL".into()),
        _ => return Err(super::unknown_arguments(call)),
    };
    let ms = parse_i64(call.arg(2)).ok_or("ERR timeout is not an integer or out of range")?;
    let ms = u64::try_from(ms).map_err(|_| "ERR timeout is negative")?;
    let until = view.clock().get().saturating_add(ms);
    if until > UnixMs::MAX.get() {
        return Err("ERR timeout is out of range".into());
    }
    // The clock counts whole milliseconds, and this one may be almost over: one more, so that none asked for is missing.
    let until = if ms == 0 { until } else { until + 1 };
    let until = UnixMs::new(until.min(UnixMs::MAX.get()));
    Ok(Decision::deed(Deed::Pause { until, scope }, Reply::Ok))
}

/// No command here waits for another client, so nobody can be freed from waiting.
fn unblock<'c: 'k, 'k>(call: Call<'c>) -> Decided<'c, 'k> {
    match (call.args.get(3), call.args.len()) {
        (None, _) => {}
        (Some(word), 4) if is(word, "TIMEOUT") || is(word, "ERROR") => {}
        (Some(_), 4) => return Err("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR".into()),
        _ => return Err(super::unknown_arguments(call)),
    }
    parse_i64(call.arg(2)).ok_or_else(errors::not_an_integer)?;
    Ok(Decision::reply(Reply::Int(0)))
}

/// The options are checked all the same: a client that sends nonsense is told so, whatever it would switch on.
fn tracking<'c: 'k, 'k>(call: Call<'c>, view: &View<'k>) -> Decided<'c, 'k> {
    let mut at = 3;
    while let Some(word) = call.args.get(at) {
        let has_more = call.args.len() > at + 1;
        if is(word, "REDIRECT") && has_more {
            let id = parse_i64(call.arg(at + 1)).ok_or_else(errors::not_an_integer)?;
            if !client_list::exists(id, view) {
                return Err("ERR The client ID you want redirect to does not exist".into());
            }
            at += 2;
        } else if is(word, "PREFIX") && has_more {
            at += 2;
        } else if ["BCAST", "OPTIN", "OPTOUT", "NOLOOP"]
            .iter()
            .any(|known| is(word, known))
        {
            at += 1;
        } else {
            return Err(errors::syntax());
        }
    }
    if is_on(call)? {
        return Err(NO_TRACKING.into());
    }
    Ok(Decision::reply(Reply::Ok))
}

fn tracking_info<'k>() -> Reply<'k> {
    Reply::Map(vec![
        (Reply::text("flags"), Reply::Set(vec![Reply::text("off")])),
        (Reply::text("redirect"), Reply::Int(-1)),
        (Reply::text("prefixes"), Reply::Array(Vec::new())),
    ])
}
