//! One reading of a directory, from the control file to what stands after L.

use std::collections::VecDeque;
use std::io;

use idem_protocol::wal::{BodyError, FRAME_HEADER_BYTES, Opcode, Record, SEGMENT_HEADER_BYTES, scan};
use idem_protocol::{Epoch, HistoryEntry, Lsn, UnixMs};

use super::cases::{CleanMark, Evidence, Row};
use super::inventory::{self, CONTROL_NAME, ControlFound, SegmentFile, Snapshots};
use super::judge::{JudgeOptions, Place, Sink, later};
use super::judgement::{Finding, FindingKind, Judgement, LogEnd, SegmentSummary, SnapshotSummary};
use super::tail::TailImage;
use super::witness;
use crate::reader::{Frame, SegmentReader, Snapshot, Step, Stop, snapshot};
use crate::storage::{Dir, Storage};

/// What a reading ends with.
pub(super) enum Outcome {
    Judged(Box<Judgement>),
    /// The log has another record where this snapshot ends: read again without it.
    SnapshotContradicted(Lsn),
}

/// The state of one reading.
pub(super) struct Pass<'a, S: Storage> {
    storage: &'a S,
    options: &'a JudgeOptions,
    excluded: &'a [Lsn],
    evidence: Evidence,
    findings: Vec<Finding>,
    segments: Vec<SegmentSummary>,
    epochs: Vec<HistoryEntry>,
    records: u64,
    /// Segments wholly below the snapshot.
    unjudged: usize,
    /// Of a live directory: the end and the number of records of each frame above the highest mark so far.
    unvouched: VecDeque<(Lsn, u64)>,
    log_time: UnixMs,
    epoch: Epoch,
    /// The highest synced mark of a valid frame.
    mark: Lsn,
    last_record_crc: u32,
    /// Ends of snapshots that the log has to agree with, and whether it does.
    ends: Vec<SnapshotEnd>,
}

struct SnapshotEnd {
    start: Lsn,
    end: Lsn,
    crc: u32,
    used: bool,
    agreed: bool,
}

/// Where reading stopped.
struct Reached<S: Storage> {
    segment: SegmentFile,
    reader: Option<SegmentReader<S::File>>,
    offset: u64,
    lsn: Lsn,
    is_newest: bool,
    segment_crc: u32,
    last_seal: bool,
    stop: Option<Stop>,
    tail: Option<TailImage>,
}

impl<'a, S: Storage> Pass<'a, S> {
    pub(super) fn new(storage: &'a S, options: &'a JudgeOptions, excluded: &'a [Lsn]) -> Self {
        Pass {
            storage,
            options,
            excluded,
            evidence: Evidence::default(),
            findings: Vec::new(),
            segments: Vec::new(),
            epochs: Vec::new(),
            records: 0,
            unjudged: 0,
            unvouched: VecDeque::new(),
            log_time: UnixMs::ZERO,
            epoch: Epoch::default(),
            mark: Lsn::ZERO,
            last_record_crc: 0,
            ends: Vec::new(),
        }
    }

    fn note(&mut self, row: Row, finding: Finding) {
        let flag = match row {
            Row::I => &mut self.evidence.read_failed,
            Row::H => &mut self.evidence.foreign,
            Row::G => &mut self.evidence.incomplete,
            Row::J => &mut self.evidence.impossible,
            _ => unreachable_row(row),
        };
        *flag = true;
        self.findings.push(Finding {
            kind: FindingKind::Row(row),
            ..finding
        });
    }

    fn reason(&mut self, row: Row, message: impl Into<String>) -> &mut Finding {
        self.findings.push(Finding::new(FindingKind::Row(row), message));
        self.findings.last_mut().expect("a finding was pushed")
    }

    fn read_failed(&mut self, what: &str, dir: Dir, name: &str, error: &dyn std::fmt::Display) {
        let message = format!("{what} cannot be read: {error}");
        self.note(
            Row::I,
            Finding::new(FindingKind::Row(Row::I), message).at(dir, name, 0),
        );
    }

