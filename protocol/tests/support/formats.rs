//! One row per format: its vectors, a reader that says what it read by writing it again, and where its checksums lie.

use super::golden;
use super::owned::{Owned, OwnedIdem};
use super::snapshot::SnapshotFile;
use super::values::SALT;
use idem_protocol::control::Control;
use idem_protocol::idem::IdemRecord;
use idem_protocol::limit::LimitRecord;
use idem_protocol::repl;
use idem_protocol::wal::scan::check_payload;
use idem_protocol::wal::segment_header::HEADER_COPY_BYTES;
use idem_protocol::wal::{FRAME_HEADER_BYTES, FrameHeader, RawRecord, SegmentHeader};
use std::ops::Range;

/// A format under test.
pub struct Format {
    /// The file of its vectors.
    pub file: &'static str,
    /// `None` when the bytes are refused; else the bytes that the encoder makes of the value that was read. They must be
    /// the front of the input: a decoder that takes two spellings of one value is not strict.
    pub reread: fn(&[u8]) -> Option<Vec<u8>>,
    /// Which bytes of a good vector a checksum covers (the checksum itself included).
    pub covered: fn(&[u8]) -> Range<usize>,
    /// Puts right every checksum of changed bytes, and the length of a record, so that only the layout can object.
    pub reseal: fn(&mut [u8]),
}

/// All formats.
pub const FORMATS: [Format; 8] = [
    Format {
        file: "idem-record",
        reread: idem,
        covered: nothing,
        reseal: unsealed,
    },
    Format {
        file: "limit-record",
        reread: limit,
        covered: nothing,
        reseal: unsealed,
    },
    Format {
        file: "record",
        reread: record,
        covered: everything,
        reseal: reseal_record,
    },
    Format {
        file: "frame",
        reread: frame,
        covered: frame_without_padding,
        reseal: reseal_frame,
    },
    Format {
        file: "segment-header",
        reread: segment,
        covered: first_copy,
        reseal: reseal_segment,
    },
    Format {
        file: "snapshot",
        reread: snapshot,
        covered: everything,
        reseal: reseal_snapshot,
    },
    Format {
        file: "control",
        reread: control,
        covered: everything,
        reseal: reseal_end,
    },
    Format {
        file: "link",
        reread: link,
        covered: nothing,
        reseal: unsealed,
    },
];

impl Format {
    pub fn vectors(&self) -> Vec<golden::Vector> {
        golden::load(self.file)
    }

    /// Reads `bytes` and holds the decoder to its strictness. True when they were taken.
    pub fn try_read(&self, bytes: &[u8]) -> bool {
        let Some(again) = (self.reread)(bytes) else {
            return false;
        };
        assert!(
            bytes.starts_with(&again),
            "{}: two spellings of one value: {bytes:02x?} was read, {again:02x?} would be written",
            self.file
        );
        true
    }
}

fn idem(bytes: &[u8]) -> Option<Vec<u8>> {
    let stored = IdemRecord::decode_stored(bytes);
    let record = IdemRecord::decode(bytes).ok()?;
    assert!(stored.is_err() || stored == Ok(record));
    Some(OwnedIdem::of(record).encode())
}

fn limit(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(LimitRecord::decode(bytes)?.encode().to_vec())
}

fn record(bytes: &[u8]) -> Option<Vec<u8>> {
    let raw = RawRecord::parse(bytes).ok()?;
    assert_eq!(RawRecord::claimed_len(bytes), Some(raw.bytes.len() as u64));
    let record = raw.decode().ok()?;
    Some(Owned::of(record).encode(raw.lsn, raw.time, raw.db))
}

fn frame(bytes: &[u8]) -> Option<Vec<u8>> {
    let header = FrameHeader::decode(bytes, SALT)?;
    let _ = (header.end(), header.frame_bytes());
    let end = FRAME_HEADER_BYTES.checked_add(usize::try_from(header.payload_bytes).ok()?)?;
    let payload = bytes.get(FRAME_HEADER_BYTES..end)?;
    check_payload(&header, payload).ok()?;
    let mut out = header.encode(SALT).to_vec();
    out.extend_from_slice(payload);
    Some(out)
}

fn segment(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(SegmentHeader::decode(bytes).ok()?.encode().to_vec())
}

fn snapshot(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(SnapshotFile::decode(bytes)?.encode())
}

fn control(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(Control::decode(bytes).ok()?.encode())
}

fn link(bytes: &[u8]) -> Option<Vec<u8>> {
    let (message, size) = repl::decode(bytes).ok()??;
    let mut out = Vec::new();
    repl::encode(&message, &mut out);
    assert_eq!(out.len(), size);
    Some(out)
}

fn nothing(_: &[u8]) -> Range<usize> {
    0..0
}

fn everything(bytes: &[u8]) -> Range<usize> {
    0..bytes.len()
}

fn frame_without_padding(bytes: &[u8]) -> Range<usize> {
    let header = FrameHeader::decode(bytes, SALT).unwrap();
    0..FRAME_HEADER_BYTES + usize::try_from(header.payload_bytes).unwrap()
}

fn first_copy(_: &[u8]) -> Range<usize> {
    0..HEADER_COPY_BYTES
}

fn unsealed(_: &mut [u8]) {}

fn put_crc(bytes: &mut [u8], at: usize, hash: u32) {
    bytes[at..at + 4].copy_from_slice(&hash.to_le_bytes());
}

/// Length and checksum of the one record that `bytes` are meant to be.
pub fn reseal_record(bytes: &mut [u8]) {
    let Some(body) = bytes.len().checked_sub(24) else {
        return;
    };
    bytes[..4].copy_from_slice(&u32::try_from(body).unwrap().to_le_bytes());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..4]);
    hasher.update(&bytes[8..]);
    put_crc(bytes, 4, hasher.finalize());
}

fn reseal_frame(bytes: &mut [u8]) {
    if bytes.len() >= 32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&SALT.0);
        hasher.update(&bytes[..28]);
        put_crc(bytes, 28, hasher.finalize());
    }
}

fn reseal_segment(bytes: &mut [u8]) {
    if bytes.len() >= 104 {
        put_crc(bytes, 100, crc32fast::hash(&bytes[..100]));
    }
}

fn reseal_end(bytes: &mut [u8]) {
    if let Some(at) = bytes.len().checked_sub(4) {
        put_crc(bytes, at, crc32fast::hash(&bytes[..at]));
    }
}

fn reseal_snapshot(bytes: &mut [u8]) {
    if bytes.len() >= 44 {
        put_crc(bytes, 40, crc32fast::hash(&bytes[..40]));
    }
    reseal_end(bytes);
}
