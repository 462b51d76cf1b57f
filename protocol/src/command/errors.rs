//! The error texts that commands share, in Redis's words: clients compare them.
//!
//! Each is a whole error, its code first, ready for [`Reply::Error`](crate::resp::encode::Reply::Error). Bytes of a
//! client inside a text are cut at 128, made valid UTF-8, and hold no control characters: an error also ends in log
//! files and on terminals.

use std::borrow::Cow;

use super::spec::CommandSpec;
use crate::resp::{Args, ProtocolError};

/// The text of one error.
pub type Text = Cow<'static, str>;

/// How many bytes of a client an error repeats of a name, and of all its arguments together.
const QUOTED_BYTES: usize = 128;

/// A count of arguments that the command does not take. `full_name` is a command's or `container|subcommand`.
pub fn wrong_arguments(full_name: &str) -> Text {
    format!("ERR wrong number of arguments for '{full_name}' command").into()
}

/// A name that is no command, with the beginning of its arguments.
pub fn unknown_command(args: Args<'_>) -> Text {
    let mut text = format!(
        "ERR unknown command '{}', with args beginning with: ",
        quoted(args.name(), QUOTED_BYTES)
    );
    let mut used = 0;
    for argument in args.tail(1).iter() {
        if used >= QUOTED_BYTES {
            break;
        }
        let shown = quoted(argument, QUOTED_BYTES - used);
        text.push('\'');
        text.push_str(&shown);
        text.push_str("' ");
        used += argument.len().min(QUOTED_BYTES - used) + 3;
    }
    text.into()
}

/// A word that is no subcommand of `container`.
pub fn unknown_subcommand(container: &CommandSpec, word: &[u8]) -> Text {
    let name = container.name.to_ascii_uppercase();
    format!(
        "ERR unknown subcommand '{}'. Try {name} HELP.",
        quoted(word, QUOTED_BYTES)
    )
    .into()
}

/// Arguments in an order or combination that means nothing.
pub const fn syntax() -> Text {
    Cow::Borrowed("ERR syntax error")
}

/// An argument that is no integer, or none of the range.
pub const fn not_an_integer() -> Text {
    Cow::Borrowed("ERR value is not an integer or out of range")
}

/// An argument, named, that is no integer or not one of 1 to `most`: Redis's text, and behind it what would be right.
pub fn out_of_range(argument: &str, most: u64) -> Text {
    format!("{}: {argument} is 1 to {most}", not_an_integer()).into()
}

/// A key that holds another type than the command works on.
pub const fn wrong_type() -> Text {
    Cow::Borrowed("WRONGTYPE Operation against a key holding the wrong kind of value")
}

/// A time to live that is not positive, or that ends outside the range of times.
pub fn invalid_expire_time(command: &str) -> Text {
    format!("ERR invalid expire time in '{command}' command").into()
}

/// A database number that this server does not have.
pub const fn database_out_of_range() -> Text {
    Cow::Borrowed("ERR DB index is out of range")
}

/// A scan position that no scan has answered.
pub const fn invalid_cursor() -> Text {
    Cow::Borrowed("ERR invalid cursor")
}

/// `HELLO` with a version other than 2 and 3.
pub const fn unsupported_protocol() -> Text {
    Cow::Borrowed("NOPROTO unsupported protocol version")
}

/// `COMMAND GETKEYS` of a name that is no command.
pub const fn getkeys_unknown() -> Text {
    Cow::Borrowed("ERR Invalid command specified")
}

/// `COMMAND GETKEYS` of a command that has no keys.
pub const fn getkeys_without_keys() -> Text {
    Cow::Borrowed("ERR The command has no key arguments")
}

/// `COMMAND GETKEYS` of too few or too many arguments.
pub const fn getkeys_arity() -> Text {
    Cow::Borrowed("ERR Invalid number of arguments specified for command")
}

/// Bytes that are no RESP; the connection is closed after it.
pub fn protocol(error: ProtocolError) -> Text {
    format!("ERR {error}").into()
}

/// At most `limit` bytes of a client as text: line ends become blanks, as in Redis, other control characters and what is
/// no UTF-8 a replacement character.
fn quoted(bytes: &[u8], limit: usize) -> String {
    let cut = bytes.get(..limit).unwrap_or(bytes);
    let clean = |character: char| match character {
        '\r' | '\n' => ' ',
        other if other.is_control() => char::REPLACEMENT_CHARACTER,
        other => other,
    };
    String::from_utf8_lossy(cut).chars().map(clean).collect()
}
