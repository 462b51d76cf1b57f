//! A child process whose end can be awaited with a bound, and that is signalled only while it is ours.
//!
//! The standard library cannot wait with a timeout. A thread waits instead, *without* reaping: the pid stays taken until
//! the lock is held, so that no signal can ever hit a stranger that got the same number.

use std::process::{Child, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// A running or ended child. Dropping it kills it and waits for its end.
#[derive(Debug)]
pub struct Process {
    pid: Pid,
    end: Arc<(Mutex<Option<ExitStatus>>, Condvar)>,
}

impl Process {
    /// Takes over a child that was just started.
    pub fn new(mut child: Child) -> Process {
        let pid = Pid::from_child(&child);
        let end = Arc::new((Mutex::new(None), Condvar::new()));
        let shared = Arc::clone(&end);
        std::thread::spawn(move || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while matches!(waitid(WaitId::Pid(pid), options), Err(rustix::io::Errno::INTR)) {}
            let (status, changed) = &*shared;
            let mut status = lock(status);
            *status = Some(child.wait().expect("an ended child can be reaped once"));
            changed.notify_all();
        });
        Process { pid, end }
    }

    /// The process id, as `/proc` and strace want it.
    pub fn pid(&self) -> u32 {
        u32::try_from(self.pid.as_raw_pid()).expect("a process id is positive")
    }

    /// Sends a signal; nothing happens when the process has ended.
    pub fn signal(&self, signal: Signal) {
        let status = lock(&self.end.0);
        if status.is_none() {
            // It can have ended since: its number is still taken, and a zombie takes any signal.
            kill_process(self.pid, signal).expect("a child takes signals from its parent");
        }
    }

    /// How the process ended; `None` when it still runs after `timeout`.
    pub fn wait_exit(&self, timeout: Duration) -> Option<ExitStatus> {
        let end = Instant::now() + timeout;
        let mut status = lock(&self.end.0);
        while status.is_none() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            status = self
                .end
                .1
                .wait_timeout(status, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        *status
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        // The directory of the test is removed next; nobody may still write into it.
        self.wait_exit(Duration::from_secs(10));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;
    use std::time::Duration;

    use rustix::process::Signal;

    use super::Process;

    #[test]
    fn an_end_is_seen_and_a_signal_after_it_is_nothing() {
        let process = Process::new(Command::new("true").spawn().unwrap());
        assert!(process.wait_exit(Duration::from_secs(10)).unwrap().success());
        process.signal(Signal::KILL);
        assert!(process.wait_exit(Duration::ZERO).unwrap().success());
    }

    #[test]
    fn waiting_is_bounded_and_killing_ends_it() {
        let process = Process::new(Command::new("sleep").arg("60").spawn().unwrap());
        assert_eq!(process.wait_exit(Duration::from_millis(10)), None);
        process.signal(Signal::KILL);
        assert_eq!(
            process.wait_exit(Duration::from_secs(10)).unwrap().signal(),
            Some(9)
        );
    }
}
