//! The flags of `walctl verify`.

use std::path::PathBuf;

const HELP: &str = "\
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

    // Known, so that whoever asks for it is told that it was not done.
    #[arg(long, hide = true)]
    pub(crate) deep: bool,
}
