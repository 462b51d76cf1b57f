//! The durable log.

pub mod error;
pub mod lock;
pub mod storage;

pub use error::{FatalError, WriteError};
