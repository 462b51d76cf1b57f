//! Every format that is read from disk or from the link: no panic, and one spelling for each value.
//!
//! A checksum keeps nearly every input out, so each is tried twice: as it is, and with its checksums put right, so that the
//! layout alone has to object.

use idem_protocol::control::Control;
use idem_protocol::escape;
use idem_protocol::idem::IdemRecord;
use idem_protocol::limit::LimitRecord;
use idem_protocol::repl;
use idem_protocol::snapshot::{SnapshotHeader, SnapshotTrailer};
use idem_protocol::wal::scan::{check_payload, records};
use idem_protocol::wal::{
    FRAME_HEADER_BYTES, FrameHeader, RECORD_HEADER_BYTES, RawRecord, Record, Salt, SegmentHeader,
    parse_segment_name, parse_snapshot_name, segment_name, snapshot_name,
};

use super::bytes::byte;

/// The salt of the golden vectors, so that a frame among the seeds is a frame.
const SALT: Salt = Salt([0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57]);

/// How many formats [`wal_records`] chooses from by its first byte.
pub(super) const FORMATS: u8 = 10;

/// Any bytes as something read from a disk or a link. Input: which format, then its bytes.
///
/// # Panics
/// When a decoder is wrong.
pub fn wal_records(mut data: &[u8]) {
    let format = byte(&mut data) % FORMATS;
    try_format(format, data);
    let mut sealed = data.to_vec();
    if seal(format, &mut sealed) {
        try_format(format, &sealed);
    }
}

fn try_format(format: u8, bytes: &[u8]) {
    let again = match format {
        0 => idem(bytes),
        1 => LimitRecord::decode(bytes).map(|record| record.encode().to_vec()),
        2 => record(bytes),
        3 => frame(bytes),
        4 => SegmentHeader::decode(bytes)
            .ok()
            .map(|header| header.encode().to_vec()),
        5 => SnapshotHeader::decode(bytes)
            .ok()
            .map(|header| header.encode().to_vec()),
        6 => trailer(bytes),
        7 => Control::decode(bytes).ok().map(|control| control.encode()),
        8 => link(bytes),
        _ => return text(bytes),
    };
    if let Some(again) = again {
        assert!(
            bytes.starts_with(&again),
            "two spellings of one value in format {format}: {bytes:02x?} was read, {again:02x?} would be written"
        );
    }
}

fn idem(bytes: &[u8]) -> Option<Vec<u8>> {
    let stored = IdemRecord::decode_stored(bytes);
    let record = IdemRecord::decode(bytes).ok()?;
    assert!(stored.is_err() || stored == Ok(record));
    let mut out = Vec::new();
    record.encode(&mut out);
    assert_eq!(
        out.len(),
        bytes.len(),
        "a stored string has no byte behind its record"
    );
    Some(out)
}

fn record(bytes: &[u8]) -> Option<Vec<u8>> {
    let raw = RawRecord::parse(bytes).ok()?;
    let length = u64::try_from(raw.bytes.len()).expect("a length fits 64 bits");
    assert_eq!(RawRecord::claimed_len(bytes), Some(length));
    raw.checked_end()?;
    let record = raw.decode().ok()?;
    walk(&record);
    let mut out = Vec::new();
    let crc = record.encode(raw.lsn, raw.time, raw.db, &mut out);
    assert_eq!((record.encoded_len(), crc), (length, raw.crc));
    Some(out)
}

/// Looks at every part of a record: lists are checked when a record is decoded, and walked later without a check.
fn walk(record: &Record<'_>) {
    match record {
        Record::HashPut { fields, .. } => assert_eq!(fields.iter().count(), fields.len()),
        Record::HashDelete { fields, .. } => assert_eq!(fields.iter().count(), fields.len()),
        Record::Members { members, .. } => assert_eq!(members.to_members().len(), members.len()),
        Record::Transaction { records } => {
            let mut count = 0;
            for (_, part) in records.iter() {
                assert!(
                    !matches!(part, Record::Transaction { .. }),
                    "a transaction inside a transaction"
                );
                walk(&part);
                count += 1;
            }
            assert_eq!(count, records.len());
        }
        _ => {}
    }
}

