//! `DEBUG SLEEP seconds`: everybody waits. For tests of what stands around a server: does a client time out, does a
//! monitor notice.
//!
//! Only where the operator allows it (`enable-debug-command`), because one line of a client then stops all others. The
//! decision says for how long; the server does the sleeping.

use std::time::Duration;

use idem_protocol::command::args::is;
use idem_protocol::command::errors::Text;
use idem_protocol::resp::encode::Reply;

use super::{Call, Decided, View, shown};
use crate::decision::{Action, Decision};

/// Longest sleep in seconds. Half of what a client is given to take a reply or to finish a command, so that a sleep alone
/// drops nobody.
const SLEEP_SECONDS_MAX: f64 = 30.0;

const REFUSED: &str = "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run \
                       it from a local connection, otherwise you need to set this option in the configuration file, and \
                       then restart the server.";

const HELP: [&str; 5] = [
    "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "SLEEP seconds",
    "    Stops the server for all clients, for 0 to 30 seconds; fractions are allowed.",
    "HELP",
    "    Lists the subcommands of DEBUG.",
];

pub(super) fn decide<'c: 'k, 'k>(call: Call<'c>, view: &View<'k>) -> Decided<'c, 'k> {
    if !view.session().may_debug {
        return Err(REFUSED.into());
    }
    match (call.args.len(), call.arg(1)) {
        (3, word) if is(word, "SLEEP") => Ok(Decision {
            action: Action::Sleep(duration(call.arg(2))?),
            ..Decision::reply(Reply::Ok)
        }),
        (2, word) if is(word, "HELP") => Ok(Decision::reply(Reply::Array(HELP.map(Reply::text).into()))),
        (_, word) => Err(format!(
            "ERR unknown subcommand or wrong number of arguments for '{}'. Try DEBUG HELP.",
            shown(word)
        )
        .into()),
    }
}

fn duration(seconds: &[u8]) -> Result<Duration, Text> {
    let seconds: f64 = std::str::from_utf8(seconds)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or("ERR value is not a valid float")?;
    if !(0.0..=SLEEP_SECONDS_MAX).contains(&seconds) {
        return Err(format!("ERR DEBUG SLEEP takes 0 to {SLEEP_SECONDS_MAX} seconds").into());
    }
    Ok(Duration::from_secs_f64(seconds))
}
