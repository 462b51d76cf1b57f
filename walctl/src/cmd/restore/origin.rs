//! Who the new log is, and which epoch it begins with.

use std::collections::BTreeMap;

use idem_protocol::wal::parse_segment_name;
use idem_protocol::{ClusterId, HistoryEntry, Lsn, NodeId};
use idem_wal::reader::HeaderPage;
use idem_wal::recovery::restore::Origin;
use idem_wal::storage::{Dir, Storage};

use crate::exit::Failure;
use crate::state::Rebuilt;
use crate::view::View;

/// New ids, the history below the cut, and the highest epoch that anything in the directory has heard of.
pub(super) fn origin(view: &View, rebuilt: &Rebuilt, same_cluster: bool) -> Result<Origin, Failure> {
    let (state, judgement) = (&rebuilt.state, &rebuilt.judgement);
    let control = judgement.control.as_ref();
    let trailer = judgement.snapshot.as_ref().map(|snapshot| &snapshot.trailer);
    // The log wins over what other files say of it.
    let mut known: BTreeMap<Lsn, HistoryEntry> = BTreeMap::new();
    let of_trailer = trailer.into_iter().flat_map(|trailer| &trailer.history);
    let of_control = control.into_iter().flat_map(|control| &control.history);
    for entry in of_trailer.chain(of_control).chain(&judgement.epochs) {
        known.insert(entry.first_lsn, *entry);
    }
    let headers = headers(view)?;
    let highest_epoch = known
        .values()
        .map(|entry| entry.epoch.number)
        .chain(control.map(|control| control.promised_epoch))
        .chain(trailer.map(|trailer| trailer.epoch.number))
        .chain(headers.iter().map(|header| header.epoch))
        .max()
        .unwrap_or(0);
    let cluster = if same_cluster {
        let of_control = control.map(|control| control.cluster);
        of_control
            .or(headers.last().map(|header| header.cluster))
            .ok_or_else(|| Failure::usage("--same-cluster: nothing in the directory names its cluster"))?
    } else {
        ClusterId(random()?)
    };
    Ok(Origin {
        node: NodeId(random()?),
        cluster,
        lsn: state.lsn(),
        log_time: state.time(),
        last_record_crc: state.last_crc(),
        history: known.range(..state.lsn()).map(|(_, entry)| *entry).collect(),
        highest_epoch,
    })
}

struct Header {
    cluster: ClusterId,
    epoch: u64,
}

/// What the good headers of all segments say, also of those that were not read; the newest one last.
fn headers(view: &View) -> Result<Vec<Header>, Failure> {
    let failed = || Failure::io("reading the headers of segments");
    let mut found = Vec::new();
    for name in view.list(Dir::Wal).map_err(failed())? {
        if parse_segment_name(&name).is_none() {
            continue;
        }
        // One that a server has removed meanwhile knew of nothing that a later one does not.
        let page = view
            .open(Dir::Wal, &name)
            .and_then(|file| HeaderPage::read(&file));
        if let Ok(Ok(header)) = page.map(|page| page.header()) {
            found.push(Header {
                cluster: header.cluster,
                epoch: header.epoch.number,
            });
        }
    }
    Ok(found)
}

/// Sixteen bytes that nobody else has.
pub(super) fn random() -> Result<[u8; 16], Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Failure::usage(format!("no random numbers: {error}")))?;
    Ok(bytes)
}
