//! The newest records that were read, to be compared with what the log holds now.
//!
//! A record is known by its position and its checksum: another log has others from the place on where the two part. Of what
//! was read before the oldest one that is remembered nothing can be told; where the logs part as early as that, the words
//! say so.
//!
//! Deliberately absent: when to compare, and reading on where the logs part. That is the follower's.

use std::collections::VecDeque;

use idem_protocol::Lsn;
use idem_protocol::wal::RawRecord;
use idem_wal::reader::{LogReader, LogStep, Past, frame_records};

use crate::exit::Failure;
use crate::view::View;

/// How many records are remembered: a start takes back the last moments, and a mebibyte holds so many.
const TRAIL_RECORDS: usize = 1 << 16;

/// The newest records that were read.
#[derive(Debug, Default)]
pub(super) struct Trail {
    /// Their positions and checksums, in order.
    records: VecDeque<(Lsn, u32)>,
    /// Whether there were more before.
    forgot: bool,
    /// Where the newest one ends.
    pub(super) end: Option<Lsn>,
}

impl Trail {
    pub(super) fn push(&mut self, raw: &RawRecord<'_>) {
        if self.records.len() == TRAIL_RECORDS {
            self.records.pop_front();
            self.forgot = true;
        }
        self.records.push_back((raw.lsn, raw.crc));
        self.end = Some(raw.end());
    }

    /// The oldest position that is remembered.
    pub(super) fn begin(&self) -> Lsn {
        let oldest = self.records.front().map(|(lsn, _)| *lsn);
        oldest.or(self.end).unwrap_or(Lsn::ZERO)
    }

    /// Up to where `reader`'s log holds the records that are remembered. What it does not reach back to was removed, and says
    /// nothing; nor does what is passed over when `past_damage` was asked for.
    pub(super) fn compare(&self, reader: &mut LogReader<View>, past_damage: bool) -> Result<Lsn, Failure> {
        let begin = self.begin();
        let mut known = self.records.iter().copied().peekable();
        let mut agreed = None;
        // Whether the next record has to be the next one that is known.
        let mut follows = false;
        loop {
            match reader.next_step().map_err(Failure::io("reading the log"))? {
                LogStep::Frame { file, frame } => {
                    for record in frame_records(file, frame).filter(|record| record.raw.lsn >= begin) {
                        let raw = record.raw;
                        while !follows && known.next_if(|(lsn, _)| *lsn < raw.lsn).is_some() {}
                        follows = true;
                        match known.next() {
                            Some(one) if one == (raw.lsn, raw.crc) => agreed = Some(raw.end()),
                            Some((lsn, _)) => return Ok(lsn.min(raw.lsn)),
                            None => return Ok(agreed.or(self.end).unwrap_or(begin)),
                        }
                    }
                    continue;
                }
                LogStep::Removed { .. } => {
                    follows = false;
                    continue;
                }
                LogStep::End { .. } => {}
            }
            follows = false;
            if !past_damage
                || matches!(
                    reader.pass(true).map_err(Failure::io("reading the log"))?,
                    Past::Over
                )
            {
                return Ok(agreed.unwrap_or(begin));
            }
        }
    }

    /// Forgets what is no longer in the log; says what that is.
    pub(super) fn cut(&mut self, at: Lsn) -> Option<String> {
        let end = self.end.filter(|end| *end > at)?;
        let kept = self.records.partition_point(|(lsn, _)| *lsn < at);
        let gone = self.records.len() - kept;
        self.records.truncate(kept);
        self.end = Some(at);
        let or_earlier = if kept == 0 && self.forgot {
            " or earlier"
        } else {
            ""
        };
        let records = match gone {
            1 => "1 record".to_owned(),
            _ => format!("{gone} records"),
        };
        Some(format!(
            "lsn {at}{or_earlier} to {end}: {records} that were read before are no longer in the log; what was printed of \
             that range does not hold, and the log goes on at lsn {at}"
        ))
    }
}
