//! Which core runs what, and who has used how much of it.
//!
//! The server gets one core with all its threads, the generator another one. A child inherits the affinity of the thread
//! that starts it, so the calling thread takes the server's core for the moment of the start. A machine with one core
//! pins nothing, and the report says so.

use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use super::Failure;

/// The kernel counts CPU time in hundredths of a second, whatever the machine.
const TICK: Duration = Duration::from_millis(10);

/// A core each.
#[derive(Clone, Copy, Debug)]
pub struct Cores {
    /// Number of the server's core.
    pub server: usize,
    /// Number of the generator's core.
    pub generator: usize,
}

impl Cores {
    /// The first core that this process may use for the generator (where interrupts usually are), the last for the server.
    /// `None` when there is only one.
    pub fn choose() -> Result<Option<Cores>, Failure> {
        let allowed = sched_getaffinity(None).map_err(Failure::errno("asking for the cores"))?;
        let cores: Vec<usize> = (0..CpuSet::MAX_CPU)
            .filter(|core| allowed.is_set(*core))
            .collect();
        Ok(match cores.as_slice() {
            [generator, .., server] => Some(Cores {
                server: *server,
                generator: *generator,
            }),
            _ => None,
        })
    }
}

/// Moves the calling thread to a core for good; threads and processes that it starts follow.
pub fn move_to(core: usize) -> Result<(), Failure> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).map_err(Failure::errno(format_args!("moving to core {core}")))
}

/// Does something on the server's core, and goes back to the generator's, whatever became of it.
pub fn as_server<T>(cores: Option<Cores>, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let Some(cores) = cores else {
        return work();
    };
    move_to(cores.server)?;
    let done = work();
    move_to(cores.generator)?;
    done
}

/// CPU time of the calling thread.
pub fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// CPU time of a process with all its threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// Outside of the kernel.
    pub user: Duration,
    /// In the kernel.
    pub system: Duration,
}

impl Cpu {
    /// What `pid` has used since it was started.
    pub fn of(pid: u32) -> Result<Cpu, Failure> {
        let path = format!("/proc/{pid}/stat");
        let stat = std::fs::read_to_string(&path).map_err(Failure::io(&path))?;
        Cpu::parse(&stat).ok_or_else(|| Failure::new(format!("{path} cannot be understood: {stat}")))
    }

    fn parse(stat: &str) -> Option<Cpu> {
        // The second field is the program's name in parentheses, and may hold blanks.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_whitespace().skip(11);
        let mut ticks = || Some(TICK * fields.next()?.parse::<u32>().ok()?);
        Some(Cpu {
            user: ticks()?,
            system: ticks()?,
        })
    }

    /// What was used since `earlier`.
    pub fn since(self, earlier: Cpu) -> Cpu {
        Cpu {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }
}

/// What all cores together have done since the machine was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// For whatever process, and taken away by a hypervisor.
    busy: Duration,
    idle: Duration,
}

impl Machine {
    /// Until now.
    pub fn now() -> Result<Machine, Failure> {
        let path = "/proc/stat";
        let stat = std::fs::read_to_string(path).map_err(Failure::io(path))?;
        Machine::parse(&stat).ok_or_else(|| Failure::new(format!("{path} cannot be understood")))
    }

    fn parse(stat: &str) -> Option<Machine> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Option<Vec<Duration>> = line
            .split_whitespace()
            .map(|field| Some(TICK * field.parse::<u32>().ok()?))
            .collect();
        // user, nice, system, idle, waiting for disks, interrupts, soft interrupts, stolen; guests are in user already.
        match *ticks?.get(..8)? {
            [user, nice, system, idle, disk, hard, soft, stolen] => Some(Machine {
                busy: user + nice + system + hard + soft + stolen,
                idle: idle + disk,
            }),
            _ => None,
        }
    }

    /// The part of the cores' time since `earlier` that went to others than those who used `ours`.
    pub fn busy_share_since(self, earlier: Machine, ours: Duration) -> f64 {
        let busy = self.busy.saturating_sub(earlier.busy);
        let all = busy + self.idle.saturating_sub(earlier.idle);
        if all.is_zero() {
            return 0.0;
        }
        busy.saturating_sub(ours).as_secs_f64() / all.as_secs_f64()
    }
}

/// Resident bytes of a process.
pub fn resident_bytes(pid: u32) -> Result<u64, Failure> {
    let path = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&path).map_err(Failure::io(&path))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse::<u64>().ok())
        .map(|kilobytes| kilobytes * 1024)
        .ok_or_else(|| Failure::new(format!("{path} names no resident bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_blanks_and_parentheses_shifts_nothing() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 100 0 0 0 12 34 0 0 20 0 1 0 5 0 0";
        let cpu = Cpu::parse(stat).unwrap();
        assert_eq!(
            cpu,
            Cpu {
                user: Duration::from_millis(120),
                system: Duration::from_millis(340),
            }
        );
        assert_eq!(cpu.since(Cpu::default()), cpu);
        assert_eq!(Cpu::parse("7 (a) S 1"), None);
    }

    #[test]
    fn others_are_what_is_busy_and_not_ours() {
        let machine = |text: &str| Machine::parse(text).unwrap();
        let earlier = machine("cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 9 9 9 9 9 9 9 9 9 9\n");
        let later = machine("cpu  30 10 20 100 20 5 5 10 7 7\n");
        let share = later.busy_share_since(earlier, Duration::from_millis(300));
        assert!((share - 0.25).abs() < 1e-9, "{share}");
        assert_eq!(later.busy_share_since(later, Duration::ZERO), 0.0);
        assert_eq!(Machine::parse("cpu  1 2 3"), None);
    }

    #[test]
    fn this_process_is_known() {
        let pid = std::process::id();
        assert!(resident_bytes(pid).unwrap() > 1 << 16);
        Cpu::of(pid).unwrap();
        assert!(resident_bytes(0).is_err());
    }
}
