//! Flags that mean the same in several commands.

/// Of a command that writes: whether it asks, and whether it writes at all.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Consent {
    /// Shows what would be written, and writes nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Does not ask. Needed without a terminal.
    #[arg(long)]
    pub(crate) yes: bool,
}

/// What is printed, and for whom.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Form {
    /// JSON Lines. What goes wrong is an object with "error".
    #[arg(long)]
    pub(crate) json: bool,
}
