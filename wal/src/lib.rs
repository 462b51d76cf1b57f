//! The durable log.

pub mod batch;
pub mod control;
pub mod error;
pub mod lock;
pub mod segment;
pub mod storage;
pub mod writer;

pub use error::{FatalError, WriteError};
