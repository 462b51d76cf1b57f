//! Commands about the connection itself: `AUTH`, `PING`, `ECHO`, `SELECT`, `HELLO`, `RESET`, `QUIT`; `CLIENT` is in
//! [`client`](super::client).
//!
//! They say nothing about the state, so their replies wait for nothing but the replies before them.

use idem_protocol::command::args::{is, parse_i64};
use idem_protocol::command::errors;
use idem_protocol::resp::Protocol;
use idem_protocol::resp::encode::Reply;

use super::client::check_name;
use super::{Call, Decided, View, pubsub, shown};
use crate::decision::{Action, Decision};
use crate::info::{REDIS_VERSION, SERVER_NAME};
use crate::session::SessionChange;

/// There are no users to log in as. Accepting any password would let a client believe that it was checked; and to an
/// unknown command the error repeats the arguments, which a password must not be.
const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the default user. Are you sure \
                           your configuration is correct?";

/// `AUTH [user] password`.
pub(super) fn auth<'c, 'k>(call: Call<'c>) -> Decided<'c, 'k> {
    Err(if call.args.len() > 3 {
        errors::syntax()
    } else {
        NO_PASSWORD.into()
    })
}

pub(super) fn ping<'c: 'k, 'k>(call: Call<'c>, view: &View<'k>) -> Decided<'c, 'k> {
    let session = view.session();
    match call.args.len() {
        1 | 2 if !session.subscriptions.is_empty() && session.protocol == Protocol::Resp2 => {
            pubsub::ping(call)
        }
        1 => Ok(Decision::reply(Reply::Pong)),
        2 => echo(call),
        _ => Err(errors::wrong_arguments(call.name())),
    }
}

pub(super) fn echo<'c: 'k, 'k>(call: Call<'c>) -> Decided<'c, 'k> {
    Ok(Decision::reply(Reply::Bulk(call.arg(1))))
}

pub(super) fn quit<'c, 'k>() -> Decided<'c, 'k> {
    Ok(Decision {
        action: Action::Close,
        ..Decision::reply(Reply::Ok)
    })
}

pub(super) fn select<'c: 'k, 'k>(call: Call<'c>, view: &View<'k>) -> Decided<'c, 'k> {
    let number = parse_i64(call.arg(1)).ok_or_else(errors::not_an_integer)?;
    let db = u8::try_from(number)
        .ok()
        .filter(|db| u16::from(*db) < view.statistics().databases());
    let db = db.ok_or_else(errors::database_out_of_range)?;
    Ok(Decision {
        session: SessionChange::Select(db),
        ..Decision::reply(Reply::Ok)
    })
}

/// Its reply is the same in both protocols.
pub(super) fn reset<'c, 'k>() -> Decided<'c, 'k> {
    Ok(Decision {
        session: SessionChange::Reset,
        ..Decision::reply(Reply::Simple("RESET"))
    })
}

/// `HELLO [version [AUTH user password] [SETNAME name]]`.
///
/// Clients take three things from the map: `proto`, `id` (client-side caching) and `version`, from which some decide
/// which commands exist; they parse it as three numbers, so it is the version of Redis whose behaviour is kept to. None
/// needs `server` to be `redis`; it says what this is.
pub(super) fn hello<'c: 'k, 'k>(call: Call<'c>, view: &View<'k>) -> Decided<'c, 'k> {
    let mut protocol = view.session().protocol;
    if let Some(version) = call.args.get(1) {
        protocol = match parse_i64(version) {
            Some(2) => Protocol::Resp2,
            Some(3) => Protocol::Resp3,
            Some(_) => return Err(errors::unsupported_protocol()),
            None => return Err("ERR Protocol version is not an integer or out of range".into()),
        };
    }
    let mut name = None;
    let mut login = false;
    let mut at = 2;
    while let Some(word) = call.args.get(at) {
        let left = call.args.len() - at - 1;
        if is(word, "AUTH") && left >= 2 {
            login = true;
            at += 3;
        } else if is(word, "SETNAME") && left >= 1 {
            let given = call.arg(at + 1);
            check_name(given, "Client names")?;
            name = Some(given);
            at += 2;
        } else {
            return Err(format!("ERR Syntax error in HELLO option '{}'", shown(word)).into());
        }
    }
    if login {
        return Err(NO_PASSWORD.into());
    }
    let fields = [
        ("server", Reply::text(SERVER_NAME)),
        ("version", Reply::text(REDIS_VERSION)),
        ("proto", Reply::Int(protocol.number())),
        (
            "id",
            Reply::Int(i64::try_from(view.session().id).unwrap_or(i64::MAX)),
        ),
        ("mode", Reply::text("standalone")),
        ("role", Reply::text("master")),
        ("modules", Reply::Array(Vec::new())),
    ];
    let map = fields
        .into_iter()
        .map(|(field, value)| (Reply::text(field), value))
        .collect();
    Ok(Decision {
        session: SessionChange::Hello { protocol, name },
        ..Decision::reply(Reply::Map(map))
    })
}
