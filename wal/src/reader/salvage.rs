//! The good records of a frame that is not whole.
//!
//! A frame is valid only whole, and no start of a server takes a part of one. Somebody who has lost the rest may still want
//! to see what is left. A good frame header says at which lsn its records begin, so a record at a given offset in it can
//! have one lsn only: that and the record's checksum make it a good one.
//!
//! After a bad record its own length is tried first. Where no good record follows there, each byte is a possible begin. A
//! client that foresaw the lsn could have stored the bytes of a record in a value, and they would pass for one there, in the
//! middle of the damaged record that holds them; nothing but looking depends on what is found here.

use idem_protocol::Lsn;
use idem_protocol::wal::{FrameHeader, RECORD_HEADER_BYTES, RawRecord, RecordError};

/// How often the payload's length may be spent on checksums of places that only look like records.
const CHECKS_MAX: usize = 16;

/// A part of a frame's payload.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    /// A good record, and its offset in the payload.
    Record(usize, RawRecord<'a>),
    /// What is none.
    Bad(Bad),
}

/// Bytes of a payload that are no good record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bad {
    /// Where they begin in the payload.
    pub offset: usize,
    /// Where they end, as far as the payload is there.
    pub end: usize,
    /// The lsn at their begin.
    pub from: Lsn,
    /// The lsn from which the log goes on.
    pub to: Lsn,
    /// Why there is no record; `None` for an undamaged one of another place.
    pub error: Option<RecordError>,
}

/// Walks the payload of `header`, which may be cut short. The pieces follow one another without a gap.
pub fn salvage<'a>(header: &FrameHeader, payload: &'a [u8]) -> impl Iterator<Item = Piece<'a>> {
    let header = *header;
    let mut offset = 0;
    let mut budget = payload.len().saturating_mul(CHECKS_MAX);
    std::iter::from_fn(move || {
        let whole = usize::try_from(header.payload_bytes).unwrap_or(usize::MAX);
        if offset >= whole {
            return None;
        }
        let lsn = |offset: usize| Lsn::new(header.lsn.get().saturating_add(offset as u64));
        let begin = offset;
        let error = match good_at(payload, begin, lsn(begin)) {
            Ok(record) => {
                offset += record.bytes.len();
                return Some(Piece::Record(begin, record));
            }
            Err(error) => error,
        };
        let end = next_good(payload, begin, &mut budget, &lsn);
        offset = end.unwrap_or(whole);
        Some(Piece::Bad(Bad {
            offset: begin,
            end: end.unwrap_or(payload.len()),
            from: lsn(begin),
            to: lsn(offset),
            error,
        }))
    })
}

/// The record at an offset, when it is good and has that lsn.
fn good_at(payload: &[u8], offset: usize, lsn: Lsn) -> Result<RawRecord<'_>, Option<RecordError>> {
    let record = RawRecord::parse(payload.get(offset..).unwrap_or_default()).map_err(Some)?;
    if record.lsn == lsn { Ok(record) } else { Err(None) }
}

/// The first place after `begin` with a good record, or the end of the payload when the length at `begin` leads there.
fn next_good(payload: &[u8], begin: usize, budget: &mut usize, lsn: &dyn Fn(usize) -> Lsn) -> Option<usize> {
    let claimed = RawRecord::claimed_len(payload.get(begin..).unwrap_or_default());
    let claimed = claimed.and_then(|bytes| begin.checked_add(usize::try_from(bytes).ok()?));
    if let Some(at) = claimed
        && at < payload.len()
        && good_at(payload, at, lsn(at)).is_ok()
    {
        return Some(at);
    }
    let last = (payload.len() + 1).saturating_sub(RECORD_HEADER_BYTES);
    for at in begin + 1..last {
        // Hardly any other place has that lsn.
        if RawRecord::claimed_lsn(&payload[at..]) != Some(lsn(at)) {
            continue;
        }
        let cost = payload.len() - at;
        if *budget < cost {
            return None;
        }
        *budget -= cost;
        if good_at(payload, at, lsn(at)).is_ok() {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests;
