//! Attackers on one core, everybody else on the others.
//!
//! Without it most of what is measured is the scheduler: an attacker that copies megabytes into a socket holds its core for
//! milliseconds, and a bystander that was woken there waits. Where there is only one core, or it is not ours to choose,
//! nothing is moved, and the verdicts are only harder to pass.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The calling thread, from now on: with the attackers.
pub(super) fn become_attacker() {
    if let Some((attackers, _)) = split() {
        let _ = sched_setaffinity(None, &attackers);
    }
}

/// The calling thread, from now on: with the server.
pub(super) fn become_everybody() {
    if let Some((_, everybody)) = split() {
        let _ = sched_setaffinity(None, &everybody);
    }
}

/// Runs `start` among everybody else; processes and threads that it makes stay there. The calling thread comes back.
pub(super) fn as_everybody<T>(start: impl FnOnce() -> T) -> T {
    let before = sched_getaffinity(None);
    become_everybody();
    let result = start();
    if let Ok(before) = before {
        let _ = sched_setaffinity(None, &before);
    }
    result
}

/// The last of the cores that the process was given, and all others; `None` with fewer than two.
fn split() -> Option<(CpuSet, CpuSet)> {
    // The main thread's: a thread of ours may have been moved already.
    let pid = rustix::process::getpid();
    let mut everybody = sched_getaffinity(Some(pid)).ok()?;
    let last = (0..CpuSet::MAX_CPU).rev().find(|core| everybody.is_set(*core))?;
    everybody.unset(last);
    let mut attackers = CpuSet::new();
    attackers.set(last);
    (everybody.count() > 0).then_some((attackers, everybody))
}

#[cfg(test)]
mod tests {
    use rustix::thread::{CpuSet, sched_getaffinity};

    use super::{as_everybody, become_attacker};

    #[test]
    fn attackers_and_everybody_share_no_core() {
        let cores = || {
            let set = sched_getaffinity(None).unwrap();
            (0..CpuSet::MAX_CPU)
                .filter(|core| set.is_set(*core))
                .collect::<Vec<_>>()
        };
        let before = cores();
        if before.len() < 2 {
            return;
        }
        let everybody = as_everybody(cores);
        assert_eq!(cores(), before, "the caller is where it was");
        let attackers = std::thread::spawn(move || {
            become_attacker();
            cores()
        });
        let attackers = attackers.join().unwrap();
        assert_eq!(attackers.len(), 1);
        assert_eq!([everybody, attackers].concat(), before);
    }
}
