//! The flags of `walctl history`.

use std::path::PathBuf;

use crate::parse::{self, Bytes};

const HELP: &str = "\
Events, in the order in which they happened:
  acquired, completed, aborted  BEGIN, COMPLETE and ABORT that did something; answers of conflict, pending, 0 or a stored \
result write nothing and are in no log
  expired                       the deadline; there is no record of it, and it is shown when the log's time has passed it
  set, overwritten              a string is stored; overwritten: a live IDEM record was lost by it
  fields_set, fields_removed    of a hash
  deadline, persisted           the key's end is changed, or taken away
  deleted, evicted, flushed     the key goes
  found                         the oldest valid snapshot has the key, and the kept log has nothing of it before

A note in parentheses says what a record cannot say itself: what it came after, and what was lost by it. \"though\" begins \
one that no server of this version writes in that state.

KEY is taken as it is printed: bytes that are no printable UTF-8 are \\xNN, a backslash is doubled. What a shell \
or a script hands over as other bytes is taken as these. Without --db it is looked for in every database.

Columns: lsn, time (UTC), event, database, then what the event has. JSON Lines have the fields of walctl dump, and \
\"event\", \"note\", and \"synthesised\" for what has no record; its lsn is that of the record by which the log's time had \
passed. They are the events only: what the key holds at the end is walctl replay DIR --key KEY --json.

Examples:
  walctl history /var/lib/idemd order:42
  walctl history /var/lib/idemd order:42 --db 0 --values
  walctl history /var/lib/idemd 'order:\\x0042' --json | jq -r '[.event, .owner] | @tsv'
  walctl history /var/lib/idemd order:42 --past-damage

Exit codes:
  0  read to the end of the log; also when nothing is known of the key (stderr says so), or the pipe was closed
  1  wrong usage, an error, no log, or one that ends in something that is no end or has a part missing: stderr says up to \
which lsn it was read
  4  with --past-damage: something was skipped
  9  with --past-damage: something was skipped that cannot be read

With damage, the events before it are shown. With --past-damage those after it are, too: what is good is read as walctl \
dump --past-damage reads it, each range that is skipped is a line on stderr, and from there on nothing is known of the key \
until a record says it.

The log is read from the oldest segment that is kept. When its beginning is not, stderr says so. Of a running server's log \
also what is written and not synced yet is shown; a power loss could take that back.";

/// See `--help`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The data directory.
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,

    /// The key.
    #[arg(value_name = "KEY", value_parser = parse::bytes(), allow_hyphen_values = true)]
    pub(crate) key: Bytes,

    /// Only in this database.
    #[arg(long, value_name = "N")]
    pub(crate) db: Option<u8>,

    /// Also the values: strings, fields of hashes, stored results.
    #[arg(long)]
    pub(crate) values: bool,

    /// Go on behind what is damaged.
    #[arg(long)]
    pub(crate) past_damage: bool,

    /// JSON Lines.
    #[arg(long)]
    pub(crate) json: bool,
}
