//! File descriptors: room for all clients and for the log, or fewer clients. What they are for is in
//! [`places`](crate::places).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::places::{Bounds, descriptors_allowed};

/// Raises the limit of open files for `maxclients` clients as far as it goes; how many clients it then allows, 1 or more.
pub(crate) fn clients_allowed(maxclients: usize) -> usize {
    raise(Bounds::descriptors_for(maxclients));
    let descriptors = descriptors_allowed();
    let allowed = Bounds::within(descriptors, maxclients).served;
    if allowed < maxclients {
        tracing::warn!(
            "maxclients is {allowed} instead of {maxclients}: this process may open only {descriptors} files (ulimit -n)"
        );
    }
    allowed
}

/// How many of `maxclients` clients [`clients_allowed`] would allow; raises nothing.
pub(crate) fn clients_possible(maxclients: usize) -> usize {
    let wanted = Bounds::descriptors_for(maxclients);
    let maximum = getrlimit(Resource::Nofile).maximum;
    let maximum = maximum.map_or(usize::MAX, |maximum| {
        usize::try_from(maximum).unwrap_or(usize::MAX)
    });
    let descriptors = descriptors_allowed().max(wanted.min(maximum));
    Bounds::within(descriptors, maxclients).served
}

fn raise(wanted: usize) {
    if descriptors_allowed() >= wanted {
        return;
    }
    let maximum = getrlimit(Resource::Nofile).maximum;
    let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
    // No limit is `None`. What cannot be raised is no error: fewer clients will do.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(maximum.map_or(wanted, |maximum| maximum.min(wanted))),
            maximum,
        },
    );
}
