//! What the operating system says about this process; a number that cannot be read is 0.

/// Clock ticks a second in `/proc/self/stat`; fixed in the kernel's interface, whatever the machine.
const USER_HZ: f64 = 100.0;

/// Memory of this process, in bytes.
pub struct Memory {
    /// Given by the operating system now.
    pub resident: u64,
    /// The most ever.
    pub peak: u64,
}

/// Memory of this process.
pub fn memory() -> Memory {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    Memory {
        resident: kilobytes(&status, "VmRSS:"),
        peak: kilobytes(&status, "VmHWM:"),
    }
}

/// Memory of the machine, in bytes.
pub fn total_memory() -> u64 {
    kilobytes(
        &std::fs::read_to_string("/proc/meminfo").unwrap_or_default(),
        "MemTotal:",
    )
}

/// The bytes of a line such as `VmRSS:     1234 kB`.
fn kilobytes(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse::<u64>().ok());
    number.unwrap_or(0).saturating_mul(1024)
}

/// CPU seconds of this process: user, system.
pub fn cpu_seconds() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is the program's name in parentheses, and may hold blanks.
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let ticks = |index: usize| {
        fields
            .get(index)
            .and_then(|field| field.parse::<f64>().ok())
            .unwrap_or(0.0)
            / USER_HZ
    };
    (ticks(11), ticks(12))
}

/// Name, release and machine.
pub fn operating_system() -> String {
    let name = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    format!(
        "{} {} {}",
        text(name.sysname()),
        text(name.release()),
        text(name.machine())
    )
}

#[cfg(test)]
mod tests {
    use super::{cpu_seconds, kilobytes, memory};

    #[test]
    fn numbers_from_proc() {
        assert_eq!(kilobytes("Name:\tx\nVmRSS:\t   12 kB\n", "VmRSS:"), 12 * 1024);
        assert_eq!(kilobytes("", "VmRSS:"), 0);
        assert!(memory().resident > 0 && memory().peak >= memory().resident / 2);
        assert!(cpu_seconds().0 >= 0.0);
    }
}
