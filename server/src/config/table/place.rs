//! Rows: where the server is, and what it opens at the start. None of them can change while it runs.

use std::path::PathBuf;

use super::{Kind, OptionRow};
use crate::config::values::{set_number, set_switch, spell_switch};

pub(super) const BIND: OptionRow = OptionRow {
    name: "bind",
    value: "ADDRESS",
    default: "127.0.0.1",
    help: "IP address to listen on. One that other machines can reach needs --protected-mode no, because this \
           version has neither users nor TLS",
    kind: Kind::Text,
    at_run_time: false,
    set: |options, text| {
        options.bind = text
            .parse()
            .map_err(|_| format!("`{text}` is not an IP address"))?;
        Ok(())
    },
    get: |options| options.bind.to_string(),
};

pub(super) const PORT: OptionRow = OptionRow {
    name: "port",
    value: "PORT",
    default: "6379",
    help: "TCP port; 0 takes any free one, which the ready line names",
    kind: Kind::Number,
    at_run_time: false,
    set: |options, text| set_number(&mut options.port, text, 0, u16::MAX),
    get: |options| options.port.to_string(),
};

pub(super) const DIR: OptionRow = OptionRow {
    name: "dir",
    value: "DIR",
    default: "./idem-data",
    help: "Data directory; created when it is missing, and locked while the server runs",
    kind: Kind::Text,
    at_run_time: false,
    set: |options, text| {
        if text.is_empty() {
            return Err("an empty path names no directory".to_owned());
        }
        options.dir = PathBuf::from(text);
        Ok(())
    },
    get: |options| options.dir.display().to_string(),
};

pub(super) const DATABASES: OptionRow = OptionRow {
    name: "databases",
    value: "COUNT",
    default: "16",
    help: "Number of databases (1 to 256); a log that has records for more is refused",
    kind: Kind::Number,
    at_run_time: false,
    set: |options, text| set_number(&mut options.databases, text, 1, 256),
    get: |options| options.databases.to_string(),
};

pub(super) const PROTECTED_MODE: OptionRow = OptionRow {
    name: "protected-mode",
    value: "YES|NO",
    default: "yes",
    help: "Refuse to listen on an address that other machines can reach",
    kind: Kind::Switch,
    at_run_time: false,
    set: |options, text| set_switch(&mut options.protected_mode, text),
    get: |options| spell_switch(options.protected_mode),
};
