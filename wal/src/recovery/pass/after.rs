//! What stands after L and beside the log, and what it promises.

use idem_protocol::Lsn;
use idem_protocol::control::Control;
use idem_protocol::wal::FRAME_HEADER_BYTES;

use super::{Pass, Reached};
use crate::reader::{SegmentReader, Stop};
use crate::recovery::cases::{CleanMark, Row};
use crate::recovery::inventory::{CONTROL_NAME, Snapshots};
use crate::recovery::judgement::{CUT_SHORT, Finding, FindingKind, LogEnd};
use crate::recovery::tail::TailImage;
use crate::recovery::witness::{self, After};
use crate::storage::{Dir, Storage};

impl<S: Storage> Pass<'_, S> {
    /// A segment is made at its full length before it gets its name, and behind every frame but a seal there is room for a
    /// seal. A newest segment without that room was cut short by something else. The rows do not know it (what follows L
    /// is nothing, or junk), but a person should.
    pub(super) fn check_length(&mut self, reached: &Reached<S>) {
        let Some(reader) = &reached.reader else { return };
        let left = reader.file_bytes().saturating_sub(reached.offset);
        let no_room = !reached.last_seal && left < FRAME_HEADER_BYTES as u64;
        if no_room || matches!(reached.stop, Some(Stop::PayloadOutsideFile(_))) {
            let finding = Finding::new(FindingKind::Beside, CUT_SHORT);
            self.findings.push(
                finding
                    .at(Dir::Wal, &reached.segment.name, reader.file_bytes())
                    .lsn(reached.lsn),
            );
        }
    }

    /// The witnesses: what stands after L, and what vouches for more than L from elsewhere.
    pub(super) fn look_after(
        &mut self,
        mut reached: Reached<S>,
        snapshots: &Snapshots,
        control: Option<&Control>,
    ) -> Option<LogEnd> {
        if reached.is_newest {
            self.check_length(&reached);
        } else {
            self.evidence.has_successor = true;
        }
        // What is behind a lost header was said of that header; here nothing is damaged.
        if !reached.is_newest && reached.lost_next.is_none() {
            let what = describe(&reached.stop);
            self.reason_at(
                &reached,
                Row::F,
                format!("the log ends here, though a later segment exists: {what}"),
            );
        }
        if let Some(Stop::LsnGap(header)) = reached.stop {
            self.evidence.impossible = true;
            let message = format!("a frame of lsn {} where {} belongs", header.lsn, reached.lsn);
            self.reason_at(&reached, Row::J, message);
        }
        let mut tail = reached.tail.take();
        let mut promises: Vec<(Lsn, String)> = Vec::new();
        if let Some(reader) = reached.reader.as_mut() {
            match witness::search(reader, tail.as_mut()) {
                Ok(after) => promises.extend(self.take_after(&reached, after)),
                Err(error) => {
                    self.read_failed("the rest of a segment", Dir::Wal, &reached.segment.name, &error)
                }
            }
        }
        for snapshot in snapshots.used.iter().chain(&snapshots.others) {
            promises.push((
                snapshot.trailer.end_lsn,
                format!("the end of snap/{}", snapshot.name),
            ));
        }
        if let Some(control) = control {
            promises.extend(control.history.iter().map(|entry| {
                let witness = format!("the first lsn of epoch {} in control", entry.epoch.number);
                (entry.first_lsn, witness)
            }));
            promises.extend(self.take_clean_mark(control.clean_end, reached.lsn));
        }
        let highest = promises.into_iter().max_by_key(|(promised, _)| *promised);
        if let Some((promised, witness)) = &highest
            && *promised > reached.lsn
        {
            self.evidence.promised_more = true;
            let lost = reached.lost_next.as_deref();
            let what = lost.map_or_else(
                || describe(&reached.stop),
                |_| "the header of the next segment is damaged".to_owned(),
            );
            let message = format!(
                "the log ends at {} ({what}), and {witness} promises {promised}",
                reached.lsn
            );
            let reason = self.reason_at(&reached, Row::F, message);
            reason.promised = Some(*promised);
            if let Some(lost) = lost {
                *reason = reason.clone().at(Dir::Wal, lost, 0);
            }
        }
        let witnessed = highest.map_or(self.mark, |(promised, _)| self.mark.max(promised));
        self.log_end(reached, tail, witnessed)
    }

    /// A reason that speaks of L.
    fn reason_at(&mut self, reached: &Reached<S>, row: Row, message: String) -> &mut Finding {
        let finding = Finding::new(FindingKind::Row(row), message);
        let mut finding = finding
            .at(Dir::Wal, &reached.segment.name, reached.offset)
            .lsn(reached.lsn);
        with_crcs(&mut finding, &reached.stop);
        self.findings.push(finding);
        self.findings.last_mut().expect("a finding was pushed")
    }

    /// What stands behind L in its segment; answers the highest promise there.
    fn take_after(&mut self, reached: &Reached<S>, after: After) -> Option<(Lsn, String)> {
        self.evidence.junk = after.junk;
        self.evidence.witnesses = after.first.is_some();
        self.evidence.seal_missing = after.begins_at_end;
        let what = describe(&reached.stop);
        if after.begins_at_end {
            let message = "a seal is missing before a later frame that begins at the same lsn";
            self.reason_at(reached, Row::F, message.to_owned());
        }
        match after.first {
            Some(first) => {
                let message = format!(
                    "{what}; later frames stand intact, the first at offset {}",
                    first.offset
                );
                self.reason_at(reached, Row::D, message).promised = Some(first.header.synced);
            }
            None if after.junk => {
                for row in [Row::C, Row::E] {
                    self.reason_at(reached, row, format!("{what}; nothing after it vouches for it"));
                }
            }
            None => {}
        }
        after.highest.map(|highest| {
            let place = Dir::Wal.join(&reached.segment.name);
            (
                highest.header.synced,
                format!("the frame at {place}+{}", highest.offset),
            )
        })
    }

    /// Where the clean mark lies; what it promises.
    fn take_clean_mark(&mut self, clean: Option<Lsn>, lsn: Lsn) -> Option<(Lsn, String)> {
        let clean = clean?;
        self.evidence.clean = match clean.cmp(&lsn) {
            std::cmp::Ordering::Less => CleanMark::Below,
            std::cmp::Ordering::Equal => CleanMark::At,
            std::cmp::Ordering::Greater => CleanMark::Above,
        };
        if clean < lsn {
            let message = format!("records go on to {lsn} after a clean shutdown at {clean}");
            let finding = Finding::new(FindingKind::Row(Row::J), message);
            self.findings
                .push(finding.at(Dir::Root, CONTROL_NAME, 0).lsn(lsn));
        }
        Some((clean, "the clean mark in control".to_owned()))
    }

    /// L, and what a writer needs to go on there.
    fn log_end(&self, reached: Reached<S>, mut tail: Option<TailImage>, witnessed: Lsn) -> Option<LogEnd> {
        let header = reached.segment.header()?;
        if let Some(tail) = tail.as_mut() {
            tail.drop_below(witnessed);
        }
        // The witnesses beside the log may vouch for more than its last mark.
        let vouched = self.unvouched.partition_point(|frame| frame.end <= witnessed);
        let vouched_time = match vouched.checked_sub(1) {
            Some(last) => self.unvouched[last].time,
            None => self.vouched_time,
        };
        let unvouched = self.unvouched.iter().skip(vouched);
        Some(LogEnd {
            segment_first: reached.segment.first,
            salt: header.salt,
            segment_bytes: reached.reader.as_ref().map_or(0, SegmentReader::file_bytes),
            segment: reached.segment.name,
            offset: reached.offset,
            segment_crc: reached.segment_crc,
            last_seal: reached.last_seal,
            last_record_crc: self.last_record_crc,
            epoch: self.epoch,
            unvouched_records: unvouched.map(|frame| frame.records).sum(),
            vouched_time,
            witnessed,
            tail,
        })
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
    if let Some((expected, found)) = stop.as_ref().and_then(Stop::crcs) {
        finding.expected_crc = Some(expected);
        finding.found_crc = Some(found);
    }
}
