//! What a connection has said about itself.
//!
//! A decision never changes a session: it names a [`SessionChange`], and the node carries it out together with the
//! reply. A command that has to wait for log space has therefore not half changed its connection.

use idem_protocol::resp::Protocol;

/// The state of one connection, as far as commands see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// Unique within the process; `CLIENT ID` answers it.
    pub id: u64,
    /// The selected database.
    pub db: u8,
    /// What replies are encoded in.
    pub protocol: Protocol,
    /// `CLIENT SETNAME`; empty = none.
    pub name: Vec<u8>,
    /// `CLIENT SETINFO LIB-NAME`.
    pub library_name: Vec<u8>,
    /// `CLIENT SETINFO LIB-VER`.
    pub library_version: Vec<u8>,
    /// Whether this connection may use DEBUG. The server decides it, from its configuration and where the client is.
    pub may_debug: bool,
    /// Commands answered on this connection.
    pub commands: u64,
}

impl Session {
    /// A new connection: database 0, RESP2, no name.
    pub fn new(id: u64) -> Self {
        Session {
            id,
            ..Session::default()
        }
    }

    pub(crate) fn change(&mut self, change: SessionChange<'_>) {
        match change {
            SessionChange::None => {}
            SessionChange::Select(db) => self.db = db,
            SessionChange::Hello { protocol, name } => {
                self.protocol = protocol;
                if let Some(name) = name {
                    replace(&mut self.name, name);
                }
            }
            SessionChange::Reset => {
                self.db = 0;
                self.protocol = Protocol::default();
                self.name.clear();
            }
            SessionChange::Name(name) => replace(&mut self.name, name),
            SessionChange::LibraryName(name) => replace(&mut self.library_name, name),
            SessionChange::LibraryVersion(version) => replace(&mut self.library_version, version),
        }
    }
}

fn replace(field: &mut Vec<u8>, value: &[u8]) {
    field.clear();
    field.extend_from_slice(value);
}

/// What a command does to its own connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionChange<'c> {
    /// Nothing.
    #[default]
    None,
    /// `SELECT`, checked against the number of databases.
    Select(u8),
    /// `HELLO`: its own reply is the first in the new protocol.
    Hello {
        /// The version from here on.
        protocol: Protocol,
        /// `SETNAME`, when given.
        name: Option<&'c [u8]>,
    },
    /// `RESET`: database 0, RESP2, no name. The library stays: it is still the same one.
    Reset,
    /// `CLIENT SETNAME`; empty takes the name away.
    Name(&'c [u8]),
    /// `CLIENT SETINFO LIB-NAME`.
    LibraryName(&'c [u8]),
    /// `CLIENT SETINFO LIB-VER`.
    LibraryVersion(&'c [u8]),
}
