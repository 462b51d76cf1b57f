//! Reading the judged segments, frame by frame, until L.

use std::io;

use idem_protocol::wal::{BodyError, FRAME_HEADER_BYTES, Opcode, Record, SEGMENT_HEADER_BYTES, scan};
use idem_protocol::{HistoryEntry, Lsn};

use super::checks::unread;
use super::{Pass, Reached, Unvouched};
use crate::reader::{Frame, SegmentReader, Step, Stop};
use crate::recovery::cases::Row;
use crate::recovery::inventory::SegmentFile;
use crate::recovery::judge::{Place, Sink, later};
use crate::recovery::judgement::{Finding, FindingKind, SegmentSummary};
use crate::recovery::tail::TailImage;
use crate::storage::{Dir, Storage};

impl<S: Storage> Pass<'_, S> {
    /// Reads frames until L.
    pub(super) fn read(
        &mut self,
        judged: Vec<SegmentFile>,
        start: Lsn,
        sink: &mut dyn Sink,
    ) -> Result<Reached<S>, (String, io::Error)> {
        if let Some(header) = judged[0].header() {
            self.epoch = header.epoch;
        }
        let count = judged.len();
        let mut lsn = judged[0].first;
        let mut successors: Vec<_> = judged.iter().skip(1).map(|next| next.header()).collect();
        successors.push(None);
        self.unread = unread(&judged).collect();
        let lost: Vec<Option<(Lsn, String)>> = judged
            .iter()
            .skip(1)
            .map(|next| next.has_lost_header().then(|| (next.first, next.name.clone())))
            .collect();
        for (index, (segment, successor)) in judged.into_iter().zip(successors).enumerate() {
            let name = segment.name.clone();
            let failed = |error: io::Error| (name.clone(), error);
            if let Err(error) = &segment.read {
                return Err(failed(io::Error::other(error.clone())));
            }
            let is_newest = index + 1 == count;
            let Some(header) = segment.header() else {
                return Ok(Reached {
                    segment,
                    reader: None,
                    offset: 0,
                    lsn,
                    is_newest,
                    segment_crc: 0,
                    last_seal: false,
                    stop: None,
                    lost_next: None,
                    tail: None,
                });
            };
            let file = self.storage.open(Dir::Wal, &name).map_err(failed)?;
            let mut reader = SegmentReader::new(file, header).map_err(failed)?;
            let mut crc = crc32fast::Hasher::new();
            let mut tail = (is_newest && self.options.retain_tail).then(TailImage::default);
            let mut summary = SegmentSummary {
                name: name.clone(),
                first: segment.first,
                end: segment.first,
                frames: 0,
                seals: 0,
                records: 0,
                file_bytes: segment.file_bytes(),
                used_bytes: SEGMENT_HEADER_BYTES as u64,
            };
            let mut last_seal = false;
            let stop = loop {
                match reader.next_frame().map_err(failed)? {
                    Step::Stop(stop) => break stop,
                    Step::Frame(frame) => {
                        self.take_frame(&name, &frame, start, sink);
                        crc.update(frame.payload);
                        last_seal = frame.header.seal;
                        summary.frames += u64::from(!frame.header.seal);
                        summary.seals += u64::from(frame.header.seal);
                        summary.records += u64::from(frame.header.count);
                        if let Some(tail) = tail.as_mut() {
                            let held =
                                tail.push_frame(frame.header.lsn, frame.offset, frame.bytes, self.mark);
                            held.map_err(failed)?;
                        }
                    }
                }
            };
            lsn = reader.lsn();
            summary.end = lsn;
            summary.used_bytes = reader.offset();
            self.segments.push(summary);
            self.unread.pop_front();
            let segment_crc = crc.finalize();
            if let Some(predecessor) = successor.and_then(|next| next.predecessor)
                && predecessor.first_lsn == segment.first
            {
                if lsn > predecessor.end_lsn {
                    let message = format!(
                        "records go on to {lsn}, the next segment says {}",
                        predecessor.end_lsn
                    );
                    let finding = Finding::new(FindingKind::Row(Row::J), message);
                    self.note(Row::J, finding.at(Dir::Wal, &name, reader.offset()).lsn(lsn));
                } else if lsn == predecessor.end_lsn {
                    if segment_crc != predecessor.crc {
                        self.evidence.successor_crc_differs = true;
                        let found = self.reason(
                            Row::F,
                            "the records are not those that the next segment vouches for",
                        );
                        *found = found
                            .clone()
                            .at(Dir::Wal, &name, 0)
                            .lsn(lsn)
                            .crcs(predecessor.crc, segment_crc);
                    }
                    continue;
                }
            }
            let offset = reader.offset();
            return Ok(Reached {
                segment,
                reader: Some(reader),
                offset,
                lsn,
                is_newest,
                segment_crc,
                last_seal,
                stop: Some(stop),
                lost_next: lost
                    .into_iter()
                    .nth(index)
                    .flatten()
                    .filter(|(first, _)| *first == lsn && matches!(stop, Stop::EndOfFile | Stop::NoHeader))
                    .map(|(_, name)| name),
                tail,
            });
        }
        unreachable!("the newest segment has no successor, so reading returns there")
    }

    pub(super) fn take_frame(&mut self, name: &str, frame: &Frame<'_>, start: Lsn, sink: &mut dyn Sink) {
        let header = &frame.header;
        let place = Place {
            file: name,
            offset: frame.offset,
        };
        let impossible = |message: String| {
            Finding::new(FindingKind::Row(Row::J), message)
                .at(Dir::Wal, name, frame.offset)
                .lsn(header.lsn)
        };
        if header.synced > header.lsn {
            self.note(
                Row::J,
                impossible(format!("synced mark {} above its own frame", header.synced)),
            );
        }
        if header.synced < self.mark {
            self.note(
                Row::J,
                impossible(format!("synced mark {} after {}", header.synced, self.mark)),
            );
        }
        if header.seal != (header.count == 0) {
            self.note(
                Row::J,
                impossible("a seal with records, or a group without".into()),
            );
        }
        self.mark = self.mark.max(header.synced);
        if self.options.live {
            while let Some(frame) = self.unvouched.pop_front_if(|frame| frame.end <= self.mark) {
                self.vouched_time = frame.time;
            }
        }
        sink.frame(place, header);
        for (at, raw) in scan::records(frame.payload) {
            let offset = frame.offset + (FRAME_HEADER_BYTES + at) as u64;
            let here = |row: Row, message: String| {
                Finding::new(FindingKind::Row(row), message)
                    .at(Dir::Wal, name, offset)
                    .lsn(raw.lsn)
            };
            if raw.time < self.read_time {
                let message = format!("time {} after {}", raw.time, self.read_time);
                self.note(Row::J, here(Row::J, message));
            }
            self.read_time = later(self.read_time, raw.time);
            self.records += 1;
            self.last_record_crc = raw.crc;
            for end in self.ends.iter_mut().filter(|end| end.end == raw.end()) {
                end.agreed = end.crc == raw.crc;
            }
            match raw.decode() {
                Ok(record) => {
                    if let Record::EpochStart { epoch, node, .. } = record {
                        self.epoch = epoch;
                        self.epochs.push(HistoryEntry {
                            epoch,
                            node,
                            first_lsn: raw.lsn,
                        });
                    }
                    if raw.lsn >= start {
                        sink.record(Place { file: name, offset }, &raw, &record);
                    }
                }
                Err(BodyError::UnknownOpcode(opcode)) => {
                    self.note(
                        Row::H,
                        here(
                            Row::H,
                            format!("unknown opcode {opcode}: written by a newer version"),
                        ),
                    );
                }
                Err(error) => {
                    let kind = Opcode::from_byte(raw.opcode).map_or("record", Opcode::name);
                    self.note(
                        Row::J,
                        here(Row::J, format!("{kind} with an impossible body: {error}")),
                    );
                }
            }
        }
        let end = header.end().unwrap_or(Lsn::MAX);
        self.read_to = end;
        if self.options.live {
            self.unvouched.push_back(Unvouched {
                end,
                records: u64::from(header.count),
                time: self.read_time,
            });
        }
    }
}
