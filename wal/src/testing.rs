//! A small log for this crate's tests: fixed ids and salts, a simulated disk, and a reader of its own that shares no code
//! with the real one.

use idem_protocol::control::Control;
use idem_protocol::wal::{
    FRAME_HEADER_BYTES, FrameHeader, RawRecord, Record, SEGMENT_HEADER_BYTES, Salt, SegmentHeader,
    parse_segment_name,
};
use idem_protocol::{ClusterId, Deadline, Epoch, Lsn, NodeId, UnixMs};

use crate::batch::{Batch, Group, NotReserved, Position};
use crate::control::ControlFile;
use crate::housekeeping::{Chore, ChoreEvent, Housekeeper, HousekeepingParams};
use crate::segment::create_segment;
use crate::storage::sim::SimDisk;
use crate::storage::{Dir, Storage};
use crate::writer::{LogWriter, SaltSource, WriteError, WriterParams, WriterPosition};

pub(crate) const NODE: NodeId = NodeId(*b"node-of-the-test");
pub(crate) const CLUSTER: ClusterId = ClusterId(*b"cluster-of-tests");
pub(crate) const EPOCH: Epoch = Epoch {
    number: 7,
    nonce: 0x0102_0304_0506_0708,
};
pub(crate) const SEGMENT_BYTES: u64 = 8192;

/// Salts `aaaaaaaa`, `bbbbbbbb`, …
pub(crate) fn salts(first: u8) -> SaltSource {
    let mut next = first;
    Box::new(move || {
        let salt = Salt([next; 8]);
        next += 1;
        salt
    })
}

/// A log that a server would have open, without threads.
pub(crate) struct TestLog<S: Storage> {
    pub(crate) writer: LogWriter<S>,
    pub(crate) batch: Batch,
    pub(crate) control: ControlFile<S>,
    pub(crate) keeper: Housekeeper<S>,
}

impl<S: Storage> TestLog<S> {
    /// A new directory with one empty segment, everything durable.
    pub(crate) fn create(storage: &S) -> TestLog<S> {
        TestLog::create_at(storage, Lsn::ZERO)
    }

    /// As [`TestLog::create`], with a log whose older segments are gone.
    pub(crate) fn create_at(storage: &S, start: Lsn) -> TestLog<S> {
        for dir in [Dir::Wal, Dir::Snap] {
            storage.create_dir(dir).unwrap();
        }
        let mut salts = salts(b'a');
        let header = SegmentHeader {
            node: NODE,
            cluster: CLUSTER,
            first_lsn: start,
            salt: salts(),
            epoch: Epoch::default(),
            predecessor: None,
        };
        create_segment(storage, &header, SEGMENT_BYTES).unwrap();
        let control = Control {
            node: NODE,
            cluster: CLUSTER,
            newest_segment: Some(start),
            ..Control::default()
        };
        let control = ControlFile::create(storage.clone(), control).unwrap();
        let position = Position {
            segment_first: start,
            segment_bytes: SEGMENT_BYTES,
            offset: 4096,
            lsn: start,
            holds_record: false,
            last_seal: false,
            last_record_crc: 0,
            log_time: UnixMs::ZERO,
        };
        let at = WriterPosition {
            position,
            salt: header.salt,
            segment_crc: 0,
            synced: start,
            epoch: EPOCH,
        };
        let params = WriterParams {
            node: NODE,
            cluster: CLUSTER,
        };
        let writer = LogWriter::resume(storage.clone(), control.clone(), at, params, salts).unwrap();
        let mut batch = Batch::new(position, 1 << 20);
        batch.set_segment_bytes(SEGMENT_BYTES);
        let keep = HousekeepingParams {
            keep_bytes: 0,
            first_spare: 0,
        };
        let keeper = Housekeeper::new(storage.clone(), control.clone(), keep);
        TestLog {
            writer,
            batch,
            control,
            keeper,
        }
    }

