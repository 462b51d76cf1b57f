//! The log's bytes: records (the same on every node), frames and segment headers (local to a node).

mod fields;
pub mod frame;
mod opcode;
mod raw;
pub mod record;
pub mod scan;
pub mod segment_header;
mod sub_records;

pub use fields::{MemberList, Pair, Pairs, Strings};
pub use frame::{FRAME_ALIGN, FRAME_HEADER_BYTES, FrameHeader, Salt, padded};
pub use opcode::{DeleteReason, EpochReason, Opcode};
pub use raw::{RawRecord, RecordError};
pub use record::{BodyError, RECORD_BYTES_MAX, RECORD_HEADER_BYTES, Record};
pub use segment_header::{
    FORMAT_VERSION, HeaderError, Predecessor, SECOND_COPY_OFFSET, SEGMENT_HEADER_BYTES, SegmentHeader,
    parse_segment_name, parse_snapshot_name, segment_name, snapshot_name,
};
pub use sub_records::{SubRecords, SubRecordsBuf};
