//! The command table: the one source of everything that can be said of a command without knowing what it means.
//!
//! From a row come the dispatcher's arity check, `COMMAND` and its subcommands, help texts, the categories of ACL rules,
//! and the key positions for slots and key patterns. A new command is a row here and a file in the engine.
//!
//! Vocabulary
//! * *Row*: a [`CommandSpec`]. Rows are `'static`; [`lookup`] and [`spec`] give references to them.
//! * *Container*: a command whose subcommands have rows of their own (`CLIENT`, `COMMAND`, `IDEM`).
//! * *Route*: the row, and the subcommand's row, that a concrete call has; [`resolve`] finds it or says why there is none.
//!
//! `IDEM key ACTION …` is a container of a shape that Redis does not have: its action is argument 2, so that the key is
//! argument 1 and every client and proxy that routes by key finds it without knowing the command. Clients take the
//! subcommands in a `COMMAND` entry to be argument 1; shown there, IDEM's actions would be looked for in the key's place.
//! So `COMMAND` shows IDEM as one plain command with one key, while `COMMAND DOCS`, which is for people, lists the actions
//! the way it lists subcommands. Error texts and ACL rules name them `idem|begin`, as for any container.
//!
//! Deliberately absent: what a command does, users, and any state.

pub mod args;
pub mod docs;
pub mod errors;
mod flags;
mod glob;
mod keys;
mod spec;
pub mod syntax;
mod table;

pub use flags::{Categories, Flags};
pub use keys::{Keys, keys};
pub use spec::{CommandId, CommandSpec, KeySpec, SubcommandId, SubcommandSpec};

use crate::resp::Args;
use table::TABLE;

/// Every command, grouped.
pub fn all() -> &'static [CommandSpec] {
    &TABLE
}

/// The row of a command.
pub fn spec(id: CommandId) -> &'static CommandSpec {
    // The variants are the table's indices; `table` checks that when it is compiled.
    &TABLE[id as usize]
}

/// The row of the command with that name, in any case. Allocates nothing: one hash of three bytes and, as a rule, one
/// comparison.
pub fn lookup(name: &[u8]) -> Option<&'static CommandSpec> {
    table::lookup(name)
}

/// Whether a command's name is how an HTTP request looks from here: `POST` and `Host:`, in any case, as in Redis.
///
/// A browser can be made to send a request to any port, with a body that somebody else chose. Its first lines would be
/// unknown commands, and a line of the body a real one. No command will ever have these names; whoever reads from a
/// client closes the connection at the first of them, answers nothing and carries out nothing that follows. Requests by
/// other methods are caught at their `Host:` line, which comes before any body.
pub fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

/// Where a concrete call leads.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// The command.
    pub spec: &'static CommandSpec,
    /// Its subcommand or action, when it is a container and the call names one.
    pub subcommand: Option<&'static SubcommandSpec>,
}

impl Route {
    /// `get`, `client|setname`: as error texts, listings and ACL rules spell it.
    pub fn full_name(&self) -> &'static str {
        self.subcommand.map_or(self.spec.name, |sub| sub.full_name)
    }

    /// The flags that hold for this call.
    pub fn flags(&self) -> Flags {
        self.subcommand.map_or(self.spec.flags, |sub| sub.flags)
    }

    /// The categories that hold for this call.
    pub fn categories(&self) -> Categories {
        self.subcommand.map_or(self.spec.categories, |sub| sub.categories)
    }
}

/// Finds the row of a call and checks its number of arguments; the error is ready to be sent. In Redis's order: is there
/// such a command, then such a subcommand, then the count. Allocates nothing when there is no error.
pub fn resolve(args: Args<'_>) -> Result<Route, errors::Text> {
    let Some(spec) = lookup(args.name()) else {
        return Err(errors::unknown_command(args));
    };
    let route = match spec.subcommand_word(args) {
        None => Route {
            spec,
            subcommand: None,
        },
        Some(word) => match spec.subcommand(word) {
            Some(sub) => Route {
                spec,
                subcommand: Some(sub),
            },
            // "Try IDEM HELP" would name a command that takes HELP for a key.
            None if spec.subcommand_at > 1 => return Err(errors::syntax()),
            None => return Err(errors::unknown_subcommand(spec, word)),
        },
    };
    let arity_ok = match route.subcommand {
        Some(sub) => sub.arity_ok(args.len()),
        None => spec.arity_ok(args.len()),
    };
    if arity_ok {
        Ok(route)
    } else {
        Err(errors::wrong_arguments(route.full_name()))
    }
}
