//! `walctl archive DIR --into STORE`: what is sealed of a log, kept where its server cannot remove it.
//!
//! The source is never judged as a whole and never written: each piece that is copied is checked for itself, so that a log
//! with a rotten end still gives what is good before it. See [`store`](crate::store) for what a store looks like.
//!
//! Order, each step durable before the next: a file, then the manifest that names it; at last the control file. A run that
//! was killed is finished by the next one, and until its first run is finished an archive has no control file and is read by
//! nothing.

mod args;
mod copy;
mod plan;

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use idem_protocol::control::{Control, Role};
use idem_protocol::{HistoryEntry, Lsn};
use idem_wal::lock::{DirLock, LockError};
use idem_wal::storage::durable::{read_all, replace_file, sync_directory};
use idem_wal::storage::{Dir, DiskStorage, Storage};
use serde::Serialize;

pub(crate) use self::args::Args;
use self::copy::Copied;
use self::plan::{Plan, plan};
use crate::confirm;
use crate::exit::{Exit, Failure};
use crate::output::{self, Out};
use crate::progress::Meter;
use crate::store::{self, Manifest};
use crate::view::View;

/// How often a run begins anew because the server removed what was about to be copied.
const ATTEMPTS: usize = 5;
/// How long another run on the same history is waited for.
const LOCK_WAIT: Duration = Duration::from_millis(200);

/// What a run did, or would do.
#[derive(Default, Serialize)]
struct Totals {
    into: String,
    first_lsn: u64,
    end_lsn: u64,
    segments_copied: u64,
    snapshots_copied: u64,
    bytes_copied: u64,
    restorable: bool,
    dry_run: bool,
}

/// A file of the plan.
#[derive(Serialize)]
struct FileLine {
    file: String,
    bytes: u64,
}

/// Whether `path`, or what there is of it already, lies in `dir`.
fn is_below(path: &Path, dir: &Path) -> bool {
    let Ok(dir) = std::fs::canonicalize(dir) else {
        return false;
    };
    let mut there = path.ancestors().filter_map(|part| {
        let part = if part.as_os_str().is_empty() {
            Path::new(".")
        } else {
            part
        };
        std::fs::canonicalize(part).ok()
    });
    there.next().is_some_and(|part| part.starts_with(&dir))
}

/// Copies what is not there yet.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    if args.into.join(store::MANIFEST_NAME).exists() || args.into.join("wal").exists() {
        return Err(Failure::usage(format!(
            "{}: this is one log, not a store; --into takes the directory that holds the histories",
            args.into.display()
        )));
    }
    if is_below(&args.into, &args.dir) {
        return Err(Failure::usage(format!(
            "{} is in the data directory; an archive belongs elsewhere",
            args.into.display()
        )));
    }
    let meter = Arc::new(Meter::new(output::leaves_room_for_a_bar()));
    let view = View::open(&args.dir, Arc::clone(&meter))?;
    let mut out = Out::stdout(!args.json).beside(Arc::clone(&meter));
    let mut asked = args.yes;
    for _ in 0..ATTEMPTS {
        let Some(mut plan) = plan(&view, &args.into)? else {
            if view
                .list(Dir::Wal)
                .map_err(Failure::io(args.dir.display()))?
                .is_empty()
            {
                // Perhaps a volume that is not mounted: a timer that archives nothing has to be noticed.
                return Err(Failure::usage(format!(
                    "{}: there is no log here",
                    args.dir.display()
                )));
            }
            eprintln!(
                "walctl: {}: no segment is sealed yet; nothing to archive",
                args.dir.display()
            );
            return Ok(Exit::Clean);
        };
        for note in &plan.notes {
            meter.aside(|| eprintln!("walctl: note: {note}"));
        }
        if args.dry_run {
            meter.finish();
            output::printed(print_plan(&mut out, &plan, args))?;
            return Ok(Exit::Clean);
        }
        let has_work = !(plan.segments.is_empty() && plan.snapshots.is_empty());
        let question = || format!("Copy {} bytes to {}?", plan.bytes(), plan.path.display());
        asked = asked || !has_work || confirm::ask(false, &question())?;
        if !asked {
            return Err(Failure::usage("not confirmed; nothing was written"));
        }
        let (totals, exit) = match carry_out(&view, &mut plan, args)? {
            Done::Copied(totals) => (totals, Exit::Clean),
            Done::Damaged(totals, what) => {
                eprintln!(
                    "walctl: {}: {what}\nwalctl: for the verdict: walctl verify {}",
                    args.dir.display(),
                    args.dir.display()
                );
                (totals, Exit::Rot)
            }
            Done::Gone => continue,
        };
        meter.finish();
        let damaged = args.check && !check(&plan)?;
        output::printed(print_totals(&mut out, &totals, args))?;
        return Ok(if damaged { Exit::Rot } else { exit });
    }
    Err(Failure::usage(
        "segments are removed faster than they are copied; a larger wal-keep-bytes keeps them longer",
    ))
}