    /// Makes a spare as housekeeping does.
    pub(crate) fn make_spare(&mut self, bytes: u64) {
        let event = std::cell::RefCell::new(None);
        self.keeper
            .handle(Chore::MakeSpare { bytes }, &|done| {
                drop(event.replace(Some(done)))
            })
            .unwrap();
        match event.into_inner() {
            Some(ChoreEvent::SpareReady(spare)) => self.batch.spare_ready(spare),
            other => panic!("no spare: {other:?}"),
        }
    }

    /// Plans a group of one record with a value of so many bytes; makes the spare that it needs.
    pub(crate) fn group(&mut self, value_bytes: usize) -> Group {
        let value = vec![b'v'; value_bytes];
        let record = Record::StringPut {
            key: b"key",
            deadline: Deadline::NONE,
            value: &value,
        };
        if let Err(NotReserved::NeedsSpare { bytes }) = self.batch.reserve(record.encoded_len()) {
            self.make_spare(bytes);
        }
        self.batch.reserve(record.encoded_len()).unwrap();
        self.batch.append(UnixMs::new(1000), 0, &record);
        self.batch.take(Vec::new()).unwrap()
    }

    /// Plans and writes a group.
    pub(crate) fn write(&mut self, value_bytes: usize) -> Result<(), WriteError> {
        let mut group = self.group(value_bytes);
        self.writer.write(&mut group)
    }

    /// Fills the newest segment so that no further group fits, and makes one spare.
    pub(crate) fn fill(&mut self) {
        self.write(3950).unwrap();
        self.make_spare(SEGMENT_BYTES);
    }
}

/// One segment as it stands in a file.
pub(crate) struct SeenSegment {
    pub(crate) header: SegmentHeader,
    pub(crate) frames: Vec<FrameHeader>,
    /// CRC of all record bytes.
    pub(crate) crc: u32,
    pub(crate) end: Lsn,
    /// Whether only zeros follow the last frame.
    pub(crate) zeros: bool,
}

/// Reads whole frames from the front; stops at the first place that is none.
pub(crate) fn see_segment(bytes: &[u8]) -> Option<SeenSegment> {
    let header = SegmentHeader::decode(bytes.get(..SEGMENT_HEADER_BYTES)?).ok()?;
    let mut seen = SeenSegment {
        header,
        frames: Vec::new(),
        crc: 0,
        end: header.first_lsn,
        zeros: false,
    };
    let mut crc = crc32fast::Hasher::new();
    let mut at = SEGMENT_HEADER_BYTES;
    while let Some(frame) = FrameHeader::decode(&bytes[at..], header.salt) {
        let payload_bytes = usize::try_from(frame.payload_bytes).unwrap();
        let Some(payload) = bytes[at..].get(FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + payload_bytes) else {
            break;
        };
        let mut left = payload;
        let mut end = seen.end;
        for _ in 0..frame.count {
            let Ok(record) = RawRecord::parse(left) else { break };
            if record.lsn != end {
                break;
            }
            end = record.end();
            left = &left[record.bytes.len()..];
        }
        if frame.lsn != seen.end || !left.is_empty() {
            break;
        }
        crc.update(payload);
        seen.end = end;
        seen.frames.push(frame);
        at += usize::try_from(frame.frame_bytes()).unwrap();
    }
    seen.crc = crc.finalize();
    seen.zeros = bytes[at..].iter().all(|byte| *byte == 0);
    Some(seen)
}

/// The named segments of a disk, in order, each with what stands in it; none for one without a good header.
pub(crate) fn see_log(disk: &SimDisk) -> Vec<(Lsn, Option<SeenSegment>)> {
    let names = disk.names(Dir::Wal);
    let segments = names
        .iter()
        .filter_map(|name| parse_segment_name(name).map(|first| (first, name)));
    segments
        .map(|(first, name)| (first, see_segment(&disk.bytes(Dir::Wal, name).unwrap())))
        .collect()
}

/// The control file as it stands on a disk.
pub(crate) fn see_control(disk: &SimDisk) -> Control {
    Control::decode(&disk.bytes(Dir::Root, crate::control::CONTROL_NAME).unwrap()).unwrap()
}
