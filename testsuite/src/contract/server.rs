//! The real binary as a target.

use std::path::{Path, PathBuf};
use std::time::Duration;

use idem_protocol::resp::value::Value;

use super::run::{Connection, Target};
use crate::process::{Client, Idemd, IdemdOptions};

/// A server that a restart kills with SIGKILL and starts again on the same directory.
#[derive(Debug)]
pub struct ServerTarget {
    dir: PathBuf,
    options: IdemdOptions,
    server: Option<Idemd>,
}

impl ServerTarget {
    /// Starts it.
    pub fn start(dir: &Path, options: IdemdOptions) -> ServerTarget {
        let server = Some(Idemd::start(dir, &options));
        ServerTarget {
            dir: dir.to_owned(),
            options,
            server,
        }
    }

    fn server(&self) -> &Idemd {
        self.server.as_ref().expect("it runs except within a restart")
    }
}

impl Connection for Client {
    fn send(&mut self, args: &[&[u8]]) -> Result<(), String> {
        Client::send(self, args).map_err(|error| error.to_string())
    }

    fn receive(&mut self) -> Result<Value, String> {
        Client::receive(self).map_err(|error| error.to_string())
    }
}

impl Target for ServerTarget {
    type Connection = Client;

    fn connect(&mut self) -> Client {
        self.server().client()
    }

    fn idle(&mut self, time: Duration) {
        std::thread::sleep(time);
    }

    fn restart(&mut self) {
        self.server().sigkill();
        self.server = None;
        self.server = Some(Idemd::start(&self.dir, &self.options));
    }
}
