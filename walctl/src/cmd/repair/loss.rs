//! What a plan takes away, as far as it can be read: positions, times, records, keys.
//!
//! It lies behind damage, so no frame counts as a whole: each record that has a good checksum does (`salvage`, as in
//! `walctl dump --past-damage`). Records are looked for behind everything that is a frame header, and in a segment that has
//! lost its own header behind what looks like one. What is in between is counted in bytes of the log.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;

use idem_protocol::wal::{
    FRAME_ALIGN, FRAME_HEADER_BYTES, FrameHeader, RawRecord, Record, SEGMENT_HEADER_BYTES, Salt, frame,
    segment_name,
};
use idem_protocol::{Lsn, UnixMs};
use idem_wal::reader::{Piece, salvage};
use idem_wal::storage::durable::read_exact_or_end;
use idem_wal::storage::{Dir, Storage, StorageFile};

use super::cut::{self, Cuts};
use super::sparse;
use crate::exit::Failure;
use crate::line::key;

/// So many different keys are told apart; beyond it there are "at least" so many. Eight bytes each.
const KEYS_MAX: usize = 1 << 20;
/// So many are shown.
const SAMPLES_MAX: usize = 10;
/// So much is searched at once.
const CHUNK_BYTES: usize = 1 << 20;

/// So many zeros in a row are no part of a record, unless of one with a value of them.
const ZEROS_MAX: usize = 16 << 20;

/// What is lost.
#[derive(Clone, Debug, Default)]
pub(super) struct Loss {
    /// The log's end from then on.
    pub(super) from: Lsn,
    /// Up to here something had been on disk, as far as anything tells.
    pub(super) to: Lsn,
    /// Whether the log went on from there for nobody knows how long: the file that would say so was cut short.
    pub(super) is_open: bool,
    /// Records that can still be read.
    pub(super) records: u64,
    /// Their bytes.
    pub(super) record_bytes: u64,
    /// The earliest and the latest time of one.
    pub(super) times: Option<(UnixMs, UnixMs)>,
    /// Different keys in them.
    pub(super) keys: HashSet<u64>,
    /// Some of the keys, with their databases.
    pub(super) samples: Vec<(u8, Vec<u8>)>,
}

impl Loss {
    /// Bytes of the log that cannot be read any more.
    pub(super) fn unread_bytes(&self) -> u64 {
        self.to
            .get()
            .saturating_sub(self.from.get())
            .saturating_sub(self.record_bytes)
    }

    /// Whether nothing goes that was there once.
    pub(super) fn is_nothing(&self) -> bool {
        self.records == 0 && self.to <= self.from && !self.is_open
    }

    /// Whether there may be more keys than were told apart.
    pub(super) fn is_at_least(&self) -> bool {
        self.keys.len() >= KEYS_MAX
    }

    /// A record is as good as a server's when it can be decoded; what cannot is a record all the same.
    fn take(&mut self, raw: &RawRecord<'_>) {
        self.records += 1;
        self.record_bytes += raw.bytes.len() as u64;
        self.to = self.to.max(raw.checked_end().unwrap_or(raw.lsn));
        let (earliest, latest) = self.times.unwrap_or((raw.time, raw.time));
        self.times = Some((earliest.min(raw.time), latest.max(raw.time)));
        match raw.decode() {
            Ok(Record::Transaction { records }) => {
                for (db, record) in records.iter() {
                    self.take_key(db, key(&record));
                }
            }
            Ok(record) => self.take_key(raw.db, key(&record)),
            Err(_) => {}
        }
    }

    fn take_key(&mut self, db: u8, key: Option<&[u8]>) {
        let Some(key) = key.filter(|_| !self.is_at_least()) else {
            return;
        };
        let mut hasher = DefaultHasher::new();
        (db, key).hash(&mut hasher);
        if self.keys.insert(hasher.finish()) && self.samples.len() < SAMPLES_MAX {
            self.samples.push((db, key.to_vec()));
        }
    }
}