    pub(super) fn run(mut self, sink: &mut dyn Sink) -> Outcome {
        let found = inventory::read_control(self.storage);
        let listed = inventory::list_segments(self.storage).and_then(|segments| {
            let snapshots = snapshot::list(self.storage)?;
            Ok((segments, snapshots))
        });
        let ((mut segments, strange), (starts, strange_snapshots)) = match listed {
            Ok(listed) => listed,
            Err(error) => {
                self.read_failed("the directory", Dir::Wal, "", &error);
                return self.finish(&found, Snapshots::default(), None, None, None);
            }
        };
        match inventory::is_new(
            self.storage,
            &found,
            &segments,
            !starts.is_empty() || !strange_snapshots.is_empty(),
        ) {
            Ok(true) if strange.is_empty() => {
                return Outcome::Judged(Box::new(self.judgement(Row::New, None, Lsn::ZERO)));
            }
            Ok(_) => {}
            Err(error) => self.read_failed("the only segment", Dir::Wal, &segments[0].name, &error),
        }
        self.check_control(&found);
        for name in strange {
            let finding = Finding::new(
                FindingKind::Row(Row::G),
                "not the name of a segment, though it ends in .wal",
            );
            self.note(Row::G, finding.at(Dir::Wal, &name, 0));
        }
        for name in strange_snapshots {
            let finding = Finding::new(FindingKind::Beside, "not the name of a snapshot; it is not used");
            self.findings.push(finding.at(Dir::Snap, &name, 0));
        }
        let identity = inventory::identity(&found, &segments);
        self.check_headers(&segments, identity);
        let cluster = identity.map(|(_, cluster)| cluster);
        let mut snapshots = inventory::read_snapshots(
            self.storage,
            &starts,
            self.excluded,
            cluster,
            self.options.all_snapshots,
            sink,
        );
        for finding in std::mem::take(&mut snapshots.findings) {
            if finding.kind == FindingKind::Beside {
                self.findings.push(finding);
            } else {
                self.note(Row::H, finding);
            }
        }
        let start = snapshots
            .used
            .as_ref()
            .map_or(Lsn::ZERO, |snapshot| snapshot.header.start_lsn);

        let aside = match self.take_unborn(&mut segments) {
            Ok(aside) => aside,
            Err((name, error)) => {
                self.read_failed("the newest segment", Dir::Wal, &name, &error);
                None
            }
        };
        self.check_newest(&found, &segments);
        let judged = segments
            .partition_point(|segment| segment.first <= start)
            .saturating_sub(1);
        self.check_kept(segments.get(..=judged).unwrap_or_default());
        let judged: Vec<SegmentFile> = segments.drain(judged.min(segments.len())..).collect();
        if judged.is_empty() {
            self.note(
                Row::G,
                Finding::new(FindingKind::Row(Row::G), "no segment of the log is left"),
            );
            return self.finish(&found, snapshots, None, aside, Some(start));
        }
        for segment in &judged {
            if let Err(error) = &segment.read {
                self.read_failed("a segment", Dir::Wal, &segment.name, error);
            }
        }
        self.check_chain(&judged, start);
        self.expect_ends(&snapshots, &judged[0]);
        let reached = match self.read(judged, start, sink) {
            Ok(reached) => reached,
            Err((name, error)) => {
                self.read_failed("a segment", Dir::Wal, &name, &error);
                return self.finish(&found, snapshots, None, aside, Some(start));
            }
        };
        for end in &self.ends {
            if end.used && !end.agreed && end.end <= reached.lsn {
                return Outcome::SnapshotContradicted(end.start);
            }
        }
        self.finish(&found, snapshots, Some(reached), aside, Some(start))
    }

