//! The flags of `walctl snapshot`.

use std::path::PathBuf;

const HELP: &str = "\
The whole file is read: header, items, trailer, the counts in it, and the checksum over all of it. Whether it belongs to \
the log beside it is for walctl verify. The name is looked at when it is that of a snapshot (20 digits and .snap): a \
server goes by it. A file of any other name is read as well.

With --items, an item is a line as walctl dump has it. An item's lsn and time are those of the log's end when it was \
written. Items are printed as they are read: of a damaged file, those before the damage.

Examples:
  walctl snapshot /var/lib/idemd/snap/00000000000000004096.snap
  walctl snapshot /backup/monday.snap --json
  walctl snapshot /backup/monday.snap --items --json | jq -r 'select(.db == 3) | .key'

Exit codes:
  0  valid; also when the pipe was closed
  1  wrong usage, or FILE cannot be opened, or is a control file, a segment or a directory: stderr says so
  4  damaged: what and where is the answer
  6  written by a newer version
  9  a read failed

JSON Lines: the items, when they are asked for, and last one object with \"valid\".";

/// See `--help`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The snapshot; it need not be in a data directory.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Also the items, one a line.
    #[arg(long)]
    pub(crate) items: bool,

    /// The items with their values: strings, fields of hashes.
    #[arg(long, requires = "items")]
    pub(crate) values: bool,

    /// JSON Lines.
    #[arg(long)]
    pub(crate) json: bool,
}
