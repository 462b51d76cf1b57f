//! File descriptors: every client is one, and running out of them must not hit the log.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are not clients': segments, snapshots, the directory, the listener, the runtime's own.
const RESERVED: u64 = 64;

/// Raises the limit of open files for `maxclients` clients as far as it goes; how many clients it then allows.
pub(super) fn clients_allowed(maxclients: usize) -> usize {
    let wanted = u64::try_from(maxclients)
        .unwrap_or(u64::MAX)
        .saturating_add(RESERVED);
    let limit = getrlimit(Resource::Nofile);
    // No limit is `None`.
    if limit.current.is_none_or(|current| current >= wanted) {
        return maxclients;
    }
    let current = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    let raised = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(current),
            maximum: limit.maximum,
        },
    );
    let current = if raised.is_ok() {
        current
    } else {
        limit.current.unwrap_or(wanted)
    };
    let allowed = usize::try_from(current.saturating_sub(RESERVED))
        .unwrap_or(usize::MAX)
        .max(1);
    if allowed < maxclients {
        tracing::warn!(
            "maxclients is {allowed} instead of {maxclients}: this process may open only {current} files (ulimit -n)"
        );
    }
    allowed.min(maxclients)
}
