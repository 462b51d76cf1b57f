//! Whether the files of a directory fit together, before any frame is read.

use std::io;

use idem_protocol::Lsn;
use idem_protocol::wal::SEGMENT_HEADER_BYTES;

use super::{Pass, SnapshotEnd};
use crate::reader::Snapshot;
use crate::recovery::cases::Row;
use crate::recovery::inventory::{self, CONTROL_NAME, ControlFound, SegmentFile, Snapshots};
use crate::recovery::judgement::{Finding, FindingKind, UnjudgedSegment};
use crate::storage::{Dir, Storage};

impl<S: Storage> Pass<'_, S> {
    pub(super) fn check_control(&mut self, found: &ControlFound) {
        let control = |kind, message: String| Finding::new(kind, message).at(Dir::Root, CONTROL_NAME, 0);
        match found {
            ControlFound::Good(_) => {}
            ControlFound::Missing => {
                self.note(
                    Row::G,
                    control(
                        FindingKind::Row(Row::G),
                        "the control file is missing beside a log".into(),
                    ),
                );
            }
            ControlFound::Damaged => {
                self.note(
                    Row::G,
                    control(FindingKind::Row(Row::G), "the control file is damaged".into()),
                );
            }
            ControlFound::NewerFormat(format) => {
                let message = format!("the control file has format {format}, newer than this version reads");
                self.note(Row::H, control(FindingKind::Row(Row::H), message));
            }
            ControlFound::Unreadable(error) => {
                self.read_failed("the control file", Dir::Root, CONTROL_NAME, error)
            }
        }
    }

    pub(super) fn check_headers(
        &mut self,
        segments: &[SegmentFile],
        identity: Option<(idem_protocol::NodeId, idem_protocol::ClusterId)>,
    ) {
        for segment in segments {
            let Ok((_, page)) = &segment.read else { continue };
            match page.header() {
                Err(idem_protocol::wal::HeaderError::NewerFormat(format)) => {
                    let message = format!("the segment has format {format}, newer than this version reads");
                    let finding = Finding::new(FindingKind::Row(Row::H), message);
                    self.note(Row::H, finding.at(Dir::Wal, &segment.name, 0));
                }
                Err(idem_protocol::wal::HeaderError::Damaged) => {}
                Ok(header) => {
                    if let Some((node, cluster)) = identity
                        && (header.node, header.cluster) != (node, cluster)
                    {
                        let message = format!(
                            "the segment belongs to node {} of cluster {}, the directory to node {node} of cluster {cluster}",
                            header.node, header.cluster
                        );
                        let finding = Finding::new(FindingKind::Row(Row::H), message);
                        self.note(Row::H, finding.at(Dir::Wal, &segment.name, 0));
                    }
                    if page.is_half() {
                        let finding = Finding::new(
                            FindingKind::Beside,
                            "only one copy of the segment's header is good",
                        );
                        self.findings.push(finding.at(Dir::Wal, &segment.name, 0));
                    }
                }
            }
        }
    }

    /// The newest segment without a good header copy: with only zeros after its header page it was being made, and is
    /// taken out; with more, its header was lost.
    pub(super) fn take_unborn(
        &mut self,
        segments: &mut Vec<SegmentFile>,
    ) -> Result<Option<String>, (String, io::Error)> {
        let Some(newest) = segments.last() else {
            return Ok(None);
        };
        if !newest.has_lost_header() {
            return Ok(None);
        }
        let name = newest.name.clone();
        let zero = inventory::is_zero_from(self.storage, &name, SEGMENT_HEADER_BYTES as u64);
        if zero.map_err(|error| (name.clone(), error))? {
            let finding = Finding::new(
                FindingKind::Beside,
                "the newest segment was being made; it holds nothing",
            );
            self.findings.push(finding.at(Dir::Wal, &name, 0));
            segments.pop();
            return Ok(Some(name));
        }
        self.evidence.header_lost = true;
        let message = "the newest segment has no good header copy, and more than zeros after it";
        let finding = header_lost(newest, message);
        self.findings.push(finding);
        Ok(None)
    }

    pub(super) fn check_newest(&mut self, found: &ControlFound, segments: &[SegmentFile]) {
        let ControlFound::Good(control) = found else {
            return;
        };
        let Some(named) = control.newest_segment else {
            return;
        };
        let newest = segments.last();
        if newest.is_none_or(|newest| newest.first < named) {
            let name = idem_protocol::wal::segment_name(named);
            let finding = Finding::new(
                FindingKind::Row(Row::G),
                "the segment that the control file names is missing",
            );
            self.note(Row::G, finding.at(Dir::Wal, &name, 0).lsn(named));
        }
    }

    pub(super) fn check_chain(&mut self, judged: &[SegmentFile], start: Lsn) {
        let missing = |message: String, name: &str, lsn: Lsn| {
            Finding::new(FindingKind::Row(Row::G), message)
                .at(Dir::Wal, name, 0)
                .lsn(lsn)
        };
        if judged[0].first > start {
            let message = format!("the log begins at {} instead of {start}", judged[0].first);
            self.note(Row::G, missing(message, &judged[0].name, start));
        }
        for (index, segment) in judged.iter().enumerate() {
            let (bytes, header) = (segment.file_bytes(), segment.header());
            // The log cannot be read on in it, so that L lies in it or before it and the row is F, or one that comes first;
            // of the newest one that was said already.
            if segment.has_lost_header() && index + 1 < judged.len() {
                let message = "both copies of the segment's header, at offset 0 and 2048, are damaged: neither it nor what follows can be read";
                self.findings.push(header_lost(segment, message));
            }
            let Some(header) = header else { continue };
            if header.first_lsn != segment.first {
                let message = format!("the segment's header says that it begins at {}", header.first_lsn);
                self.note(Row::G, missing(message, &segment.name, header.first_lsn));
            }
            if bytes < SEGMENT_HEADER_BYTES as u64 {
                self.note(
                    Row::G,
                    missing(
                        format!("the segment has only {bytes} bytes"),
                        &segment.name,
                        segment.first,
                    ),
                );
            }
            if let Some(predecessor) = header.predecessor
                && predecessor.end_lsn != header.first_lsn
            {
                let message =
                    "the predecessor in the segment's header ends elsewhere than the segment begins";
                self.note(
                    Row::J,
                    Finding::new(FindingKind::Row(Row::J), message).at(Dir::Wal, &segment.name, 80),
                );
            }
            if index == 0 {
                continue;
            }
            let before = &judged[index - 1];
            match header.predecessor {
                Some(predecessor) if predecessor.first_lsn == before.first => {
                    let needed =
                        SEGMENT_HEADER_BYTES as u64 + predecessor.end_lsn.bytes_since(predecessor.first_lsn);
                    if before.read.is_ok() && before.file_bytes() < needed {
                        let message = format!(
                            "the segment has {} bytes, its records need {needed}",
                            before.file_bytes()
                        );
                        self.note(Row::G, missing(message, &before.name, before.first));
                    }
                }
                named => {
                    let lsn = named.map_or(Lsn::ZERO, |predecessor| predecessor.first_lsn);
                    let message = format!("the segment before {} is missing", segment.name);
                    self.note(
                        Row::G,
                        missing(message, &idem_protocol::wal::segment_name(lsn), lsn),
                    );
                }
            }
        }
    }

    /// Segments wholly below the snapshot are not read; whether one of them is missing is seen from the headers. `kept` ends
    /// with the first judged one.
    pub(super) fn check_kept(&mut self, kept: &[SegmentFile]) {
        let below = kept.len().saturating_sub(1);
        self.unjudged.extend(unread(kept).take(below));
        for pair in kept.windows(2) {
            let [before, segment] = pair else { continue };
            let named = segment.header().and_then(|header| header.predecessor);
            if named.is_some_and(|predecessor| predecessor.first_lsn != before.first) {
                let message = format!(
                    "a segment between {} and this one is missing; it lies below the snapshot, and reading from an older one \
                     would need it",
                    before.name
                );
                let finding = Finding::new(FindingKind::Beside, message);
                self.findings
                    .push(finding.at(Dir::Wal, &segment.name, 0).lsn(segment.first));
            }
        }
    }

    /// Notes which record CRCs the valid snapshots expect of the log.
    pub(super) fn expect_ends(&mut self, snapshots: &Snapshots, first: &SegmentFile) {
        let header_epoch = first.header().map(|header| header.epoch);
        let mut expect = |snapshot: &Snapshot, used: bool| {
            let trailer = &snapshot.trailer;
            // A snapshot that ends where the kept log begins: the record before it is gone, the epoch is in the header.
            let agreed = trailer.end_lsn < first.first
                || trailer.end_lsn == first.first
                    && (trailer.end_lsn == Lsn::ZERO
                        || header_epoch.is_none_or(|epoch| epoch == trailer.epoch));
            self.ends.push(SnapshotEnd {
                start: snapshot.header.start_lsn,
                end: trailer.end_lsn,
                crc: trailer.end_crc,
                used,
                agreed,
            });
        };
        if let Some(used) = &snapshots.used {
            expect(used, true);
            if used.trailer.end_lsn == first.first {
                self.last_record_crc = used.trailer.end_crc;
            }
            self.base = Some((used.trailer.end_lsn, used.trailer.log_time));
        }
        snapshots.others.iter().for_each(|other| expect(other, false));
    }
}

/// Segments as they are known without reading their frames.
pub(super) fn unread(segments: &[SegmentFile]) -> impl Iterator<Item = UnjudgedSegment> {
    segments.iter().enumerate().map(|(index, segment)| {
        let next = segments.get(index + 1).and_then(SegmentFile::header);
        let named = next.and_then(|header| header.predecessor);
        UnjudgedSegment {
            name: segment.name.clone(),
            first: segment.first,
            sealed: named
                .filter(|predecessor| predecessor.first_lsn == segment.first)
                .map(|predecessor| (predecessor.end_lsn, predecessor.crc)),
            file_bytes: segment.read.as_ref().ok().map(|(bytes, _)| *bytes),
        }
    })
}

/// That neither copy of a segment's header is good.
fn header_lost(segment: &SegmentFile, message: &str) -> Finding {
    let mut finding = Finding::new(FindingKind::Row(Row::F), message)
        .at(Dir::Wal, &segment.name, 0)
        .lsn(segment.first);
    if let Some((written, found)) = segment.read.as_ref().ok().and_then(|(_, page)| page.crcs) {
        finding = finding.crcs(written, found);
    }
    finding
}
