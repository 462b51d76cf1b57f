//! The flags of `walctl verify`.

use std::path::PathBuf;

const HELP: &str = "\
Examples:
  walctl verify /var/lib/idemd
  walctl verify --json /var/lib/idemd | tail -n 1
  walctl verify --deep /var/lib/idemd

Exit codes:
  0  CLEAN, or NEW: there is no log yet, and a server would make one
  1  wrong usage, or DIR cannot be opened
  2  TORN_TAIL      the end was never promised; a start cuts it off
  3  UNPROVEN_TAIL  junk at the end that nothing vouches for or against; a start cuts it off and warns
  4  ROT            something that was promised is gone; a server refuses to start
  5  HOLE           a file is missing or short; refused
  6  FOREIGN        a newer format, another node's or another cluster's; refused
  8  BUG            undamaged and impossible; refused. Also when --deep finds something, whatever the verdict, which \
stays what it is: a server starts all the same
  9  IO_ERROR       a read failed; refused

A directory that a server is using is judged as far as its newest synced mark; what lies beyond is being \
written, and the answer says \"live\".

Log below the snapshot that a start uses is not read by a start, and not judged; the table of segments says so. --deep \
reads it, and names each damage with file, offset, lsn and checksums as a finding beside the verdict, which changes no exit \
code: only a restore to an earlier moment needs that log. walctl archive, dump and stat end with an error there.

A history in a store (walctl archive) is judged like a data directory; what checks its files against their checksums is \
walctl archive DIR --into STORE --check.

--deep also replays the log that is kept, and needs the memory that a server needs for the same keys. A pending record only \
where nothing lives, completed or aborted only what is pending, by the same fingerprint and owner, with the same deadline: \
each record that breaks this is a finding with its kind (begun_while_live, completed_without_pending, completed_twice, \
aborted_without_pending, deadline_changed, deadline_out_of_bounds). So is a snapshot that is not the state that the log \
makes of its end (snapshot_differs). A hundred findings are shown, all are counted. What lies before the end of the oldest \
snapshot is not judged, unless the log is kept from lsn 0 on. Only records of IDEM are judged: SET, DEL or EXPIRE may do to \
a key what they like.";

/// See `--help`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The data directory.
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,

    /// JSON Lines: one object a finding, and a last one with the verdict.
    #[arg(long)]
    pub(crate) json: bool,

    /// Also replays the log: the life of each IDEM key, and snapshots against the log; and reads the log that is not judged.
    #[arg(long)]
    pub(crate) deep: bool,
}
