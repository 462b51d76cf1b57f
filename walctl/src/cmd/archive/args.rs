//! The flags of `walctl archive`.

use std::path::PathBuf;

use crate::args_common::{Consent, Form};

const HELP: &str = "\
Copied are segments that have a successor, and snapshots that end within them, each checked before it gets its name. \
The segment that is being written is copied once it is full: until then the store lags behind by up to one segment. What \
is archived already is left alone, so the same command can be run again at any time, also after it was interrupted; run it \
often enough that the server keeps a segment (wal-keep-bytes) until it was copied.

STORE holds one directory for each history, STORE/<cluster>-<node>-<first lsn>-<epoch>-<nonce>, with a manifest. A log \
that has another content at a position that was archived (after a repair or a failover) gets a directory of its own; so \
does one that goes on after a gap. Every command of walctl reads such a directory like a data directory, and a server \
refuses it. Nothing is ever removed from a store.

A gap is what a server removed before it was copied, because archive ran too seldom. Nothing can be done about it any \
more: the run that begins the new directory says both of its ends on stderr, and ends with 0. With --json the totals of \
every run have \"gap\" with \"from_lsn\" and \"to_lsn\"; --check says it each time, and ends with 5.

--json prints one object a file, and a last one with the totals; \"restorable\" is false while no snapshot is in the archive \
and the archived log does not begin at lsn 0. With --check, an object with \"finding\", \"file\" and \"remedy\" stands before \
it for each file that is not what was archived. The remedy is a command: where DIR has the file still, the one that copies \
it back.

Examples:
  walctl archive /var/lib/idemd --into /mnt/backup/idemd --dry-run
  walctl archive /var/lib/idemd --into /mnt/backup/idemd --yes
  walctl restore --from /mnt/backup/idemd --into /var/lib/idemd-new --to-time 2026-01-31T14:05:00+01:00
  walctl verify /mnt/backup/idemd/<history>

Exit codes:
  0  everything that is sealed is archived
  1  wrong usage, no consent, no space, or something could not be read or written; what was copied before stays good
  4  a segment is damaged, in its header or its records, or with --check an archived file
  5  a segment is missing in the middle, or with --check there is a gap between two histories of the store
  6  a segment is of another node than the one before it
  9  a segment's header cannot be read
With 4 to 9, stderr (and \"damage\" in the totals) names the file; everything that is sealed before it was copied, and \
nothing that follows.";

/// See `--help`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The data directory.
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,

    /// The store; made when it is missing.
    #[arg(long, value_name = "STORE")]
    pub(crate) into: PathBuf,

    /// Also reads what was archived before, and compares it with the checksums in the manifest.
    #[arg(long)]
    pub(crate) check: bool,

    #[command(flatten)]
    pub(crate) consent: Consent,

    #[command(flatten)]
    pub(crate) form: Form,
}
