//! The messages of the link.

use crate::{ClusterId, Epoch, HistoryEntry, Lsn, NodeId, UnixMs};

/// What a peer wants to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkKind {
    /// A node that copies and counts.
    Follower,
    /// A tool that copies and does not count.
    Observer,
}

/// An epoch of a hello's history, with the checksum of the record that ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HelloEpoch {
    /// The epoch, its node and its first lsn.
    pub entry: HistoryEntry,
    /// CRC of the record before the next epoch's EpochStart; of the last record for the newest epoch.
    pub end_crc: u32,
}

/// One message. Borrowed bytes stay where they arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// 1: who I am and what I have.
    Hello {
        /// The peer's directory.
        node: NodeId,
        /// Its history's cluster.
        cluster: ClusterId,
        /// The address that it announces.
        address: String,
        /// What it wants to be.
        kind: LinkKind,
        /// The format version that it reads.
        format: u32,
        /// Its epochs.
        history: Vec<HelloEpoch>,
        /// The end of its durable log.
        durable: Lsn,
        /// CRC of the record that ends there.
        durable_crc: u32,
    },
    /// 2: the stream goes on here.
    Continue {
        /// Where.
        lsn: Lsn,
    },
    /// 3: go back to here first.
    Cut {
        /// The fork.
        lsn: Lsn,
    },
    /// 4: a snapshot file follows in pieces.
    Snapshot {
        /// Its size in bytes.
        size: u64,
        /// Its start lsn.
        start: Lsn,
    },
    /// 5: no, and why.
    Refuse {
        /// For programs.
        code: u8,
        /// For people.
        text: String,
    },
    /// 6: bytes of the stream.
    Piece {
        /// The primary's epoch.
        epoch: Epoch,
        /// The position of the first byte.
        first: Lsn,
        /// At most 1 MiB; a record counts when it is complete.
        bytes: &'a [u8],
    },
    /// 7: alive, every 100 ms.
    Heartbeat {
        /// The primary's epoch.
        epoch: Epoch,
        /// Its clock.
        time: UnixMs,
        /// What it has sent.
        sent: Lsn,
    },
    /// 8: how far I am.
    Ack {
        /// The epoch that the positions are of.
        epoch: Epoch,
        /// Received.
        received: Lsn,
        /// On disk.
        durable: Lsn,
        /// In the keyspace.
        applied: Lsn,
    },
    /// 9: will you follow?
    AskPromise {
        /// The epoch to be opened.
        epoch: u64,
        /// By whom.
        node: NodeId,
        /// Why: as in EpochStart.
        reason: u8,
    },
    /// 10: yes, and this is what I have.
    Promised {
        /// My epochs.
        history: Vec<HelloEpoch>,
        /// The end of my durable log.
        durable: Lsn,
        /// CRC of the record that ends there.
        durable_crc: u32,
    },
    /// 11: no, I have promised a higher one.
    Refused {
        /// That epoch.
        epoch: u64,
        /// Whose it is.
        node: NodeId,
    },
}
