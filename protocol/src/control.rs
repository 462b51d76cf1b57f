//! The control file: what a node must know before it reads its log.
//!
//! `"IDEMCTL1"; format u32; body length u32; node id 16; cluster id 16; role u8 (0 primary, 1 follower); primary's
//! address string; promised epoch u64, node id 16; history, N, members as in a snapshot's trailer; newest snapshot's
//! start lsn, newest segment's first lsn, clean mark: u64 each, 2^64 − 1 = none; pending change u8 (0 none) and string;
//! CRC-32 of all bytes before it.`
//!
//! It is replaced as a whole: temporary file, sync, rename, sync of the directory. Where it and the log differ, the log
//! wins; without it, a log is not judged.

use crate::cursor::{Cursor, put_string, u32_at};
use crate::snapshot::{put_history, read_history};
use crate::wal::{BodyError, FORMAT_VERSION, HeaderError, MemberList};
use crate::{ClusterId, HistoryEntry, Lsn, Member, NodeId};

/// The first eight bytes.
pub const MAGIC: [u8; 8] = *b"IDEMCTL1";
/// Bytes before the body: magic, format, length.
const PREFIX_BYTES: usize = 16;

/// What a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// Takes writes.
    #[default]
    Primary,
    /// Copies a primary.
    Follower,
}

/// The contents of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// This directory.
    pub node: NodeId,
    /// The history that it belongs to.
    pub cluster: ClusterId,
    /// What the node is.
    pub role: Role,
    /// Whom it copies; empty for a primary.
    pub primary_address: String,
    /// The highest epoch that this node has promised, and to whom.
    pub promised_epoch: u64,
    /// The node that the promise was made to.
    pub promised_node: NodeId,
    /// The epochs whose EpochStart is on disk here.
    pub history: Vec<HistoryEntry>,
    /// How many members' disks a reply waits for (N).
    pub required: u8,
    /// The members.
    pub members: Vec<Member>,
    /// Where the newest published snapshot starts.
    pub newest_snapshot: Option<Lsn>,
    /// Where the newest segment begins; written when its name is on disk, before its first frame.
    pub newest_segment: Option<Lsn>,
    /// The log's end at a clean shutdown; cleared before the next frame.
    pub clean_end: Option<Lsn>,
    /// What takes more than one step and was begun; 0 for nothing.
    pub pending_change: u8,
    /// Its details.
    pub pending_detail: String,
}

fn put_lsn(out: &mut Vec<u8>, lsn: Option<Lsn>) {
    out.extend_from_slice(&lsn.unwrap_or(Lsn::MAX).get().to_le_bytes());
}

fn read_lsn(cursor: &mut Cursor<'_>) -> Result<Option<Lsn>, BodyError> {
    let lsn = cursor.lsn()?;
    Ok((lsn != Lsn::MAX).then_some(lsn))
}

fn read_text(cursor: &mut Cursor<'_>) -> Result<String, BodyError> {
    let text = std::str::from_utf8(cursor.string()?).map_err(|_| BodyError::AddressNotUtf8)?;
    Ok(text.to_owned())
}

impl Control {
    /// The bytes of the whole file.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        body.extend_from_slice(&self.node.0);
        body.extend_from_slice(&self.cluster.0);
        body.push(match self.role {
            Role::Primary => 0,
            Role::Follower => 1,
        });
        put_string(&mut body, self.primary_address.as_bytes());
        body.extend_from_slice(&self.promised_epoch.to_le_bytes());
        body.extend_from_slice(&self.promised_node.0);
        put_history(&mut body, &self.history);
        body.push(self.required);
        MemberList::Slice(&self.members).put(&mut body);
        put_lsn(&mut body, self.newest_snapshot);
        put_lsn(&mut body, self.newest_segment);
        put_lsn(&mut body, self.clean_end);
        body.push(self.pending_change);
        put_string(&mut body, self.pending_detail.as_bytes());

        let length = u32::try_from(body.len()).expect("history and members are bounded far below 4 GiB");
        let mut out = Vec::with_capacity(PREFIX_BYTES + body.len() + 4);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&body);
        let crc = crc32fast::hash(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads a whole file. A body length of 0, or any byte too many or too few, is damage.
    pub fn decode(bytes: &[u8]) -> Result<Self, HeaderError> {
        if bytes.len() < PREFIX_BYTES + 4 || bytes[..8] != MAGIC {
            return Err(HeaderError::Damaged);
        }
        let (format, length) = (u32_at(bytes, 8), u32_at(bytes, 12));
        let fits = usize::try_from(length)
            .is_ok_and(|length| length > 0 && length == bytes.len() - PREFIX_BYTES - 4);
        let (checked, crc) = bytes.split_at(bytes.len() - 4);
        if !fits || u32_at(crc, 0) != crc32fast::hash(checked) {
            return Err(HeaderError::Damaged);
        }
        match format {
            FORMAT_VERSION => {}
            0 => return Err(HeaderError::Damaged),
            newer => return Err(HeaderError::NewerFormat(newer)),
        }
        Self::decode_body(&checked[PREFIX_BYTES..]).map_err(|_| HeaderError::Damaged)
    }

    fn decode_body(body: &[u8]) -> Result<Self, BodyError> {
        let mut cursor = Cursor::new(body);
        let control = Control {
            node: cursor.node()?,
            cluster: ClusterId(cursor.array()?),
            role: match cursor.u8()? {
                0 => Role::Primary,
                1 => Role::Follower,
                other => return Err(BodyError::Reason(other)),
            },
            primary_address: read_text(&mut cursor)?,
            promised_epoch: cursor.u64()?,
            promised_node: cursor.node()?,
            history: read_history(&mut cursor)?,
            required: cursor.u8()?,
            members: MemberList::read_members(&mut cursor)?,
            newest_snapshot: read_lsn(&mut cursor)?,
            newest_segment: read_lsn(&mut cursor)?,
            clean_end: read_lsn(&mut cursor)?,
            pending_change: cursor.u8()?,
            pending_detail: read_text(&mut cursor)?,
        };
        if cursor.is_at_end() {
            Ok(control)
        } else {
            Err(BodyError::TrailingBytes)
        }
    }
}
