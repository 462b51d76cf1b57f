//! A run: each step durable before the next.

use idem_protocol::control::{Control, Role};
use idem_protocol::{HistoryEntry, Lsn};
use idem_wal::control::CONTROL_BYTES_MAX;
use idem_wal::lock::{DirLock, LockError};
use idem_wal::storage::durable::{read_all, replace_file, sync_directory};
use idem_wal::storage::{Dir, DiskStorage, Storage};

use super::LOCK_WAIT;
use super::copy::{self, Copied};
use super::plan::Plan;
use super::report::{DamageLine, GapLine, Totals};
use super::sealed::Damage;
use crate::exit::{Exit, Failure};
use crate::store::{self, Manifest};
use crate::view::View;

/// What became of a run.
pub(super) enum Done {
    /// Everything is archived.
    Copied(Totals),
    /// What came before the damage is archived.
    Damaged(Totals, Damage),
    /// Something went from the source; what came before it is archived.
    Gone,
}

/// Copies what the plan says.
pub(super) fn execute(view: &View, plan: &mut Plan) -> Result<Done, Failure> {
    let in_path = |what: &str| format!("{what} {}", plan.path.display());
    DiskStorage::create(&plan.path).map_err(Failure::io(in_path("making")))?;
    let lock = DirLock::exclusive(&plan.path, LOCK_WAIT).map_err(|error| match error {
        LockError::Held => Failure::usage(in_path("another run is writing")),
        LockError::Io(error) => Failure::io(in_path("locking"))(error),
    })?;
    let target = lock.storage().map_err(Failure::io(in_path("opening")))?;
    // Another run may have copied something since this one looked.
    if let Some(now) = store::read_manifest(&plan.path)?
        && now != plan.manifest
    {
        return Ok(Done::Gone);
    }
    for dir in [Dir::Wal, Dir::Snap] {
        target.create_dir(dir).map_err(Failure::io(in_path("writing")))?;
    }
    sync_directory(&target, Dir::Root).map_err(|fatal| Failure::io(in_path("writing"))(fatal.source))?;

    let mut totals = Totals::default();
    let mut epochs: Vec<HistoryEntry> = Vec::new();
    let mut damage = None;
    let mut gone = false;
    for copy in &plan.segments {
        match copy::segment(view, &target, copy)? {
            Copied::Done(done) => {
                totals.segments_copied += 1;
                totals.bytes_copied += done.entry.bytes;
                plan.manifest.segments.push(done.entry);
                epochs.extend(done.epochs);
                write_manifest(&target, &plan.manifest)?;
            }
            Copied::Gone => gone = true,
            Copied::Damaged(what) => {
                damage = Some(Damage {
                    what,
                    exit: Exit::Rot,
                });
            }
        }
        if gone || damage.is_some() {
            break;
        }
    }
    let end = plan.manifest.range().map_or(Lsn::ZERO, |(_, end)| end);
    for copy in &plan.snapshots {
        // Less of the log may be there than was planned, and a snapshot beyond its end would promise what is missing.
        if copy.snapshot.trailer.end_lsn > end {
            continue;
        }
        if let Copied::Done(entry) = copy::snapshot(view, &target, copy)? {
            totals.snapshots_copied += 1;
            totals.bytes_copied += entry.bytes;
            plan.manifest.snapshots.push(entry);
            plan.manifest.snapshots.sort_by_key(|entry| entry.start_lsn);
            write_manifest(&target, &plan.manifest)?;
        }
    }
    if let Some((first, end)) = plan.manifest.range() {
        write_control(view, &target, plan, epochs)?;
        (totals.first_lsn, totals.end_lsn) = (first.get(), end.get());
    }
    totals.into = plan.path.display().to_string();
    totals.restorable = plan.manifest.is_restorable();
    totals.gap = plan.gap.as_ref().map(GapLine::from);
    if gone {
        return Ok(Done::Gone);
    }
    // What was found on the way comes before what the plan ends with.
    let damage = damage.or(plan.damage.take());
    totals.damage = damage.as_ref().map(DamageLine::from);
    Ok(match damage {
        Some(damage) => Done::Damaged(totals, damage),
        None => Done::Copied(totals),
    })
}

fn write_manifest(target: &DiskStorage, manifest: &Manifest) -> Result<(), Failure> {
    let temporary = format!("{}.tmp", store::MANIFEST_NAME);
    replace_file(
        target,
        Dir::Root,
        store::MANIFEST_NAME,
        &temporary,
        &manifest.encode(),
    )
    .map_err(|error| Failure::io(target.describe(Dir::Root, store::MANIFEST_NAME))(error.into_io()))
}

/// What the control file of the archived log would say: whose it is, its newest files, and the epochs that begin in or
/// before it.
fn write_control(
    view: &View,
    target: &DiskStorage,
    plan: &Plan,
    mut epochs: Vec<HistoryEntry>,
) -> Result<(), Failure> {
    let Some((_, end)) = plan.manifest.range() else {
        return Ok(());
    };
    let header = view_header(target, plan)?;
    let known = read_control(target, store::CONTROL_NAME);
    let source = read_control(view, idem_wal::control::CONTROL_NAME);
    for control in known.iter().chain(&source) {
        epochs.extend(control.history.iter().filter(|entry| entry.first_lsn < end));
    }
    epochs.sort_by_key(|entry| (entry.first_lsn, entry.epoch));
    epochs.dedup();
    // A promise reaches beyond the archived log: a restore of it in the old cluster opens an epoch above all of them.
    let promised = known.iter().chain(&source).map(|control| control.promised_epoch);
    let promised = promised
        .chain(epochs.iter().map(|entry| entry.epoch.number))
        .max();
    let control = Control {
        node: header.node,
        cluster: header.cluster,
        role: Role::Primary,
        promised_epoch: promised.unwrap_or(0),
        promised_node: header.node,
        history: epochs,
        newest_snapshot: plan
            .manifest
            .snapshots
            .last()
            .map(|entry| Lsn::new(entry.start_lsn)),
        newest_segment: plan
            .manifest
            .segments
            .last()
            .map(|entry| Lsn::new(entry.first_lsn)),
        ..Control::default()
    };
    if known.as_ref() == Some(&control) {
        return Ok(());
    }
    let temporary = format!("{}.tmp", store::CONTROL_NAME);
    replace_file(
        target,
        Dir::Root,
        store::CONTROL_NAME,
        &temporary,
        &control.encode(),
    )
    .map_err(|error| Failure::io(target.describe(Dir::Root, store::CONTROL_NAME))(error.into_io()))
}

/// A header of the archived log, for the names of its node and cluster.
fn view_header(target: &DiskStorage, plan: &Plan) -> Result<idem_protocol::wal::SegmentHeader, Failure> {
    let entry = plan.manifest.segments.last().expect("the manifest has a range");
    let what = target.describe(Dir::Wal, &entry.file);
    let page = target
        .open(Dir::Wal, &entry.file)
        .and_then(|file| idem_wal::reader::HeaderPage::read(&file))
        .map_err(Failure::io(&what))?;
    page.header()
        .map_err(|error| Failure::usage(format!("{what}: {error}")))
}

/// A control file that can be read; the archive goes on without one that cannot.
fn read_control<S: Storage>(storage: &S, name: &str) -> Option<Control> {
    let file = storage.open(Dir::Root, name).ok()?;
    Control::decode(&read_all(&file, CONTROL_BYTES_MAX).ok()?).ok()
}
