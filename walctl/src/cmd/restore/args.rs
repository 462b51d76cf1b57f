//! The flags of `walctl restore`.

use std::path::PathBuf;

use idem_protocol::{Lsn, UnixMs};
use idem_wal::recovery::Until;

use crate::args_common::{Consent, Form};
use crate::exit::Failure;
use crate::parse;
use crate::store;

const HELP: &str = "\
The new directory has a node of its own, a new cluster and an epoch above all of the old ones, so that the two logs are \
never taken for one another. It holds a snapshot of the state and a log that goes on from there; idemd starts with it. \
DIR is only read, and may be in use by a server.

A time stands for the last record of that time or earlier, whose lsn is printed; walctl replay shows what the state is. \
When nothing was written since the newest record, any time from then to now stands for the end of the log. Keys whose \
deadline has come since then end when the new directory is started: deadlines are moments, not durations.

How far back: to the end of the older of the two snapshots that a server keeps. A snapshot is written while the log goes on \
and is a state only at its end (and needs the log from its start, unless nothing was written meanwhile). wal-keep-bytes \
keeps log, not snapshots: it reaches further back only while lsn 0 is still there, which is also the only log of which --to-lsn 0 is a state. Whoever needs more runs walctl archive \
and restores --from STORE. The last millisecond of a store is not known to be complete: all of it is --to-lsn with its end. \
A target outside is refused with the range of lsns and times that there is; of a damaged log, \
with the last position that can be had.

Nothing is in NEW that a server would start with until everything is on disk. What an interrupted restore left there is \
removed by the next one; NEW/restore.incomplete holds the command, which walctl repair NEW shows, too. The bytes that NEW \
takes up at first are printed with --dry-run, and named where they are not free.

With --json a refusal is an object, too: \"error\", and as far as they are known \"verdict\", \"letter\", \"end_lsn\" \
and \"ranges\", each with \"from_lsn\", \"from_time_ms\", \"to_lsn\", \"to_time_ms\".

Examples:
  walctl restore /var/lib/idemd --into /var/lib/idemd-1405 --to-time 2026-01-31T14:05:00+01:00
  walctl restore /var/lib/idemd --into /srv/new --to-lsn 81920 --dry-run
  walctl restore --from /mnt/backup/idemd --into /srv/new --to-time 2026-01-31T14:05:00+01:00
  walctl restore /backup/idemd --into /var/lib/idemd --to-lsn 81920 --same-cluster --yes --json

Exit codes:
  0  done, or shown with --dry-run
  1  wrong usage, not confirmed, no space or another error, no log, a target outside of it, or NEW is not empty; also \
when NEW is complete and only the report could not be printed, which stderr says
  4  ROT, 5 HOLE, 6 FOREIGN, 8 BUG, 9 IO_ERROR: walctl verify says more. A target that lies wholly before the damage is \
restored all the same, with a note on stderr.";

/// See `--help`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
#[command(group = clap::ArgGroup::new("target").required(true))]
pub(crate) struct Args {
    /// The data directory.
    #[arg(value_name = "DIR", required_unless_present = "from")]
    pub(crate) dir: Option<PathBuf>,

    /// Instead of DIR: what walctl archive made, or one history in it when there are several.
    #[arg(long, value_name = "STORE", conflicts_with = "dir")]
    pub(crate) from: Option<PathBuf>,

    /// The new data directory: absent, or empty.
    #[arg(long, value_name = "NEW")]
    pub(crate) into: PathBuf,

    /// The state at this position: where a record ends and the next one begins.
    #[arg(long, value_name = "LSN", value_parser = parse::lsn, group = "target")]
    pub(crate) to_lsn: Option<Lsn>,

    /// The state after the last record of this time or earlier: RFC 3339 with offset, or Unix milliseconds.
    #[arg(long, value_name = "TIME", value_parser = parse::time, group = "target")]
    pub(crate) to_time: Option<UnixMs>,

    /// Keeps the cluster of DIR. Only when DIR and all that knew it are gone for good.
    #[arg(long)]
    pub(crate) same_cluster: bool,

    #[command(flatten)]
    pub(crate) consent: Consent,

    #[command(flatten)]
    pub(crate) form: Form,
}

impl Args {
    /// The directory to read.
    pub(super) fn source(&self) -> Result<PathBuf, Failure> {
        match (&self.from, &self.dir) {
            (Some(store), _) => store::resolve(store),
            (None, Some(dir)) => Ok(dir.clone()),
            (None, None) => Err(Failure::usage("a data directory is needed, or --from")),
        }
    }

    /// The target.
    pub(super) fn until(&self) -> Until {
        match (self.to_lsn, self.to_time) {
            (Some(lsn), _) => Until::Lsn(lsn),
            (None, Some(time)) => Until::Time(time),
            // The group has one of the two.
            (None, None) => Until::End,
        }
    }
}
