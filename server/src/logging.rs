//! Log lines go to stderr, as text or JSON; stdout belongs to the ready line.
//!
//! ERROR means that a person has to look; WARN that it may come to that; INFO is what an operator wants to see of a
//! healthy server. Keys, values and tokens of clients are never logged.

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;

use crate::config::{LogFormat, LogLevel};

/// Installs the process's logger. The library never calls this: a program that embeds a shard has its own.
pub fn install(level: LogLevel, format: LogFormat) {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let builder = fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_target(false);
    match format {
        // A closed or full stderr must not end the server: the writer drops what it cannot write.
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
}
