//! `CLUSTER`, `ASKING`, `READONLY`, `READWRITE`: as a Redis answers them that runs without cluster mode. Cluster clients
//! take that for "one node, no slots" and go on.

use super::Decided;

const DISABLED: &str = "ERR This instance has cluster support disabled";

/// Any of them, with any subcommand that exists, HELP included.
pub(super) fn decide<'c, 'k>() -> Decided<'c, 'k> {
    Err(DISABLED.into())
}
