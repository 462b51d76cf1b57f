//! The flags of `walctl replay`.

use std::path::PathBuf;

use idem_protocol::{Lsn, UnixMs};
use idem_wal::recovery::Until;

use crate::parse::{self, Bytes};

const HELP: &str = "\
The newest snapshot and the log after it are applied as a start of the server does it. For an earlier state an older \
snapshot is used, or the log from its beginning when it is all there: states reach back to the end of the older of the \
two snapshots that a server keeps, or to lsn 0. When nothing was written since the newest record, any time from then to now \
stands for the end of the log. What had ended at the log's time is not counted, \
shown or exported.

The digest depends on keys, values and deadlines only: two logs with the same state have the same digest.

Of a directory that a server is using, what a sync has covered is replayed.

With --json a refusal is an object, too: \"error\", and as far as they are known \"verdict\", \"letter\", \"end_lsn\" \
and \"ranges\", each with \"from_lsn\", \"from_time_ms\", \"to_lsn\", \"to_time_ms\".

Examples:
  walctl replay /var/lib/idemd
  walctl replay /var/lib/idemd --to-time 2026-01-31T14:05:00+01:00 --json
  walctl replay /var/lib/idemd --key order:42 --to-lsn 81920 --values
  walctl replay /var/lib/idemd --export state.jsonl

Exit codes:
  0  done; with --key also when there is no such key: stderr says so, and stdout has nothing
  1  wrong usage, an error, no log, or a target outside of it
  4  ROT, 5 HOLE, 6 FOREIGN, 8 BUG, 9 IO_ERROR: walctl verify says more. A target that lies wholly before the damage is \
replayed all the same, with a note on stderr and exit code 0.";

/// See `--help`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The data directory.
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,

    /// The state at this position: where a record ends and the next one begins.
    #[arg(long, value_name = "LSN", value_parser = parse::lsn)]
    pub(crate) to_lsn: Option<Lsn>,

    /// The state after the last record of this time or earlier: RFC 3339 with offset, or Unix milliseconds.
    #[arg(long, value_name = "TIME", value_parser = parse::time, conflicts_with = "to_lsn")]
    pub(crate) to_time: Option<UnixMs>,

    /// Prints what is under this key instead of the totals.
    #[arg(long, value_name = "KEY", value_parser = parse::bytes(), allow_hyphen_values = true)]
    pub(crate) key: Option<Bytes>,

    /// With --key: only in this database, instead of in each.
    #[arg(long, value_name = "N", requires = "key")]
    pub(crate) db: Option<u8>,

    /// With --key: also the value, the fields of a hash, or the stored result.
    #[arg(long, requires = "key")]
    pub(crate) values: bool,

    /// Also writes all live records to this file as JSON Lines, in no particular order.
    #[arg(long, value_name = "FILE", conflicts_with = "key")]
    pub(crate) export: Option<PathBuf>,

    /// With --export: replaces a file that exists.
    #[arg(long, requires = "export")]
    pub(crate) yes: bool,

    /// JSON Lines.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Args {
    /// The target.
    pub(super) fn until(&self) -> Until {
        match (self.to_lsn, self.to_time) {
            (Some(lsn), _) => Until::Lsn(lsn),
            (None, Some(time)) => Until::Time(time),
            (None, None) => Until::End,
        }
    }
}
