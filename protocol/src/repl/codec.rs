//! Bytes of the link's messages.

use super::{HelloEpoch, LinkKind, Message};
use crate::cursor::{Cursor, Short, put_epoch, put_string, u32_at};
use crate::{ClusterId, HistoryEntry};
use std::ops::RangeInclusive;

/// Bytes of length and type.
pub const PREFIX_BYTES: usize = 5;
/// The most stream bytes in one piece.
pub const PIECE_BYTES_MAX: usize = 1 << 20;
/// The longest type and body of any message: a piece with its fields, or a long history.
pub const MESSAGE_BYTES_MAX: usize = PIECE_BYTES_MAX + 64;

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplError {
    /// A length of 0, over the limit, or one that the type cannot have.
    #[error("message of {0} bytes")]
    Length(u32),
    /// A type that this version does not know.
    #[error("unknown message type {0}")]
    Type(u8),
    /// A body that its type's layout does not allow.
    #[error("malformed message of type {0}")]
    Body(u8),
}

/// Appends a message.
///
/// # Panics
/// For a message over [`MESSAGE_BYTES_MAX`]: senders cut the stream into pieces and keep histories short.
pub fn encode(message: &Message<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let lsn = |out: &mut Vec<u8>, lsn: crate::Lsn| out.extend_from_slice(&lsn.get().to_le_bytes());
    match message {
        Message::Hello {
            node,
            cluster,
            address,
            kind,
            format,
            history,
            durable,
            durable_crc,
        } => {
            out.push(1);
            out.extend_from_slice(&node.0);
            out.extend_from_slice(&cluster.0);
            put_string(out, address.as_bytes());
            out.push(match kind {
                LinkKind::Follower => 0,
                LinkKind::Observer => 1,
            });
            out.extend_from_slice(&format.to_le_bytes());
            put_hello_history(out, history);
            lsn(out, *durable);
            out.extend_from_slice(&durable_crc.to_le_bytes());
        }
        Message::Continue { lsn: at } => {
            out.push(2);
            lsn(out, *at);
        }
        Message::Cut { lsn: at } => {
            out.push(3);
            lsn(out, *at);
        }
        Message::Snapshot { size, start } => {
            out.push(4);
            out.extend_from_slice(&size.to_le_bytes());
            lsn(out, *start);
        }
        Message::Refuse { code, text } => {
            out.extend_from_slice(&[5, *code]);
            put_string(out, text.as_bytes());
        }
        Message::Piece { epoch, first, bytes } => {
            assert!(
                bytes.len() <= PIECE_BYTES_MAX,
                "the stream is cut into pieces of at most 1 MiB"
            );
            out.push(6);
            put_epoch(out, *epoch);
            lsn(out, *first);
            out.extend_from_slice(bytes);
        }
        Message::Heartbeat { epoch, time, sent } => {
            out.push(7);
            put_epoch(out, *epoch);
            out.extend_from_slice(&time.get().to_le_bytes());
            lsn(out, *sent);
        }
        Message::Ack {
            epoch,
            received,
            durable,
            applied,
        } => {
            out.push(8);
            put_epoch(out, *epoch);
            [received, durable, applied]
                .into_iter()
                .for_each(|at| lsn(out, *at));
        }
        Message::AskPromise { epoch, node, reason } => {
            out.push(9);
            out.extend_from_slice(&epoch.to_le_bytes());
            out.extend_from_slice(&node.0);
            out.push(*reason);
        }
        Message::Promised {
            history,
            durable,
            durable_crc,
        } => {
            out.push(10);
            put_hello_history(out, history);
            lsn(out, *durable);
            out.extend_from_slice(&durable_crc.to_le_bytes());
        }
        Message::Refused { epoch, node } => {
            out.push(11);
            out.extend_from_slice(&epoch.to_le_bytes());
            out.extend_from_slice(&node.0);
        }
    }
    let length = out.len() - start - 4;
    assert!(
        length <= MESSAGE_BYTES_MAX,
        "a message stays below the limit that its reader has"
    );
    let length = u32::try_from(length).expect("the limit fits 32 bits");
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// Which body sizes a type can have, in bytes; `None` for a type that does not exist. Looked at before anything is held,
/// so that a peer which claims a megabyte for an acknowledgement is found out by its first five bytes.
fn body_sizes(kind: u8) -> Option<RangeInclusive<usize>> {
    const BODY_BYTES_MAX: usize = MESSAGE_BYTES_MAX - 1;
    Some(match kind {
        1 => 57..=BODY_BYTES_MAX,
        2 | 3 => 8..=8,
        4 => 16..=16,
        5 => 5..=BODY_BYTES_MAX,
        6 => 24..=24 + PIECE_BYTES_MAX,
        7 => 32..=32,
        8 => 40..=40,
        9 => 25..=25,
        10 => 16..=BODY_BYTES_MAX,
        11 => 24..=24,
        _ => return None,
    })
}

/// The first message of `bytes` and how many bytes it took; `None` while it is not whole.
pub fn decode(bytes: &[u8]) -> Result<Option<(Message<'_>, usize)>, ReplError> {
    if bytes.len() < 4 {
        return Ok(None);
    }
    let claimed = u32_at(bytes, 0);
    let length = usize::try_from(claimed).map_err(|_| ReplError::Length(claimed))?;
    if length == 0 || length > MESSAGE_BYTES_MAX {
        return Err(ReplError::Length(claimed));
    }
    let Some(&kind) = bytes.get(4) else {
        return Ok(None);
    };
    let sizes = body_sizes(kind).ok_or(ReplError::Type(kind))?;
    if !sizes.contains(&(length - 1)) {
        return Err(ReplError::Length(claimed));
    }
    let Some(whole) = bytes.get(4..4 + length) else {
        return Ok(None);
    };
    let mut cursor = Cursor::new(&whole[1..]);
    let message = read(kind, &mut cursor).map_err(|_| ReplError::Body(kind))?;
    if !cursor.is_at_end() {
        return Err(ReplError::Body(kind));
    }
    Ok(Some((message, 4 + length)))
}

/// The layout of one type; any error is "malformed".
fn read<'a>(kind: u8, cursor: &mut Cursor<'a>) -> Result<Message<'a>, Malformed> {
    Ok(match kind {
        1 => Message::Hello {
            node: cursor.node()?,
            cluster: ClusterId(cursor.array()?),
            address: text(cursor)?,
            kind: match cursor.u8()? {
                0 => LinkKind::Follower,
                1 => LinkKind::Observer,
                _ => return Err(Malformed),
            },
            format: cursor.u32()?,
            history: read_hello_history(cursor)?,
            durable: cursor.lsn()?,
            durable_crc: cursor.u32()?,
        },
        2 => Message::Continue { lsn: cursor.lsn()? },
        3 => Message::Cut { lsn: cursor.lsn()? },
        4 => Message::Snapshot {
            size: cursor.u64()?,
            start: cursor.lsn()?,
        },
        5 => Message::Refuse {
            code: cursor.u8()?,
            text: text(cursor)?,
        },
        6 => {
            let (epoch, first) = (cursor.epoch()?, cursor.lsn()?);
            Message::Piece {
                epoch,
                first,
                bytes: cursor.rest(),
            }
        }
        7 => Message::Heartbeat {
            epoch: cursor.epoch()?,
            time: cursor.time()?.map_err(|_| Malformed)?,
            sent: cursor.lsn()?,
        },
        8 => Message::Ack {
            epoch: cursor.epoch()?,
            received: cursor.lsn()?,
            durable: cursor.lsn()?,
            applied: cursor.lsn()?,
        },
        9 => Message::AskPromise {
            epoch: cursor.u64()?,
            node: cursor.node()?,
            reason: cursor.u8()?,
        },
        10 => Message::Promised {
            history: read_hello_history(cursor)?,
            durable: cursor.lsn()?,
            durable_crc: cursor.u32()?,
        },
        _ => Message::Refused {
            epoch: cursor.u64()?,
            node: cursor.node()?,
        },
    })
}