    fn check_control(&mut self, found: &ControlFound) {
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

    fn check_headers(
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
    fn take_unborn(
        &mut self,
        segments: &mut Vec<SegmentFile>,
    ) -> Result<Option<String>, (String, io::Error)> {
        let Some(newest) = segments.last() else {
            return Ok(None);
        };
        let damaged = matches!(
            newest.read.as_ref().map(|(_, page)| page.header()),
            Ok(Err(idem_protocol::wal::HeaderError::Damaged))
        );
        if !damaged {
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
        let found = self.reason(
            Row::F,
            "the newest segment has no good header copy, and more than zeros after it",
        );
        found.place = Some(super::judgement::Found {
            dir: Dir::Wal,
            name,
            offset: 0,
        });
        Ok(None)
    }

    fn check_newest(&mut self, found: &ControlFound, segments: &[SegmentFile]) {
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

    fn check_chain(&mut self, judged: &[SegmentFile], start: Lsn) {
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
    fn check_kept(&mut self, kept: &[SegmentFile]) {
        self.unjudged = kept.len().saturating_sub(1);
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

    /// A segment is made at its full length before it gets its name, and behind every frame but a seal there is room for a
    /// seal. A newest segment without that room was cut short by something else. The rows do not know it (what follows L
    /// is nothing, or junk), but a person should.
    fn check_length(&mut self, reached: &Reached<S>) {
        let Some(reader) = &reached.reader else { return };
        let left = reader.file_bytes().saturating_sub(reached.offset);
        let no_room = !reached.last_seal && left < FRAME_HEADER_BYTES as u64;
        if no_room || matches!(reached.stop, Some(Stop::PayloadOutsideFile(_))) {
            let message = "the newest segment ends where it cannot: it was cut short after it was written, and the log may have \
                           gone on";
            let finding = Finding::new(FindingKind::Beside, message);
            self.findings.push(
                finding
                    .at(Dir::Wal, &reached.segment.name, reader.file_bytes())
                    .lsn(reached.lsn),
            );
        }
    }

    /// Notes which record CRCs the valid snapshots expect of the log.
    fn expect_ends(&mut self, snapshots: &Snapshots, first: &SegmentFile) {
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
            self.log_time = used.trailer.log_time;
        }
        snapshots.others.iter().for_each(|other| expect(other, false));
    }

    /// Reads frames until L.
    fn read(
        &mut self,
        judged: Vec<SegmentFile>,
        start: Lsn,
        sink: &mut dyn Sink,
    ) -> Result<Reached<S>, (String, io::Error)> {
        if let Some(header) = judged[0].header() {
            self.epoch = header.epoch;
        }
        let mut time = UnixMs::ZERO;
        let count = judged.len();
        let mut lsn = judged[0].first;
        let mut successors: Vec<_> = judged.iter().skip(1).map(|next| next.header()).collect();
        successors.push(None);
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
                        self.take_frame(&name, &frame, start, &mut time, sink);
                        crc.update(frame.payload);
                        last_seal = frame.header.seal;
                        summary.frames += u64::from(!frame.header.seal);
                        summary.seals += u64::from(frame.header.seal);
                        summary.records += u64::from(frame.header.count);
                        if let Some(tail) = tail.as_mut() {
                            tail.push_frame(frame.header.lsn, frame.offset, frame.bytes, self.mark);
                        }
                    }
                }
            };
            lsn = reader.lsn();
            summary.end = lsn;
            summary.used_bytes = reader.offset();
            self.segments.push(summary);
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
                tail,
            });
        }
        unreachable!("the newest segment has no successor, so reading returns there")
    }

    fn take_frame(
        &mut self,
        name: &str,
        frame: &Frame<'_>,
        start: Lsn,
        time: &mut UnixMs,
        sink: &mut dyn Sink,
    ) {
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
            while self.unvouched.front().is_some_and(|(end, _)| *end <= self.mark) {
                self.unvouched.pop_front();
            }
            let end = header.end().unwrap_or(Lsn::MAX);
            self.unvouched.push_back((end, u64::from(header.count)));
        }
        sink.frame(place, header);
        for (at, raw) in scan::records(frame.payload) {
            let offset = frame.offset + (idem_protocol::wal::FRAME_HEADER_BYTES + at) as u64;
            let here = |row: Row, message: String| {
                Finding::new(FindingKind::Row(row), message)
                    .at(Dir::Wal, name, offset)
                    .lsn(raw.lsn)
            };
            if raw.time < *time {
                self.note(Row::J, here(Row::J, format!("time {} after {time}", raw.time)));
            }
            *time = later(*time, raw.time);
            self.log_time = later(self.log_time, raw.time);
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
    }

    fn finish(
        mut self,
        found: &ControlFound,
        snapshots: Snapshots,
        reached: Option<Reached<S>>,
        aside: Option<String>,
        start: Option<Lsn>,
    ) -> Outcome {
        let control = match found {
            ControlFound::Good(control) => Some(control.as_ref().clone()),
            _ => None,
        };
        let lsn = reached
            .as_ref()
            .map_or(start.unwrap_or_default(), |reached| reached.lsn);
        let end = reached.and_then(|reached| self.look_after(reached, &snapshots, control.as_ref()));
        for stale in self
            .ends
            .iter()
            .filter(|end| !end.used && !end.agreed && end.end <= lsn)
        {
            let name = idem_protocol::wal::snapshot_name(stale.start);
            let finding = Finding::new(
                FindingKind::Beside,
                "the log contradicts this snapshot; it would not be used",
            );
            self.findings.push(finding.at(Dir::Snap, &name, 0).lsn(stale.end));
        }
        let row = self.evidence.classify();
        let mut judgement = self.judgement(row, end, lsn);
        judgement.control = control;
        judgement.aside = aside;
        judgement.snapshot = snapshots.used.map(|used| SnapshotSummary {
            name: used.name,
            start: used.header.start_lsn,
            end: used.trailer.end_lsn,
            items: used.items,
        });
        Outcome::Judged(Box::new(judgement))
    }

    /// The witnesses: what stands after L, and what vouches for more than L from elsewhere.
    fn look_after(
        &mut self,
        mut reached: Reached<S>,
        snapshots: &Snapshots,
        control: Option<&idem_protocol::control::Control>,
    ) -> Option<LogEnd> {
        let (name, lsn, offset) = (reached.segment.name.clone(), reached.lsn, reached.offset);
        let mut tail = reached.tail.take();
        let mut promises: Vec<(Lsn, String)> = Vec::new();
        if !reached.is_newest {
            self.evidence.has_successor = true;
            let found = self.reason(
                Row::F,
                format!(
                    "the log ends here, though a later segment exists: {}",
                    describe(&reached.stop)
                ),
            );
            *found = found.clone().at(Dir::Wal, &name, offset).lsn(lsn);
            with_crcs(found, &reached.stop);
        }
        if reached.is_newest {
            self.check_length(&reached);
        }
        if let Some(reader) = reached.reader.as_mut() {
            if let Some(Stop::LsnGap(header)) = reached.stop {
                let message = format!("a frame of lsn {} where {lsn} belongs", header.lsn);
                let finding = Finding::new(FindingKind::Row(Row::J), message);
                self.note(Row::J, finding.at(Dir::Wal, &name, offset).lsn(lsn));
            }
            match witness::search(reader, tail.as_mut()) {
                Ok(after) => {
                    self.evidence.junk = after.junk;
                    self.evidence.witnesses = !after.witnesses.is_empty();
                    for (at, header) in &after.witnesses {
                        if header.lsn == lsn {
                            self.evidence.seal_missing = true;
                            let found = self.reason(
                                Row::F,
                                "a seal is missing before a later frame that begins at the same lsn",
                            );
                            *found = found.clone().at(Dir::Wal, &name, offset).lsn(lsn);
                        }
                        promises.push((header.synced, format!("the frame at {name}+{at}")));
                    }
                    if let Some((at, header)) = after.witnesses.first() {
                        let message = format!(
                            "{}; later frames stand intact, the first at offset {at}",
                            describe(&reached.stop)
                        );
                        let found = self.reason(Row::D, message);
                        *found = found
                            .clone()
                            .at(Dir::Wal, &name, offset)
                            .lsn(lsn)
                            .promised(header.synced);
                        with_crcs(found, &reached.stop);
                    } else if after.junk {
                        let message = format!("{}; nothing after it vouches for it", describe(&reached.stop));
                        for row in [Row::C, Row::E] {
                            let found = self.reason(row, message.clone());
                            *found = found.clone().at(Dir::Wal, &name, offset).lsn(lsn);
                            with_crcs(found, &reached.stop);
                        }
                    }
                }
                Err(error) => self.read_failed("the rest of a segment", Dir::Wal, &name, &error),
            }
        }
        let all = snapshots.used.iter().chain(&snapshots.others);
        promises.extend(all.map(|snapshot| {
            (
                snapshot.trailer.end_lsn,
                format!("the end of snap/{}", snapshot.name),
            )
        }));
        if let Some(control) = control {
            for entry in &control.history {
                promises.push((
                    entry.first_lsn,
                    format!("the first lsn of epoch {} in control", entry.epoch.number),
                ));
            }
            if let Some(clean) = control.clean_end {
                self.evidence.clean = match clean.cmp(&lsn) {
                    std::cmp::Ordering::Less => CleanMark::Below,
                    std::cmp::Ordering::Equal => CleanMark::At,
                    std::cmp::Ordering::Greater => CleanMark::Above,
                };
                if clean < lsn {
                    let found = self.reason(
                        Row::J,
                        format!("records go on to {lsn} after a clean shutdown at {clean}"),
                    );
                    *found = found.clone().at(Dir::Root, CONTROL_NAME, 0).lsn(lsn);
                }
                promises.push((clean, "the clean mark in control".to_owned()));
            }
        }
        let highest = promises.iter().max_by_key(|(promised, _)| *promised);
        if let Some((promised, witness)) = highest
            && *promised > lsn
        {
            self.evidence.promised_more = true;
            let message = format!(
                "the log ends at {lsn} ({}), and {witness} promises {promised}",
                describe(&reached.stop)
            );
            let found = self.reason(Row::F, message);
            *found = found
                .clone()
                .at(Dir::Wal, &name, offset)
                .lsn(lsn)
                .promised(*promised);
            with_crcs(found, &reached.stop);
        }
        let witnessed = highest.map_or(self.mark, |(promised, _)| self.mark.max(*promised));
        if let Some(tail) = tail.as_mut() {
            tail.drop_below(witnessed);
        }
        let header = reached.segment.header()?;
        Some(LogEnd {
            segment_first: reached.segment.first,
            salt: header.salt,
            segment_bytes: reached.reader.as_ref().map_or(0, SegmentReader::file_bytes),
            segment: name,
            offset,
            segment_crc: reached.segment_crc,
            last_seal: reached.last_seal,
            last_record_crc: self.last_record_crc,
            epoch: self.epoch,
            unvouched_records: self
                .unvouched
                .iter()
                .filter(|(end, _)| *end > witnessed)
                .map(|(_, count)| count)
                .sum(),
            witnessed,
            tail,
        })
    }

    fn judgement(self, row: Row, end: Option<LogEnd>, end_lsn: Lsn) -> Judgement {
        let mut findings = self.findings;
        findings.sort_by_key(|finding| finding.kind != FindingKind::Row(row));
        Judgement {
            verdict: row.into(),
            row,
            live: false,
            end_lsn,
            log_time: self.log_time,
            records: self.records,
            unjudged_segments: self.unjudged,
            findings,
            segments: self.segments,
            control: None,
            snapshot: None,
            epochs: self.epochs,
            end,
            aside: None,
        }
    }
}

/// What is at L instead of a frame, in words.
fn describe(stop: &Option<Stop>) -> String {
    match stop {
        None => "no header".to_owned(),
        Some(Stop::EndOfFile) => "the file ends".to_owned(),
        Some(Stop::NoHeader) => "no frame header".to_owned(),
        Some(Stop::PayloadOutsideFile(header)) => {
            format!("a frame of {} bytes reaches past the file", header.payload_bytes)
        }
        Some(Stop::LsnGap(header)) => format!("a frame of lsn {}", header.lsn),
        Some(Stop::Payload(_, error)) => format!("a frame with a bad record: {error}"),
    }
}

/// The two checksums of a bad record, for the finding that speaks of it.
fn with_crcs(finding: &mut Finding, stop: &Option<Stop>) {
    use idem_protocol::wal::{RecordError, scan::PayloadError};
    if let Some(Stop::Payload(
        _,
        PayloadError::Record {
            error: RecordError::Crc { expected, found },
            ..
        },
    )) = stop
    {
        finding.expected_crc = Some(*expected);
        finding.found_crc = Some(*found);
    }
}

fn unreachable_row(row: Row) -> ! {
    unreachable!("row {row:?} has no flag of its own")
}
