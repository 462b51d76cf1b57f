//! The flags of `walctl diff`.

use std::path::PathBuf;

const HELP: &str = "\
Compared are the records, byte for byte, over the range of positions that both logs hold. Groups, segments and \
snapshots are each node's own and do not count. A log that merely goes on where the other ends is no difference, unless \
--exact is given.

--json prints one object: {\"equal\":true,\"from_lsn\":…,\"to_lsn\":…}, or {\"equal\":false,\"first_lsn\":…,\"reason\":…} with \
the reason one of record, end, epoch, cluster, no_common_range, damage. With damage, \"same\" has the ranges that were \
compared and are equal.

Where one log is damaged, or a part of it is missing between what it keeps, the rest is compared all the same, with what is \
good behind it. Nothing is \"equal\" then: where no record differs, the answer is that place, and the exit code that of the \
verdict on the log with it.

Examples:
  walctl diff /var/lib/idemd /mnt/replica/idemd
  walctl diff --exact --json primary/ replica/

Exit codes:
  0  equal over the range that both hold; also when the pipe was closed
  1  wrong usage, or a directory cannot be opened
  4, 5, 6, 8, 9
     no difference in all that both hold, and one of them is damaged or has a part missing: the code of its verdict \
(walctl verify); below its snapshots, where no start reads, 4, 5 or 9
  7  they differ: in a record, in the epoch at one position, in the cluster, or they have no range in common; with \
--exact also when one goes on where the other ends

Directories that servers are using are read as far as they are written; whatever one of them removes meanwhile is left \
out, and the range that is printed says so. Bytes after the end of a log that a start would cut off are not compared, \
and are a note on stderr.";

/// See `--help`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// A data directory.
    #[arg(value_name = "A")]
    pub(crate) a: PathBuf,

    /// Another one.
    #[arg(value_name = "B")]
    pub(crate) b: PathBuf,

    /// Both have to end at the same position.
    #[arg(long)]
    pub(crate) exact: bool,

    /// One JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
