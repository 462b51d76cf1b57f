//! The link between nodes: `IDEMREPL 1` on the ordinary port, `+OK`, then both ways `length u32, type u8, body`.
//!
//! The length counts type and body. It is compared with the limit of its type before anything is held, so a peer cannot
//! make this node allocate by a claim. What the messages mean is the replica crate's.

mod codec;
mod message;

pub use codec::{MESSAGE_BYTES_MAX, PIECE_BYTES_MAX, PREFIX_BYTES, ReplError, decode, encode};
pub use message::{HelloEpoch, LinkKind, Message};
