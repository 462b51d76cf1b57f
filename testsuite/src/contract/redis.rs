//! A real `redis-server` as a target, so that what is Redis's own is compared with Redis and not with our memory of it.
//!
//! The process is private: its own directory, a port of the loopback that was free a moment before, no files. It cannot be
//! told to take port 0 and say what it got, so a port is looked for and the start is tried again when somebody else was
//! quicker; that the answers come from our own child is asked of it (`process_id`).

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::case::Scope;
use super::run::Target;
use crate::process::Client;
use crate::process::kill::Process;

/// How long a start may take.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Between two tries to connect: Redis says that it is ready on its log only.
const START_POLL: Duration = Duration::from_millis(10);
/// Ports tried before the start counts as failed.
const PORTS: usize = 8;

/// A running server. It keeps nothing: a restart begins with empty databases.
#[derive(Debug)]
pub struct RedisTarget {
    dir: PathBuf,
    address: SocketAddr,
    version: (u32, u32),
    /// Killed by its id when this is dropped.
    _process: Process,
}

impl RedisTarget {
    /// Starts the `redis-server` of the path, its directory below `dir`. The error says that there is none; one that does
    /// not start fails the test.
    pub fn start(dir: &Path) -> Result<RedisTarget, String> {
        let found = Command::new("redis-server")
            .arg("--version")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match found {
            Ok(status) if status.success() => Ok(Self::launch(dir)),
            Ok(status) => Err(format!("redis-server --version ended with {status}")),
            Err(error) => Err(format!(
                "redis-server is not here ({error}); apt-get install redis-server"
            )),
        }
    }

    /// Major and minor number of its version.
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn launch(dir: &Path) -> RedisTarget {
        std::fs::create_dir_all(dir).expect("a test can make a directory in its own");
        for _ in 0..PORTS {
            if let Some(target) = Self::try_port(dir, free_port()) {
                return target;
            }
        }
        panic!("redis-server did not start on any of {PORTS} ports that were free");
    }

    /// `None` when the server ended at once, as it does when the port has been taken meanwhile.
    fn try_port(dir: &Path, port: u16) -> Option<RedisTarget> {
        let mut command = Command::new("redis-server");
        command
            .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--dir"])
            .arg(dir)
            // The value limit of idemd by default, so that it is met at the same size.
            .args(["--save", "", "--appendonly", "no", "--proto-max-bulk-len", "16mb"])
            .args(["--daemonize", "no", "--loglevel", "warning"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let process = Process::new(child);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let end = Instant::now() + START_TIMEOUT;
        while Instant::now() < end {
            if let Some(info) = server_info(address)
                && number(&info, "process_id:") == Some(process.pid())
            {
                let version = version(&info).unwrap_or_else(|| panic!("no version in {info}"));
                return Some(RedisTarget {
                    dir: dir.to_owned(),
                    address,
                    version,
                    _process: process,
                });
            }
            if process.wait_exit(START_POLL).is_some() {
                return None;
            }
        }
        panic!("redis-server does not answer on {address}");
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("the loopback has a free port");
    let address = listener.local_addr();
    address.expect("a bound listener has an address").port()
}

/// What whoever listens there says of itself; `None` while nobody does.
fn server_info(address: SocketAddr) -> Option<String> {
    let mut client = Client::connect(address).ok()?;
    let info = client.call(&[b"INFO", b"server"]).ok()?;
    Some(String::from_utf8_lossy(info.as_bytes()?).into_owned())
}

fn number(info: &str, name: &str) -> Option<u32> {
    info.lines()
        .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

fn version(info: &str) -> Option<(u32, u32)> {
    let text = info
        .lines()
        .find_map(|line| line.strip_prefix("redis_version:"))?;
    let mut numbers = text.split('.').map_while(|part| part.trim().parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

impl Target for RedisTarget {
    type Connection = Client;

    fn connect(&mut self) -> Client {
        Client::connect(self.address)
            .unwrap_or_else(|error| panic!("no connection to {}: {error}", self.address))
    }

    fn idle(&mut self, time: Duration) {
        std::thread::sleep(time);
    }

    fn restart(&mut self) {
        *self = Self::launch(&self.dir);
    }

    fn plays(&self, scope: &Scope) -> bool {
        match scope {
            Scope::Everywhere => true,
            Scope::OursOnly(_) => false,
            Scope::RedisFrom(first, _) => self.version >= *first,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{number, version};

    #[test]
    fn version_and_process_are_read_from_info() {
        let info = "# Server\r\nredis_version:7.0.15\r\nprocess_id:1234\r\n";
        assert_eq!(version(info), Some((7, 0)));
        assert_eq!(number(info, "process_id:"), Some(1234));
        assert_eq!(version("redis_version:7\r\n"), None);
        assert_eq!(number(info, "tcp_port:"), None);
    }
}
