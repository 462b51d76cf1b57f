//! The two servers under comparison, started alike: on the server's core, on a free port of the loopback, in directories
//! of their own on one file system, with the same policy, and without rewriting or snapshots that nobody asked for.
//!
//! A server is killed when its value goes away. Should the benchmark itself be killed, the kernel kills the servers
//! (`setpriv --pdeathsig`, where it is installed).

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use idem_protocol::resp::value::Value;

use super::Failure;
use super::pin::{self, Cores, Cpu};
use super::scripts::Scripts;
use super::wire::Dialect;
use crate::process::kill::Process;
use crate::process::{Client, Idemd, IdemdOptions, Policy};

/// How long a start, a stop and the making of spares may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum System {
    /// Ours.
    Idemd,
    /// `redis-server`.
    Redis,
}

impl System {
    /// Both.
    pub const BOTH: [System; 2] = [System::Idemd, System::Redis];

    /// Both, in the order of a round: who is first changes.
    pub fn in_turns(round: usize) -> [System; 2] {
        let [one, two] = System::BOTH;
        if round.is_multiple_of(2) {
            [one, two]
        } else {
            [two, one]
        }
    }

    /// As tables spell it.
    pub fn word(self) -> &'static str {
        match self {
            System::Idemd => "idemd",
            System::Redis => "redis",
        }
    }
}

/// Where executables are and servers run.
#[derive(Clone, Debug)]
pub struct Site {
    /// `idemd`.
    pub idemd: PathBuf,
    /// `walctl`.
    pub walctl: PathBuf,
    /// `redis-server`.
    pub redis: PathBuf,
    /// Below it each server gets a directory.
    pub root: PathBuf,
    /// A core each, unless there is only one.
    pub cores: Option<Cores>,
}

/// A server that answers.
#[derive(Debug)]
pub struct Server {
    running: Running,
    address: SocketAddr,
    /// The directory that holds everything it writes.
    dir: PathBuf,
    dialect: Dialect,
    /// From the start of the process until it answered: it has read all of its log.
    pub started_in: Duration,
}

#[derive(Debug)]
enum Running {
    Idemd(Idemd),
    Redis(Process),
}

impl Server {
    /// Starts a server in `dir`, which is empty, or one that this server left.
    pub fn start(site: &Site, system: System, policy: Policy, dir: &Path) -> Result<Server, Failure> {
        std::fs::create_dir_all(dir).map_err(Failure::io(dir.display()))?;
        let begun = Instant::now();
        let (running, address) = pin::as_server(site.cores, || match system {
            System::Idemd => start_idemd(site, policy, dir),
            System::Redis => start_redis(site, policy, dir),
        })?;
        let started_in = begun.elapsed();
        let mut client = connect(address)?;
        let dialect = match system {
            System::Idemd => Dialect::Idem,
            System::Redis => Dialect::Scripts(Scripts::load(&mut client)?),
        };
        Ok(Server {
            running,
            address,
            dir: dir.to_owned(),
            dialect,
            started_in,
        })
    }

