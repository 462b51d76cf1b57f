//! Group commit without I/O: gathers records into the next frame and plans where every frame goes.
//!
//! Lives with the keyspace, on the thread that decides. In: records, by way of [`Batch::reserve`] and [`Batch::append`], and
//! the spares that housekeeping made. Out: a [`Group`] for the wal thread, whenever that thread is free; time enters with
//! the records and is otherwise unknown here.
//!
//! Invariants
//! * Space first: nothing is appended that was not reserved, and a reservation is only given for space that exists, zeroed
//!   and synced: the rest of the current segment, or a spare that is ready. A group of n record bytes takes
//!   32 + n, padded to 8, and 32 more for the seal that may follow it.
//! * Placement is decided when the group is taken, by its final size: the rest of the segment when it fits there, else the
//!   smallest spare that is large enough. So an open group moves to a spare while it grows, and back when a reservation was
//!   not used.
//! * A segment that holds no record has no successor (both would have the same name): there, and only there, a group that
//!   does not fit stays, and the writer makes the file longer.
//! * All records of one command are reserved in one call and land in one group. A group is closed at its size limit, or by
//!   one record above it.
//! * Records' lsns follow on without a gap, and time never goes back.
//!
//! Deliberately absent: files (the writer carries the plan out and asserts it), the synced mark (only the writer knows it),
//! and when to hand a group over (the core loop's decision).

use crc32fast::Hasher;
use idem_protocol::wal::{FRAME_HEADER_BYTES, Opcode, RawRecord, Record, SEGMENT_HEADER_BYTES, padded};
use idem_protocol::{Lsn, UnixMs};

use crate::storage::durable::widen;

mod plan;

pub use plan::{Group, NotReserved, Placement, Position, Seal, Spare};

/// Group limit of a server: a group is closed before it grows beyond 8 MiB of records.
pub const GROUP_BYTES_MAX: u64 = 8 << 20;
/// Segment size unless told otherwise: 64 MiB.
pub const SEGMENT_BYTES_DEFAULT: u64 = 64 << 20;
/// Spares of ordinary size that are kept ready.
pub const SPARES_READY: usize = 2;
/// No group holds more record bytes: a frame's payload length has 32 bits.
pub const GROUP_RECORD_BYTES_LIMIT: u64 = 0xFFFF_FF00;

const FRAME_HEADER: u64 = FRAME_HEADER_BYTES as u64;
const SEGMENT_HEADER: u64 = SEGMENT_HEADER_BYTES as u64;
const SEAL_BYTES: u64 = FRAME_HEADER;
/// Special spares are whole pages.
const PAGE: u64 = 4096;

/// The group that is being gathered, and the plan of the segment behind it.
#[derive(Debug)]
pub struct Batch {
    group_bytes_max: u64,
    segment_bytes_regular: u64,

    // The plan: the state of the newest segment once everything that was taken is written.
    segment_first: Lsn,
    segment_bytes: u64,
    offset: u64,
    holds_record: bool,
    spares: Vec<Spare>,

    // The open group.
    buffer: Vec<u8>,
    first: Lsn,
    count: u32,
    crc: Hasher,
    clock_only: bool,
    /// Record bytes that may still be appended.
    reserved: u64,

    // The log's end.
    end: Lsn,
    last_record_crc: u32,
    log_time: UnixMs,
    last_seal: bool,
    /// Something other than Clock records came since the last seal.
    worth_a_seal: bool,
}

/// What a frame with so many record bytes takes, padding included.
fn frame_bytes(record_bytes: u64) -> u64 {
    padded(FRAME_HEADER + record_bytes)
}

/// What must be free for it: the frame and one seal.
fn needed_bytes(record_bytes: u64) -> u64 {
    frame_bytes(record_bytes) + SEAL_BYTES
}

impl Batch {
    /// Continues a log at `position`. Groups are closed before they exceed `group_bytes_max` record bytes.
    pub fn new(position: Position, group_bytes_max: u64) -> Batch {
        assert!(
            position.offset >= SEGMENT_HEADER,
            "frames begin after the segment's header"
        );
        assert_eq!(position.offset % 8, 0, "frames begin at multiples of 8");
        assert!(
            position.offset <= position.segment_bytes,
            "the log ends inside its segment"
        );
        assert!(
            position.segment_first <= position.lsn,
            "a segment begins before it ends"
        );
        let mut batch = Batch {
            group_bytes_max,
            segment_bytes_regular: SEGMENT_BYTES_DEFAULT,
            segment_first: position.segment_first,
            segment_bytes: position.segment_bytes,
            offset: position.offset,
            holds_record: position.holds_record,
            spares: Vec::new(),
            buffer: Vec::new(),
            first: position.lsn,
            count: 0,
            crc: Hasher::new(),
            clock_only: true,
            reserved: 0,
            end: position.lsn,
            last_record_crc: position.last_record_crc,
            log_time: position.log_time,
            last_seal: position.last_seal,
            worth_a_seal: !position.last_seal && position.lsn > Lsn::ZERO,
        };
        batch.reset_group(Vec::new());
        batch
    }

