//! A process as `/proc` shows it, and how many files this one may open.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Reads of one process.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    pid: u32,
}

impl Probe {
    /// Of the process with this id, which belongs to the same user.
    pub fn new(pid: u32) -> Probe {
        Probe { pid }
    }

    /// Resident bytes now.
    pub fn resident_bytes(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// The most resident bytes since [`Probe::reset_peak`].
    pub fn peak_bytes(&self) -> u64 {
        self.status("VmHWM:")
    }

    /// The highest value begins again with the present one.
    pub fn reset_peak(&self) {
        // 5 is the kernel's number for exactly this.
        fs::write(format!("/proc/{}/clear_refs", self.pid), "5")
            .expect("a process of one's own can be told to forget its peak");
    }

    /// Open descriptors.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid))
            .expect("a process of one's own shows its descriptors")
            .count()
    }

    fn status(&self, name: &str) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid)).expect("the process is there");
        let kib = text.lines().find_map(|line| {
            line.strip_prefix(name)?
                .split_whitespace()
                .next()?
                .parse::<u64>()
                .ok()
        });
        kib.unwrap_or_else(|| panic!("no {name} in {text}")) * 1024
    }
}

/// How many files this process may open, after it was allowed as many as it may be; its children inherit this.
pub fn open_files_allowed() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let all = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        // Refused or not, what counts is asked for below.
        let _ = setrlimit(Resource::Nofile, all);
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::Probe;

    #[test]
    fn a_process_sees_itself_grow() {
        let probe = Probe::new(std::process::id());
        probe.reset_peak();
        let before = probe.peak_bytes();
        let grown = vec![1_u8; 32 << 20];
        assert!(probe.resident_bytes() >= before + (24 << 20));
        drop(std::hint::black_box(grown));
        assert!(probe.peak_bytes() >= before + (24 << 20));
        assert!(probe.descriptors() >= 3);
    }
}