enum Done {
    Copied(Totals),
    /// What came before the damage is archived.
    Damaged(Totals, String),
    /// Something went from the source; what came before it is archived.
    Gone,
}

fn carry_out(view: &View, plan: &mut Plan, args: &Args) -> Result<Done, Failure> {
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
            Copied::Damaged(what) => damage = Some(what),
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
    totals.dry_run = args.dry_run;
    Ok(match damage {
        Some(what) => Done::Damaged(totals, what),
        None if gone => Done::Gone,
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
    Control::decode(&read_all(&file).ok()?).ok()
}

/// Reads every archived file and says which are not what they were.
fn check(plan: &Plan) -> Result<bool, Failure> {
    let target = DiskStorage::open(&plan.path).map_err(Failure::io(plan.path.display()))?;
    let segments = plan.manifest.segments.iter();
    let segments = segments.map(|entry| (Dir::Wal, &entry.file, entry.bytes, entry.crc));
    let snapshots = plan.manifest.snapshots.iter();
    let snapshots = snapshots.map(|entry| (Dir::Snap, &entry.file, entry.bytes, entry.crc));
    let mut good = true;
    for (dir, name, bytes, crc) in segments.chain(snapshots) {
        let found = target.open(dir, name).and_then(|file| copy::checksum(&file));
        let what = match found {
            Ok(found) if found == (bytes, crc) => continue,
            Ok((found_bytes, found_crc)) => {
                format!("{found_bytes} bytes with CRC {found_crc:08x} instead of {bytes} with {crc:08x}")
            }
            Err(error) => error.to_string(),
        };
        good = false;
        eprintln!("walctl: archived {}: {what}", target.describe(dir, name));
    }
    Ok(good)
}

fn print_plan(out: &mut Out, plan: &Plan, args: &Args) -> io::Result<()> {
    let segments = plan.segments.iter();
    let segments = segments.map(|copy| (Dir::Wal.join(&copy.sealed.link.name), copy.bytes));
    let snapshots = plan.snapshots.iter();
    let snapshots = snapshots.map(|copy| (Dir::Snap.join(&copy.snapshot.name), copy.snapshot.bytes));
    for (file, bytes) in segments.chain(snapshots) {
        if args.json {
            serde_json::to_writer(&mut *out, &FileLine { file, bytes })?;
            out.write_all(b"\n")?;
        } else {
            writeln!(out, "copy {file}, {bytes} bytes")?;
        }
    }
    let mut manifest = plan.manifest.clone();
    manifest
        .snapshots
        .extend(plan.snapshots.iter().map(|copy| store::SnapshotEntry {
            file: copy.snapshot.name.clone(),
            start_lsn: copy.snapshot.header.start_lsn.get(),
            end_lsn: copy.snapshot.trailer.end_lsn.get(),
            bytes: copy.snapshot.bytes,
            crc: 0,
        }));
    manifest
        .segments
        .extend(plan.segments.iter().map(|copy| store::SegmentEntry {
            file: copy.sealed.link.name.clone(),
            first_lsn: copy.sealed.link.first().get(),
            end_lsn: copy.sealed.end.get(),
            records_crc: copy.sealed.crc,
            first_time_ms: 0,
            last_time_ms: 0,
            bytes: copy.bytes,
            crc: 0,
        }));
    let (first, end) = manifest.range().unwrap_or_default();
    let totals = Totals {
        into: plan.path.display().to_string(),
        first_lsn: first.get(),
        end_lsn: end.get(),
        segments_copied: plan.segments.len() as u64,
        snapshots_copied: plan.snapshots.len() as u64,
        bytes_copied: plan.bytes(),
        restorable: manifest.is_restorable(),
        dry_run: true,
    };
    print_totals(out, &totals, args)
}

fn print_totals(out: &mut Out, totals: &Totals, args: &Args) -> io::Result<()> {
    if args.json {
        serde_json::to_writer(&mut *out, totals)?;
        out.write_all(b"\n")?;
        return out.flush();
    }
    let verb = if totals.dry_run { "would copy" } else { "copied" };
    writeln!(
        out,
        "{verb} {} segments and {} snapshots, {} bytes; {} holds lsn {} to {}{}",
        totals.segments_copied,
        totals.snapshots_copied,
        totals.bytes_copied,
        totals.into,
        totals.first_lsn,
        totals.end_lsn,
        if totals.restorable {
            ""
        } else {
            ", and no snapshot to begin with yet"
        }
    )?;
    out.flush()
}
