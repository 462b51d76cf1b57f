//! The flags of `walctl stat`.

use std::path::PathBuf;

use super::sketch::KEYS_KEPT;

fn help() -> String {
    format!(
        "\
A record is counted with its 24 bytes of header. A Transaction is one record; what is in it is counted under \"in \
transactions\" and, with all other changes of keys, under the databases.

Sizes and group sizes are counted in powers of two, times in steps that grow with the span of the log.

The largest keys are those with the most bytes written, whatever became of them. Memory is bounded: up to {KEYS_KEPT} \
different keys the numbers are exact. Beyond that they are least numbers, with a word on how much may be missing from \
each at most; a key is shown when it surely has more than that, and never missed when it has more than twice as much.

Examples:
  walctl stat /var/lib/idemd
  walctl stat /var/lib/idemd --top 50
  walctl stat /var/lib/idemd --json | jq '.by_opcode[\"53\"].records'

Exit codes:
  0  the whole log was counted; also when the pipe was closed
  1  wrong usage, an error, no log, or one that ends in something that is no end or has a part missing

It counts what is kept, from the oldest segment on, and of a running server's log also what is written and not synced yet. \
With damage, what is good before it is counted, and stderr has file, offset and lsn."
    )
}

/// See `--help`.
#[derive(Debug, clap::Args)]
#[command(after_help = help())]
pub(crate) struct Args {
    /// The data directory.
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,

    /// How many of the largest keys.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,

    /// One JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
