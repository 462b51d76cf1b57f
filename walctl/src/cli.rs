//! The command line. Each flag is defined once, with its command: help, man pages and completions are made of it.

use clap::{Parser, Subcommand};

use crate::cmd;
use crate::generate::Generate;

const EXAMPLES: &str = "\
Examples:
  walctl verify /var/lib/idemd
  walctl dump /var/lib/idemd --key order:42
  walctl dump /var/lib/idemd --json | jq 'select(.state == \"completed\")'

Data goes to stdout, everything else to stderr. NO_COLOR turns colours off.";

/// Looks at the log of an idemd data directory, restores and repairs; changes nothing unasked.
#[derive(Debug, Parser)]
#[command(name = "walctl", version, after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Writes shell completions, or the man page of walctl or of one of its commands, to stdout.
    #[arg(long, value_name = "WHAT", value_parser = Generate::parser())]
    pub(crate) generate: Option<Generate>,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Says what a start of the server would make of a data directory.
    Verify(cmd::verify::Args),
    /// Prints the records of a log, one a line.
    Dump(cmd::dump::Args),
    /// Tells one key's life, as far as the log is kept.
    History(cmd::history::Args),
    /// Says what a log is made of, in numbers.
    Stat(cmd::stat::Args),
    /// Says what a snapshot file holds, and whether it is a valid one.
    Snapshot(cmd::snapshot::Args),
    /// Rebuilds the state that a log stands for: totals, one key, or all of it in a file.
    Replay(cmd::replay::Args),
    /// Makes a new data directory with the state of an earlier position or time.
    Restore(cmd::restore::Args),
    /// Says whether two data directories hold the same records.
    Diff(cmd::diff::Args),
    /// Copies what is complete of a log to a place where its server does not remove it.
    Archive(cmd::archive::Args),
    /// Shows what can be done about a damaged data directory, and does it, with a backup.
    Repair(cmd::repair::Args),
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent_and_every_help_has_examples() {
        let mut command = Cli::command();
        command.build();
        command.clone().debug_assert();
        let pages = std::iter::once(&command).chain(command.get_subcommands());
        for page in pages.filter(|page| page.get_name() != "help") {
            let help = page.clone().render_long_help().to_string();
            assert!(help.contains("Examples:"), "{}", page.get_name());
        }
    }
}
