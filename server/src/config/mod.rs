//! Configuration: defaults, then the file, then the flags, then what contradicts what.
//!
//! At run time [`live`] takes the place of flags and file, with the same rows and the same judgement.
//!
//! Nothing here looks at the machine (no directory, no socket), but for [`rewrite`]: a configuration can be judged without
//! being run.

pub mod absent;
pub mod cli;
pub mod file;
pub mod live;
pub mod options;
pub mod rewrite;
pub mod settings;
pub mod size;
pub mod table;
mod values;
pub mod words;

use std::fmt;

pub use cli::{Flags, Generate};
pub use live::{Configuration, SharedOptions};
pub use options::{DebugAccess, FsyncPolicy, LogFormat, LogLevel, Options};
pub use settings::settings;

use idem_engine::EvictionPolicy;
use size::spell_size;

/// A configuration that cannot be started with: one sentence that names the option. Exit code 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError(String);

impl ConfigError {
    /// The error saying `what`.
    pub fn new(what: String) -> Self {
        ConfigError(what)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// The options that these flags, and the file they name, give.
///
/// # Errors
/// Anything unknown, absent, invalid or contradictory.
pub fn load(flags: &Flags) -> Result<Options, ConfigError> {
    let mut options = Options::default();
    if let Some(path) = flags.config() {
        file::load_file(path, &mut options)?;
    }
    flags.apply(&mut options)?;
    check(&options)?;
    Ok(options)
}

/// Refuses options that are fine one by one and cannot all be meant.
///
/// # Errors
/// A sentence naming the options.
pub fn check(options: &Options) -> Result<(), ConfigError> {
    if options.proto_max_bulk_len > options.client_query_buffer_limit {
        return Err(ConfigError::new(format!(
            "proto-max-bulk-len ({}) is above client-query-buffer-limit ({}): such an argument could never arrive",
            spell(options.proto_max_bulk_len),
            spell(options.client_query_buffer_limit),
        )));
    }
    if options.protected_mode && !options.bind.is_loopback() {
        return Err(ConfigError::new(format!(
            "bind ({}): other machines could reach this server, and this version has neither users nor TLS; bind to a \
             loopback address, or give --protected-mode no when the network itself is protected",
            options.bind,
        )));
    }
    Ok(())
}

/// What is allowed but likely to surprise, for the log.
pub fn warnings(options: &Options) -> Vec<String> {
    let mut warnings = Vec::new();
    if options.proto_max_bulk_len > options.client_output_buffer_limit {
        warnings.push(format!(
            "client-output-buffer-limit ({}) is below proto-max-bulk-len ({}): a client that reads a longer value is \
             dropped",
            spell(options.client_output_buffer_limit),
            spell(options.proto_max_bulk_len),
        ));
    }
    let longest = options
        .client_output_buffer_limit
        .max(options.client_query_buffer_limit);
    if options.client_buffers_total < longest {
        warnings.push(format!(
            "client-buffers-total ({}) is below what one client may have ({}): a client is dropped before its own limit",
            spell(options.client_buffers_total),
            spell(longest),
        ));
    }
    if options.maxmemory != 0 && options.maxmemory < MAXMEMORY_LEAST_USEFUL {
        warnings.push(format!(
            "maxmemory is {} bytes: was a unit forgotten, such as mb?",
            options.maxmemory
        ));
    }
    let evicts = options.maxmemory_policy != EvictionPolicy::NoEviction;
    if options.idem_evictable && evicts && options.maxmemory != 0 {
        warnings.push(
            "idem-evictable: records of IDEM are evicted at maxmemory, and an operation whose record went can be acquired \
             again while somebody still runs it"
                .to_owned(),
        );
    }
    let without_effect = [
        (evicts, "maxmemory-policy"),
        (options.idem_evictable, "idem-evictable"),
    ];
    for (given, name) in without_effect {
        if given && options.maxmemory == 0 {
            warnings.push(format!(
                "{name} has no effect without maxmemory: the data may take all memory of the machine"
            ));
        }
    }
    if options.idem_evictable && !evicts && options.maxmemory != 0 {
        warnings.push("idem-evictable has no effect with maxmemory-policy noeviction".to_owned());
    }
    if !options.bind.is_loopback() {
        warnings.push(format!(
            "listening on {} with protected mode off: whoever reaches this port may read and change everything",
            options.bind
        ));
    }
    warnings
}

/// Less than this holds nothing worth a server.
const MAXMEMORY_LEAST_USEFUL: u64 = 64 << 10;

fn spell(bytes: usize) -> String {
    u64::try_from(bytes).map_or_else(|_| bytes.to_string(), spell_size)
}