    /// Sets the file length of ordinary segments (wal-segment-bytes) for the spares that are asked for from now on.
    pub fn set_segment_bytes(&mut self, bytes: u64) {
        self.segment_bytes_regular = bytes;
    }

    /// Sets space aside for the records of one command: `record_bytes` together, with their headers. Holds until the next
    /// call, or until the group is taken; what is not appended is free again.
    ///
    /// # Panics
    /// Above [`GROUP_RECORD_BYTES_LIMIT`]: a record has at most 512 MiB, and what needs more is refused when it is decided.
    pub fn reserve(&mut self, record_bytes: u64) -> Result<(), NotReserved> {
        assert!(
            record_bytes <= GROUP_RECORD_BYTES_LIMIT,
            "a command writes less than a frame can hold"
        );
        self.reserved = 0;
        let together = self.open_bytes() + record_bytes;
        if !self.is_empty() && together > self.group_bytes_max {
            return Err(NotReserved::GroupFull);
        }
        if self.placement(together).is_some() {
            self.reserved = record_bytes;
            return Ok(());
        }
        // Alone, in a group of its own, it may fit the spare that the two together do not.
        if !self.is_empty() && self.best_spare(record_bytes).is_some() {
            return Err(NotReserved::GroupFull);
        }
        Err(NotReserved::NeedsSpare {
            bytes: self.segment_bytes_for(record_bytes),
        })
    }

    /// Adds a record; returns its end lsn.
    ///
    /// # Panics
    /// When it was not reserved, or `time` lies before the last record's.
    pub fn append(&mut self, time: UnixMs, db: u8, record: &Record<'_>) -> Lsn {
        self.check(record.encoded_len(), time);
        let from = self.buffer.len();
        self.last_record_crc = record.encode(self.end, time, db, &mut self.buffer);
        self.appended_from(from, time, record.opcode() == Opcode::Clock)
    }

    /// Adds a record whose bytes came from elsewhere; returns its end lsn.
    ///
    /// # Panics
    /// As [`Batch::append`], and when the record is not the next one.
    pub fn append_raw(&mut self, raw: &RawRecord<'_>) -> Lsn {
        assert_eq!(raw.lsn, self.end, "records are copied in order");
        self.check(widen(raw.bytes.len()), raw.time);
        let from = self.buffer.len();
        self.buffer.extend_from_slice(raw.bytes);
        self.last_record_crc = raw.crc;
        self.appended_from(from, raw.time, raw.opcode == Opcode::Clock.to_byte())
    }

    fn check(&self, bytes: u64, time: UnixMs) {
        assert!(
            bytes <= self.reserved,
            "a record needs {bytes} bytes and {} are reserved",
            self.reserved
        );
        assert!(
            time >= self.log_time,
            "time went back from {} to {time}",
            self.log_time
        );
    }

    fn appended_from(&mut self, from: usize, time: UnixMs, clock: bool) -> Lsn {
        let bytes = widen(self.buffer.len() - from);
        self.crc.update(&self.buffer[from..]);
        self.reserved -= bytes;
        self.end = self.end.plus(bytes);
        self.count += 1;
        self.clock_only &= clock;
        self.log_time = time;
        self.end
    }

    /// The lsn after the last appended record.
    pub fn appended(&self) -> Lsn {
        self.end
    }

    /// CRC of the record that ends there, 0 at lsn 0.
    pub fn last_record_crc(&self) -> u32 {
        self.last_record_crc
    }

    /// Time of the record that ends there.
    pub fn log_time(&self) -> UnixMs {
        self.log_time
    }

    /// Whether the open group holds no record.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Record bytes of the open group.
    pub fn open_bytes(&self) -> u64 {
        self.end.bytes_since(self.first)
    }