struct Malformed;

impl From<Short> for Malformed {
    fn from(_: Short) -> Self {
        Malformed
    }
}

fn text(cursor: &mut Cursor<'_>) -> Result<String, Malformed> {
    std::str::from_utf8(cursor.string()?)
        .map(str::to_owned)
        .map_err(|_| Malformed)
}

fn put_hello_history(out: &mut Vec<u8>, history: &[HelloEpoch]) {
    let count = u32::try_from(history.len()).expect("a history has fewer than 2^32 epochs");
    out.extend_from_slice(&count.to_le_bytes());
    for epoch in history {
        put_epoch(out, epoch.entry.epoch);
        out.extend_from_slice(&epoch.entry.node.0);
        out.extend_from_slice(&epoch.entry.first_lsn.get().to_le_bytes());
        out.extend_from_slice(&epoch.end_crc.to_le_bytes());
    }
}

fn read_hello_history(cursor: &mut Cursor<'_>) -> Result<Vec<HelloEpoch>, Malformed> {
    let count = cursor.u32()?;
    let mut history = Vec::new();
    for _ in 0..count {
        let entry = HistoryEntry {
            epoch: cursor.epoch()?,
            node: cursor.node()?,
            first_lsn: cursor.lsn()?,
        };
        history.push(HelloEpoch {
            entry,
            end_crc: cursor.u32()?,
        });
    }
    Ok(history)
}
