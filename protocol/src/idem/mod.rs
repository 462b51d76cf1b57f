//! The IDEM record: what a key of `IDEM` holds, and which transitions are legal.

mod record;
pub mod transition;

pub use record::{
    FORMAT_VERSION, HEADER_BYTES, IdemError, IdemRecord, IdemState, MAGIC, RESULT_BYTES_MAX, TOKEN_BYTES_MAX,
    TTL_MS_MAX,
};
