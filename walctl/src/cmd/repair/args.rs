//! The flags of `walctl repair`.

use std::path::PathBuf;

use super::plan::Kind;

const HELP: &str = "\
Without --plan it changes nothing: it prints the verdict, the plan that it proposes, what would be lost, and what the \
server's own verdict would be afterwards (found by judging the directory as it would be).

Plans:
  cut-tail     for TORN_TAIL and UNPROVEN_TAIL: what follows the log is overwritten with zeros, as a start of the \
server would do; nobody was told of it
  accept-loss  for ROT and BUG: the log ends before the damage, and everything after it goes, also what is undamaged; \
later segments, and snapshots that reach further, are moved away
  control      for a control file that is missing or damaged: a new one is made of the segments and snapshots, with a new \
node id (the segments' headers get it, too). It says \"follower of nobody\": a version that replicates has to be told \
before it takes writes

There is no plan for a missing segment, another cluster's or a newer version's files, or a disk that cannot be read: \
use a replica, a copy made with the server stopped, or walctl restore.

The backup is made and synced before anything is changed. It holds what is changed or removed, and undo.sh, which brings \
the directory back, in names, bytes, modes and links, as long as no server has started on it. It looks for room first, can \
be repeated when it was interrupted, and takes a directory that was moved away from its backup as its argument. Whole files are moved there \
and need no space on the same file system; what is overwritten is copied, except for zeros. Where there is no space for \
the copy, the bytes that it needs are named, and --backup can point to another file system.

The directory is locked while it is changed. A directory that a server is using is refused. From before the first change \
until after the last one a file repair.incomplete stands in it, with the path of the backup: no server starts beside it. A \
repair that was interrupted, by a crash or a loss of power, is finished (or, if nothing was changed yet, begun anew) by the \
same command again, with or without its --backup, or taken back by its undo.sh; without --plan both commands are shown. Of a \
directory in which a restore was interrupted, the command that finishes that is shown.

Where a plan loses something, and where there is none, the commands are shown that make a new directory instead: of the \
newest state that this one still gives, and of an archive of it, which is looked for beside the directory.

Examples:
  walctl repair /var/lib/idemd
  walctl repair /var/lib/idemd --plan accept-loss --dry-run
  walctl repair /var/lib/idemd --plan accept-loss --yes
  walctl repair /var/lib/idemd --plan cut-tail --backup /mnt/spare/idemd-backup
  sh /var/lib/idemd/backup-20260131T120000Z/undo.sh

Exit codes:
  0     nothing to repair; or repaired, and a server starts
  1     wrong usage, not confirmed, the directory is in use, or an error; what had been changed by then is said
  2-9   without --plan or with --dry-run: the verdict, as of walctl verify; after a repair: the verdict that is left";

/// See `--help`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The data directory.
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,

    /// Carries out this plan; it has to be the one that is proposed.
    #[arg(long, value_name = "PLAN", value_enum)]
    pub(crate) plan: Option<Kind>,

    /// With --plan: shows what it would do, and changes nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Where the backup goes: a new or empty directory, not in DIR/wal or DIR/snap [default: DIR/backup-TIME].
    #[arg(long, value_name = "DIR")]
    pub(crate) backup: Option<PathBuf>,

    /// Does not ask; needed where stdin is no terminal.
    #[arg(long)]
    pub(crate) yes: bool,

    /// JSON Lines: one object with the plan, and one with what became of it.
    #[arg(long)]
    pub(crate) json: bool,
}
