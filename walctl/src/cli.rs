//! The command line. Each flag is defined once, here: help, man pages and completions are made of it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use idem_protocol::wal::Opcode;
use idem_protocol::{Lsn, UnixMs};

use crate::generate::Generate;
use crate::parse::{self, Bytes};

const EXAMPLES: &str = "\
Examples:
  walctl verify /var/lib/idemd
  walctl dump /var/lib/idemd --key order:42
  walctl dump /var/lib/idemd --json | jq 'select(.state == \"completed\")'

Data goes to stdout, everything else to stderr. NO_COLOR turns colours off.";

const VERIFY_HELP: &str = "\
Examples:
  walctl verify /var/lib/idemd
  walctl verify --json /var/lib/idemd | tail -n 1

Exit codes:
  0  CLEAN, or NEW: there is no log yet, and a server would make one
  1  wrong usage, or DIR cannot be opened
  2  TORN_TAIL      the end was never promised; a start cuts it off
  3  UNPROVEN_TAIL  junk at the end that nothing vouches for or against; a start cuts it off and warns
  4  ROT            something that was promised is gone; a server refuses to start
  5  HOLE           a file is missing or short; refused
  6  FOREIGN        a newer format, another node's or another cluster's; refused
  8  BUG            undamaged and impossible; refused
  9  IO_ERROR       a read failed; refused

A directory that a server is using is judged as far as its newest synced mark; what lies beyond is being \
written, and the answer says \"live\".";

const DUMP_HELP: &str = "\
Columns: lsn, time (UTC), kind, database, key, then what the kind has: state, deadline, owner, fingerprint, \
sizes. A Transaction is one line per record in it.

Bytes that are no printable UTF-8 are written \\xNN, a backslash is doubled; --key and --prefix take the same form.

Examples:
  walctl dump /var/lib/idemd --key order:42 --values
  walctl dump /var/lib/idemd --prefix 'order:' --opcode 53 --json
  walctl dump /var/lib/idemd --from-time 2026-01-31T12:00:00+01:00 --values
  walctl dump /var/lib/idemd --from-lsn 4096 --to-lsn 8192 --frames

Exit codes:
  0  read to the end of the log or to the limit asked for; also when the pipe was closed
  1  wrong usage, an error, no log, or one that ends in something that is no end or has a part missing

A running server appends meanwhile, and removes what it no longer needs: new segments are read too, and what went \
before it was read is a note on stderr.

With damage, what is good before it is printed, and stderr has file, offset and lsn; walctl verify says what it is.";

/// Looks at the log of an idemd data directory, and changes nothing.
#[derive(Debug, Parser)]
#[command(name = "walctl", version, after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Writes shell completions or a man page to stdout.
    #[arg(long, value_name = "WHAT", hide = true, value_parser = Generate::parser())]
    pub(crate) generate: Option<Generate>,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Says what a start of the server would make of a data directory.
    #[command(after_help = VERIFY_HELP)]
    Verify(VerifyArgs),
    /// Prints the records of a log, one a line.
    #[command(after_help = DUMP_HELP)]
    Dump(DumpArgs),
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The data directory.
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,

    /// JSON Lines: one object a finding, and a last one with the verdict.
    #[arg(long)]
    pub(crate) json: bool,

    // Known, so that whoever asks for it is told that it was not done.
    #[arg(long, hide = true)]
    pub(crate) deep: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DumpArgs {
    /// The data directory.
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,

    /// Only records of this key.
    #[arg(long, value_name = "KEY", value_parser = parse::bytes, allow_hyphen_values = true)]
    pub(crate) key: Option<Bytes>,

    /// Only records of keys that begin like this.
    #[arg(long, value_name = "PREFIX", value_parser = parse::bytes, allow_hyphen_values = true)]
    pub(crate) prefix: Option<Bytes>,

    /// Only this kind of record: its number, or its name.
    #[arg(long, value_name = "N", value_parser = parse::opcode)]
    pub(crate) opcode: Option<Opcode>,

    /// Only records that change this database; FlushAll changes each.
    #[arg(long, value_name = "N")]
    pub(crate) db: Option<u8>,

    /// Only records at or after this position.
    #[arg(long, value_name = "LSN", value_parser = parse::lsn)]
    pub(crate) from_lsn: Option<Lsn>,

    /// Only records that begin before this position.
    #[arg(long, value_name = "LSN", value_parser = parse::lsn)]
    pub(crate) to_lsn: Option<Lsn>,

    /// Only records of this time or later: RFC 3339 with offset, or Unix milliseconds.
    #[arg(long, value_name = "TIME", value_parser = parse::time)]
    pub(crate) from_time: Option<UnixMs>,

    /// Only records of this time or earlier.
    #[arg(long, value_name = "TIME", value_parser = parse::time)]
    pub(crate) to_time: Option<UnixMs>,

    /// Also the values: strings, fields of hashes, stored results.
    #[arg(long)]
    pub(crate) values: bool,

    /// Also a line for each group commit, and the file and offset of each record.
    #[arg(long)]
    pub(crate) frames: bool,

    /// JSON Lines.
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent_and_every_help_has_examples() {
        let mut command = Cli::command();
        command.build();
        command.clone().debug_assert();
        let pages = std::iter::once(&command).chain(command.get_subcommands());
        for page in pages.filter(|page| page.get_name() != "help") {
            let help = page.clone().render_long_help().to_string();
            assert!(help.contains("Examples:"), "{}", page.get_name());
        }
    }
}
