//! A plan carried out in the directory itself: the backup, the mark, the changes, in this order.
//!
//! Whatever fails before the first change takes the backup away again and says that nothing was changed. Whatever fails after
//! it says how many changes were made and which script takes them back; the mark stays, and the same command goes on.
//!
//! Deliberately absent: asking, and what is printed of a plan. The steps on a storage are in [`execute`].

use std::time::{Duration, SystemTime};

use idem_protocol::UnixMs;
use idem_wal::recovery::REPAIR_MARK;
use idem_wal::storage::{Dir, DiskStorage, Storage};

use super::args::Args;
use super::backup::Backup;
use super::execute::{self, Trouble, Vault};
use super::plan::{Change, Plan};
use super::report::Proposed;
use super::space::{BACKUP_ROOM_BYTES, available_bytes, is_full, no_space};
use super::{backups, lines};
use crate::exit::Failure;

/// Backup, then changes.
pub(super) fn repair(
    disk: &DiskStorage,
    args: &Args,
    proposed: &Proposed<'_>,
    plan: &Plan,
) -> Result<Backup, Failure> {
    let no_space = |why: &str| no_space(&args.dir, proposed.needed_bytes, why);
    for swept in backups::sweep(&args.dir, args.backup.as_deref())? {
        eprintln!(
            "walctl: note: {}: the backup of a repair that stopped before it changed anything; it was removed",
            swept.display()
        );
    }
    // Room for the small things is tried: more than is free may not be needed.
    let copies = proposed.needed_bytes - BACKUP_ROOM_BYTES;
    let available = available_bytes(&args.dir, args.backup.as_deref());
    if let Some(available) = available.filter(|available| *available < copies) {
        return Err(no_space(&format!("{available} are free")));
    }
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    let now = UnixMs::new(u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
    let backup =
        Backup::create(&args.dir, args.backup.as_deref(), now).map_err(|failure| match &failure {
            Failure::Io { source, .. } if is_full(source) => no_space(&failure.to_string()),
            _ => failure,
        })?;
    let begun = begin(disk, &backup, proposed, plan);
    if let Err(failure) = begun {
        backup.discard();
        return Err(match failure {
            Failure::Io { what, source } if is_full(&source) => no_space(&format!("{what}: {source}")),
            Failure::Io { what, source } => Failure::io(format_args!("nothing was changed: {what}"))(source),
            other @ Failure::Usage(_) => other,
        });
    }
    change(disk, &backup, &plan.changes)?;
    Ok(backup)
}

/// All that comes before the first change.
fn begin(disk: &DiskStorage, backup: &Backup, proposed: &Proposed<'_>, plan: &Plan) -> Result<(), Failure> {
    execute::unbegun(backup.store())?;
    let mut manifest = Vec::new();
    lines::plan(&mut manifest, proposed).map_err(Failure::io("the backup's description"))?;
    let undo = backup.undo(&plan.changes)?;
    execute::secure(disk, backup, proposed.judgement, &plan.changes, &undo, &manifest)?;
    let was_marked = disk.has_name(Dir::Root, REPAIR_MARK).unwrap_or(true);
    backup.set_mark().map_err(|source| {
        if !was_marked {
            let _ = execute::unmark(disk);
        }
        Failure::io(disk.describe(Dir::Root, REPAIR_MARK))(source)
    })?;
    execute::begun(backup.store()).map_err(|trouble| {
        if !was_marked {
            let _ = execute::unmark(disk);
        }
        trouble.into()
    })
}

/// The changes, or those of them that an earlier attempt left.
pub(super) fn change(disk: &DiskStorage, backup: &Backup, changes: &[Change]) -> Result<(), Failure> {
    let mut made = 0;
    let carried = backup
        .remove_links(changes)
        .map_err(|source| Trouble {
            what: "removing links".to_owned(),
            source,
        })
        .and_then(|()| execute::carry_out(disk, backup, changes, &mut |_| made += 1));
    carried.map_err(|Trouble { what, source }| {
        let script = backup.path().join(execute::UNDO);
        Failure::io(format_args!(
            "{made} of {} changes were made, sh {} takes them back, and repairing again goes on: {what}",
            changes.len(),
            script.display()
        ))(source)
    })
}