    /// Closes the open group and goes on with `buffer`, whose contents do not matter. None, and the buffer is kept, when
    /// the group is empty.
    pub fn take(&mut self, buffer: Vec<u8>) -> Option<Group> {
        if self.is_empty() {
            return None;
        }
        let record_bytes = self.open_bytes();
        let placement = self
            .placement(record_bytes)
            .expect("a smaller group fits wherever the reservation did");
        let frame = frame_bytes(record_bytes);
        match placement {
            Placement::Here => {
                self.segment_bytes = self.segment_bytes.max(self.offset + needed_bytes(record_bytes))
            }
            Placement::Spare(spare) => {
                assert!(self.holds_record, "a segment without records has no successor");
                self.spares.retain(|ready| ready.number != spare.number);
                self.segment_first = self.first;
                self.segment_bytes = spare.bytes;
                self.offset = SEGMENT_HEADER;
            }
        }
        self.offset += frame;
        assert!(
            self.offset + SEAL_BYTES <= self.segment_bytes,
            "a seal fits after every group"
        );
        self.holds_record = true;
        self.last_seal = false;
        self.worth_a_seal |= !self.clock_only;

        let mut group = Group {
            bytes: Vec::new(),
            first: self.first,
            end: self.end,
            count: self.count,
            crc: self.crc.clone().finalize(),
            clock_only: self.clock_only,
            followed: false,
            placement,
        };
        let full = usize::try_from(frame).expect("the frame is in memory");
        self.buffer.resize(full, 0);
        group.bytes = self.reset_group(buffer);
        Some(group)
    }

    /// Starts a new open group in `buffer` and returns the buffer of the old one.
    fn reset_group(&mut self, mut buffer: Vec<u8>) -> Vec<u8> {
        buffer.clear();
        if widen(buffer.capacity()) > self.group_bytes_max.saturating_mul(2) {
            // After one huge record the two buffers would otherwise keep its size for ever.
            buffer = Vec::new();
        }
        buffer.resize(FRAME_HEADER_BYTES, 0);
        self.first = self.end;
        self.count = 0;
        self.crc = Hasher::new();
        self.clock_only = true;
        self.reserved = 0;
        std::mem::replace(&mut self.buffer, buffer)
    }

    /// Plans a seal after everything that was taken. None when it would witness nothing new: the last frame is a seal, or
    /// only Clock records came since the last one; and when records are waiting, whose group is the witness.
    pub fn take_seal(&mut self) -> Option<Seal> {
        let fits = self.offset + SEAL_BYTES <= self.segment_bytes;
        if !self.is_empty() || self.last_seal || !self.worth_a_seal || !fits {
            return None;
        }
        self.offset += SEAL_BYTES;
        self.last_seal = true;
        self.worth_a_seal = false;
        Some(Seal { lsn: self.end })
    }

    /// Takes note of a spare that is ready.
    pub fn spare_ready(&mut self, spare: Spare) {
        assert!(
            self.spares.iter().all(|ready| ready.number != spare.number),
            "spares have numbers of their own"
        );
        self.spares.push(spare);
    }

    /// Spares that are ready.
    pub fn spares(&self) -> usize {
        self.spares.len()
    }

    /// Records in the open group.
    pub fn open_records(&self) -> u32 {
        self.count
    }

    /// The file bytes of the ordinary spare to be made next, while fewer than [`SPARES_READY`] are ready. Whoever asks makes
    /// one at a time and reports it with [`Batch::spare_ready`]; spares of special sizes are asked for by [`Batch::reserve`].
    pub fn wants_spare(&self) -> Option<u64> {
        (self.spares.len() < SPARES_READY).then_some(self.segment_bytes_regular)
    }

    /// Whether the next segment will be needed soon and there is none: the current one is half full.
    pub fn lacks_spare(&self) -> bool {
        self.spares.is_empty() && self.offset >= self.segment_bytes / 2
    }

    /// The length of a file that takes a group of so many record bytes: an ordinary segment, or a larger one in whole
    /// pages.
    pub fn segment_bytes_for(&self, record_bytes: u64) -> u64 {
        let least = SEGMENT_HEADER + needed_bytes(record_bytes);
        self.segment_bytes_regular.max(least.next_multiple_of(PAGE))
    }

    /// First lsn of the segment that the last group taken goes to.
    pub fn segment_first(&self) -> Lsn {
        self.segment_first
    }

    fn placement(&self, record_bytes: u64) -> Option<Placement> {
        if !self.holds_record || self.offset + needed_bytes(record_bytes) <= self.segment_bytes {
            return Some(Placement::Here);
        }
        self.best_spare(record_bytes).map(Placement::Spare)
    }

    fn best_spare(&self, record_bytes: u64) -> Option<Spare> {
        let least = SEGMENT_HEADER + needed_bytes(record_bytes);
        let fitting = self.spares.iter().filter(|spare| spare.bytes >= least);
        fitting.min_by_key(|spare| (spare.bytes, spare.number)).copied()
    }
}

#[cfg(test)]
mod tests;