fn frame(bytes: &[u8]) -> Option<Vec<u8>> {
    let header = FrameHeader::decode(bytes, SALT)?;
    let _ = (header.end(), header.frame_bytes());
    let end = FRAME_HEADER_BYTES.checked_add(usize::try_from(header.payload_bytes).ok()?)?;
    let payload = bytes.get(FRAME_HEADER_BYTES..end)?;
    check_payload(&header, payload).ok()?;
    let mut out = header.encode(SALT).to_vec();
    let mut count = 0;
    for (offset, raw) in records(payload) {
        assert_eq!(out.len(), FRAME_HEADER_BYTES + offset);
        out.extend_from_slice(raw.bytes);
        count += 1;
    }
    assert_eq!(
        (count, out.len()),
        (header.count, end),
        "a good payload is all records"
    );
    Some(out)
}

fn trailer(bytes: &[u8]) -> Option<Vec<u8>> {
    let trailer = SnapshotTrailer::decode(bytes).ok()?;
    let mut out = Vec::new();
    trailer.encode(&mut out);
    // Mark and length stand in front of what is decoded.
    Some(out.split_off(8))
}

fn link(bytes: &[u8]) -> Option<Vec<u8>> {
    let (message, size) = repl::decode(bytes).ok()??;
    let mut out = Vec::new();
    repl::encode(&message, &mut out);
    assert_eq!(out.len(), size);
    Some(out)
}

/// File names, and bytes as people type them.
fn text(bytes: &[u8]) {
    let shown = escape::escape(bytes);
    assert_eq!(
        escape::unescape(&shown).as_deref(),
        Ok(bytes),
        "what is printed can be typed"
    );
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let _ = escape::unescape(text);
    if let Some(lsn) = parse_segment_name(text) {
        assert_eq!(segment_name(lsn), text);
    }
    if let Some(lsn) = parse_snapshot_name(text) {
        assert_eq!(snapshot_name(lsn), text);
    }
}

/// Puts the checksums of a format right, and the length of a record; false for a format without one.
fn seal(format: u8, bytes: &mut [u8]) -> bool {
    match format {
        2 => seal_record(bytes),
        3 => seal_frame(bytes),
        4 => seal_at(bytes, 100),
        5 => seal_at(bytes, 40),
        7 => match bytes.len().checked_sub(4) {
            Some(at) => seal_at(bytes, at),
            None => false,
        },
        _ => false,
    }
}

/// The CRC of what is before `at`, at `at`.
fn seal_at(bytes: &mut [u8], at: usize) -> bool {
    let Some((checked, crc)) = bytes.split_at_mut_checked(at) else {
        return false;
    };
    let Some(crc) = crc.get_mut(..4) else {
        return false;
    };
    crc.copy_from_slice(&crc32fast::hash(checked).to_le_bytes());
    true
}

fn seal_record(bytes: &mut [u8]) -> bool {
    let Some(body) = bytes.len().checked_sub(RECORD_HEADER_BYTES) else {
        return false;
    };
    let body = u32::try_from(body).expect("inputs are short");
    bytes[..4].copy_from_slice(&body.to_le_bytes());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..4]);
    hasher.update(&bytes[8..]);
    bytes[4..8].copy_from_slice(&hasher.finalize().to_le_bytes());
    true
}

/// Only the header: its payload's records are sealed where their claimed lengths say that they end.
fn seal_frame(bytes: &mut [u8]) -> bool {
    let Some((header, mut rest)) = bytes.split_at_mut_checked(FRAME_HEADER_BYTES) else {
        return false;
    };
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&SALT.0);
    hasher.update(&header[..28]);
    header[28..32].copy_from_slice(&hasher.finalize().to_le_bytes());
    while let Some(length) = RawRecord::claimed_len(rest).and_then(|length| usize::try_from(length).ok()) {
        let Some((record, after)) = rest.split_at_mut_checked(length) else {
            break;
        };
        seal_record(record);
        rest = after;
    }
    true
}