    /// Which one it is.
    pub fn system(&self) -> System {
        match self.running {
            Running::Idemd(_) => System::Idemd,
            Running::Redis(_) => System::Redis,
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How it wants to be asked.
    pub fn dialect(&self) -> &Dialect {
        &self.dialect
    }

    /// What it writes is below this.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A connection for questions beside the measurement.
    pub fn client(&self) -> Result<Client, Failure> {
        connect(self.address)
    }

    /// CPU time since the start.
    pub fn cpu(&self) -> Result<Cpu, Failure> {
        Cpu::of(self.pid())
    }

    /// Bytes of memory that the system gave it.
    pub fn resident_bytes(&self) -> Result<u64, Failure> {
        pin::resident_bytes(self.pid())
    }

    fn pid(&self) -> u32 {
        match &self.running {
            Running::Idemd(server) => server.pid(),
            Running::Redis(process) => process.pid(),
        }
    }

    /// Waits until the server has nothing to do but to serve: idemd makes two spare files in the first seconds of its life.
    pub fn settle(&self) -> Result<(), Failure> {
        let Running::Idemd(_) = self.running else {
            return Ok(());
        };
        let end = Instant::now() + PATIENCE;
        let wal = self.dir.join("wal");
        loop {
            let names = std::fs::read_dir(&wal).map_err(Failure::io(wal.display()))?;
            let spares = names
                .filter_map(Result::ok)
                .filter(|entry| entry.file_name().to_string_lossy().starts_with("spare-"))
                .count();
            if spares >= 2 {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(Failure::new("idemd makes no spare segments"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// SIGKILL, and its end awaited.
    pub fn kill(self) {
        drop(self.running);
    }

    /// The same, and its directory goes.
    pub fn kill_and_remove(self) -> Result<(), Failure> {
        let dir = self.dir.clone();
        self.kill();
        std::fs::remove_dir_all(&dir).map_err(Failure::io(dir.display()))
    }
}

/// A number that INFO names.
pub fn info(client: &mut Client, name: &str) -> Result<f64, Failure> {
    let text = info_text(client, name)?;
    text.parse()
        .map_err(|_| Failure::new(format!("INFO: {name} is `{text}` and no number")))
}

/// What INFO says about a name.
pub fn info_text(client: &mut Client, name: &str) -> Result<String, Failure> {
    let text = match client.call(&[b"INFO"]) {
        Ok(Value::Bulk(text)) => text,
        other => return Err(Failure::new(format!("INFO was answered with {other:?}"))),
    };
    let text = String::from_utf8_lossy(&text);
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(|value| value.trim_end().to_owned())
        .ok_or_else(|| Failure::new(format!("INFO has no {name}")))
}

fn connect(address: SocketAddr) -> Result<Client, Failure> {
    let mut client = Client::connect(address).map_err(Failure::io("connecting"))?;
    client.set_timeout(PATIENCE);
    Ok(client)
}

/// A program that `exec`s the next words and asks the kernel to kill them with their parent; nothing where it is not
/// installed.
fn bound_to_us() -> Vec<OsString> {
    let there = Command::new("setpriv")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    let words: &[&str] = if there {
        &["setpriv", "--pdeathsig", "KILL", "--"]
    } else {
        &[]
    };
    words.iter().map(OsString::from).collect()
}

fn start_idemd(site: &Site, policy: Policy, dir: &Path) -> Result<(Running, SocketAddr), Failure> {
    let options = IdemdOptions::of(&site.idemd)
        .through(bound_to_us())
        .policy(policy)
        // As Redis is told to rewrite nothing: a snapshot comes when the benchmark asks for one.
        .option("snapshot-wal-bytes", "1000gb");
    let server = Idemd::try_start(dir, &options).map_err(|failure| {
        let (status, said) = (failure.code(), failure.stderr);
        Failure::new(format!("idemd did not get ready (exit {status}): {said}"))
    })?;
    let address = server.address();
    Ok((Running::Idemd(server), address))
}

fn start_redis(site: &Site, policy: Policy, dir: &Path) -> Result<(Running, SocketAddr), Failure> {
    // Redis has no way to ask for any free port. Somebody else can take this one meanwhile; then the next try gets another.
    let mut tries = 3;
    loop {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| listener.local_addr())
            .map_err(Failure::io("looking for a free port"))?;
        match try_redis(site, policy, dir, port) {
            Ok(process) => return Ok((Running::Redis(process), port)),
            Err(failure) if tries == 0 => return Err(failure),
            Err(_) => tries -= 1,
        }
    }
}

fn try_redis(site: &Site, policy: Policy, dir: &Path, address: SocketAddr) -> Result<Process, Failure> {
    let mut words = bound_to_us();
    words.push(site.redis.clone().into());
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .args(["--bind", "127.0.0.1", "--port", &address.port().to_string()])
        .arg("--dir")
        .arg(dir)
        .args(["--appendonly", "yes", "--appendfsync", policy.word()])
        .args(["--save", "", "--auto-aof-rewrite-percentage", "0"])
        .arg("--logfile")
        .arg(dir.join("redis.log"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = command
        .spawn()
        .map_err(Failure::io(format_args!("starting {}", site.redis.display())))?;
    let process = Process::new(child);
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(status) = process.wait_exit(Duration::from_millis(2)) {
            let log = std::fs::read_to_string(dir.join("redis.log")).unwrap_or_default();
            let last = log.lines().last().unwrap_or_default();
            return Err(Failure::new(format!("redis-server ended ({status}): {last}")));
        }
        let Ok(mut client) = Client::connect(address) else {
            continue;
        };
        // While it loads, it answers PING with an error.
        if let Ok(Value::Simple(_)) = client.call(&[b"PING"]) {
            // A stranger can have taken the port, and ours is about to end because of that.
            if info_text(&mut client, "process_id")? == process.pid().to_string() {
                return Ok(process);
            }
            return Err(Failure::new(format!("{address} is another server")));
        }
    }
    Err(Failure::new("redis-server does not get ready"))
}
