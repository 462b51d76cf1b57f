//! A control file made of what the segments and snapshots say.
//!
//! What only the old file knew is gone: promises to other nodes, a clean shutdown, the name of the newest segment. So the
//! directory becomes another node (whoever counts votes must not count a forgetful one), which is written into each
//! segment's header as well: header and control file have to name the same one. It is fenced: a follower whose primary has
//! no address. Nothing reads that yet; a server of this version takes writes.

use idem_protocol::control::{Control, Role};
use idem_protocol::wal::{RawRecord, Record, parse_snapshot_name, segment_name, snapshot_name};
use idem_protocol::{HistoryEntry, Lsn, Member, NodeId};
use idem_wal::control::CONTROL_NAME;
use idem_wal::reader::snapshot;
use idem_wal::recovery::{JudgeOptions, Judgement, Place, Sink, judge};
use idem_wal::storage::{Dir, Storage, StorageFile};

use super::cut;
use super::plan::Change;
use crate::exit::Failure;

/// The newest list of members in the log.
#[derive(Default)]
struct NewestMembers(Option<(u8, Vec<Member>)>);

impl Sink for NewestMembers {
    fn reset(&mut self) {
        self.0 = None;
    }

    fn snapshot_item(&mut self, _: &RawRecord<'_>, _: &Record<'_>) {}

    fn record(&mut self, _: Place<'_>, _: &RawRecord<'_>, record: &Record<'_>) {
        if let Record::Members { required, members } = record {
            self.0 = Some((*required, members.to_members()));
        }
    }
}

/// The changes that give the directory a control file: the headers first, so that nothing starts in between. None without a
/// segment that has a good header.
pub(super) fn changes<S: Storage>(
    storage: &S,
    judgement: &Judgement,
    node: [u8; 16],
) -> Result<Option<Vec<Change>>, Failure> {
    let mut headers = Vec::new();
    for first in cut::list_segments(storage)? {
        headers.extend(cut::header(storage, first)?);
    }
    let Some(newest) = headers.last().copied() else {
        return Ok(None);
    };
    let node = NodeId(node);
    let mut members = NewestMembers::default();
    judge(storage, &JudgeOptions::default(), &mut members);

    let names = storage.list(Dir::Snap).map_err(Failure::io("listing snap"))?;
    let mut starts: Vec<Lsn> = names
        .iter()
        .filter_map(|name| parse_snapshot_name(name))
        .collect();
    starts.sort_unstable();
    let valid = starts
        .into_iter()
        .filter_map(|start| {
            let name = snapshot_name(start);
            snapshot::read(storage, &name, Some(newest.cluster), &mut |_, _| {}).ok()
        })
        .collect::<Vec<_>>();
    let trailer = valid.last().map(|snapshot| &snapshot.trailer);

    let mut history: Vec<HistoryEntry> = Vec::new();
    let noted = valid.iter().flat_map(|snapshot| &snapshot.trailer.history);
    for entry in noted.chain(&judgement.epochs) {
        if !history.contains(entry) {
            history.push(*entry);
        }
    }
    history.sort_by_key(|entry| entry.first_lsn);
    let known = history.iter().map(|entry| entry.epoch.number);
    let (required, members) = members
        .0
        .or_else(|| trailer.map(|trailer| (trailer.required, trailer.members.clone())))
        .unwrap_or_default();
    let control = Control {
        node,
        cluster: newest.cluster,
        role: Role::Follower,
        primary_address: String::new(),
        promised_epoch: known.chain([newest.epoch.number]).max().unwrap_or(0),
        promised_node: node,
        history,
        required,
        members,
        newest_snapshot: valid.last().map(|snapshot| snapshot.header.start_lsn),
        newest_segment: Some(newest.first_lsn),
        clean_end: None,
        pending_change: 0,
        pending_detail: String::new(),
    };

    let mut changes: Vec<Change> = headers
        .into_iter()
        .map(|mut header| {
            header.node = node;
            Change::Header {
                name: segment_name(header.first_lsn),
                header,
            }
        })
        .collect();
    let old = storage.open(Dir::Root, CONTROL_NAME).and_then(|file| file.len());
    changes.push(Change::Control {
        control: Box::new(control),
        old_bytes: old.ok(),
    });
    Ok(Some(changes))
}