/// Reads what the cuts take away. `promised` is the highest promise that is known; with `is_cut_short` there was more.
pub(super) fn read<S: Storage>(
    storage: &S,
    cuts: &Cuts,
    promised: Lsn,
    is_cut_short: bool,
) -> Result<Loss, Failure> {
    let mut loss = Loss::default();
    if let Some(end) = cuts.end {
        loss.from = end.lsn;
        loss.to = promised.max(end.lsn);
        loss.is_open = is_cut_short;
        for first in cut::list_segments(storage)? {
            match first.cmp(&end.first) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => search(storage, first, end.offset, &mut loss)?,
                std::cmp::Ordering::Greater => {
                    // By its name alone it says how far the log went.
                    loss.to = loss.to.max(first);
                    search(storage, first, SEGMENT_HEADER_BYTES as u64, &mut loss)?;
                }
            }
        }
    }
    let earliest = cuts.surplus.values().map(|point| point.lsn).min();
    if let (None, Some(earliest)) = (cuts.end, earliest) {
        (loss.from, loss.to) = (earliest, earliest);
    }
    for point in cuts.surplus.values() {
        search(storage, point.first, point.offset, &mut loss)?;
    }
    Ok(loss)
}

fn search<S: Storage>(storage: &S, first: Lsn, from: u64, loss: &mut Loss) -> Result<(), Failure> {
    let name = segment_name(first);
    // Without a header there is no salt; the records' own checksums have to do.
    let salt = cut::header(storage, first)?.map(|header| header.salt);
    let file = storage.open(Dir::Wal, &name);
    file.and_then(|file| search_file(&file, from, salt, loss))
        .map_err(Failure::io(Dir::Wal.join(&name)))
}

fn search_file<F: StorageFile>(file: &F, from: u64, salt: Option<Salt>, loss: &mut Loss) -> io::Result<()> {
    let file_bytes = file.len()?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let step = usize::try_from(FRAME_ALIGN).expect("the alignment is small");
    let mut at = from.next_multiple_of(FRAME_ALIGN);
    loop {
        let read = read_exact_or_end(file, at, &mut chunk)?;
        if read < FRAME_HEADER_BYTES {
            return Ok(());
        }
        let last = (read - FRAME_HEADER_BYTES) / step * step;
        let places = if sparse::is_zero(&chunk[..read]) {
            0..0
        } else {
            0..last + 1
        };
        let found = places
            .step_by(step)
            .find_map(|index| header_at(&chunk[index..], salt).map(|header| (index, header)));
        let Some((index, header)) = found else {
            at += (last + step) as u64;
            continue;
        };
        // Of a good header the range counts, whatever became of the records.
        if let Some(end) = header.end().filter(|_| salt.is_some() && header.lsn >= loss.from) {
            loss.to = loss.to.max(end);
        }
        at += index as u64;
        let payload = at + FRAME_HEADER_BYTES as u64;
        let bytes = u64::from(header.payload_bytes).min(file_bytes.saturating_sub(payload));
        // A header without a single good record may be none.
        at += if take_payload(file, payload, bytes, &header, loss)? {
            header.frame_bytes()
        } else {
            FRAME_ALIGN
        };
    }
}

/// What is, or without a salt looks like, a frame header.
fn header_at(bytes: &[u8], salt: Option<Salt>) -> Option<FrameHeader> {
    if !bytes.starts_with(&frame::MAGIC) {
        return None;
    }
    if let Some(salt) = salt {
        return FrameHeader::decode(bytes, salt);
    }
    let payload_bytes = u32::from_le_bytes(bytes.get(4..8)?.try_into().ok()?);
    let lsn = Lsn::new(u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?));
    Some(FrameHeader {
        payload_bytes,
        ..FrameHeader::seal(lsn, lsn)
    })
}

/// Takes the good records of a payload, of which so many bytes are in the file; returns whether there was one.
fn take_payload<F: StorageFile>(
    file: &F,
    offset: u64,
    bytes: u64,
    header: &FrameHeader,
    loss: &mut Loss,
) -> io::Result<bool> {
    // As much as there is, and not as much as is claimed: a sparse file backs whatever length a header has.
    let (mut payload, mut zeros) = (Vec::new(), 0);
    while (payload.len() as u64) < bytes && zeros < ZEROS_MAX {
        let begin = payload.len();
        let left = bytes - begin as u64;
        payload.resize(
            begin + usize::try_from(left).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES)),
            0,
        );
        let read = read_exact_or_end(file, offset + begin as u64, &mut payload[begin..])?;
        zeros = if sparse::is_zero(&payload[begin..]) {
            zeros + read
        } else {
            0
        };
        if begin + read < payload.len() {
            payload.truncate(begin + read);
            break;
        }
    }
    let before = loss.records;
    for piece in salvage(header, &payload) {
        if let Piece::Record(_, raw) = piece {
            loss.take(&raw);
        }
    }
    Ok(loss.records > before)
}
