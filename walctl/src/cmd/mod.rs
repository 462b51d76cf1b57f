//! The commands, one file (or folder) each. A command gets its part of the command line, looks at a directory through
//! [`View`](crate::view::View), prints, and answers with the exit code.

pub(crate) mod archive;
pub(crate) mod diff;
pub(crate) mod dump;
pub(crate) mod history;
pub(crate) mod repair;
pub(crate) mod replay;
pub(crate) mod restore;
pub(crate) mod snapshot;
pub(crate) mod stat;
pub(crate) mod verify;
