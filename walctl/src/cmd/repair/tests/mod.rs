//! Each kind of damage on the simulated disk: the plan is the documented one, does what it says and nothing else, can be
//! taken back, and may be interrupted anywhere.

mod damage;
mod interrupted;
mod log;
mod random;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use idem_protocol::ClusterId;
use idem_protocol::wal::SegmentHeader;
use idem_wal::recovery::{REPAIR_MARK, Row};
use idem_wal::storage::Dir;
use idem_wal::storage::durable::replace_file;
use idem_wal::storage::sim::{SimDisk, SimStorage};

use self::damage::damaged;
use self::log::{empty, frames, header, log, newest, segments, start, used, verdict, written};
use super::execute::{self, CONTROL_AFTER, Vault, copy_name};
use super::loss::{self, Loss};
use super::plan::{Change, Kind, Plan, Proposal, promised, propose};
use super::report::Proposed;
use super::{lines, resume};

const NODE: [u8; 16] = [0xab; 16];

/// A backup on another disk: nothing can be renamed to there.
struct OtherDisk(SimStorage);

impl Vault for OtherDisk {
    type Store = SimStorage;

    fn store(&self) -> &SimStorage {
        &self.0
    }

    fn renames(&self, dir: Dir) -> bool {
        // As a mount that looks like the same device: found out only by trying.
        dir == Dir::Snap
    }

    fn adopt(&self, _: Dir, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::CrossesDevices.into())
    }

    fn mark(&self) -> Vec<u8> {
        resume::mark(Path::new("/backup"))
    }
}

fn plan(disk: &SimDisk) -> Result<Plan, String> {
    plan_after(disk, false)
}

fn plan_after(disk: &SimDisk, was_begun: bool) -> Result<Plan, String> {
    match propose(&disk.storage(), &verdict(disk), was_begun, NODE).unwrap() {
        Proposal::Plan(plan) => Ok(*plan),
        Proposal::Advice(advice) => Err(advice),
        Proposal::Nothing => Err("nothing".to_owned()),
    }
}

fn secure(disk: &SimDisk, vault: &OtherDisk, plan: &Plan) {
    let judgement = verdict(disk);
    let mut manifest = Vec::new();
    let proposed = Proposed {
        dir: Path::new("/data"),
        judgement: &judgement,
        proposal: &Proposal::Plan(Box::new(plan.clone())),
        loss: &Loss::default(),
        elsewhere: None,
        needed_bytes: 0,
        available_bytes: None,
        is_wanted: true,
    };
    lines::plan(&mut manifest, &proposed).unwrap();
    execute::secure(
        &disk.storage(),
        vault,
        &judgement,
        &plan.changes,
        b"undo",
        &manifest,
    )
    .unwrap();
}

/// What a temporary of the mark is called here: on a real disk it is in the backup.
const MARK_PART: &str = "control.mark";

/// The mark, which is there as a whole or not at all.
fn mark(disk: &SimDisk, vault: &OtherDisk) -> Result<(), execute::Trouble> {
    replace_file(&disk.storage(), Dir::Root, REPAIR_MARK, MARK_PART, &vault.mark()).map_err(|error| {
        execute::Trouble {
            what: REPAIR_MARK.to_owned(),
            source: error.into_io(),
        }
    })
}

/// The mark and the changes.
fn carry_out(disk: &SimDisk, vault: &OtherDisk, changes: &[Change]) -> Result<usize, execute::Trouble> {
    let mut made = 0;
    mark(disk, vault)?;
    execute::carry_out(&disk.storage(), vault, changes, &mut |_| made += 1)?;
    Ok(made)
}

type Contents = BTreeMap<(Dir, String), Vec<u8>>;

/// The contents without the space that is kept for the next control file: it means nothing.
fn contents(disk: &SimDisk) -> Contents {
    let mut found = disk.contents();
    found.retain(|(_, name), _| !name.starts_with("control."));
    found
}

/// What `undo.sh` does, by the same list.
fn undo(disk: &SimDisk, backup: &SimDisk, plan: &Plan) {
    for change in plan.changes.iter().rev() {
        match change {
            Change::Control { .. } => {
                for name in ["control", "control.tmp", "control.spare"] {
                    match backup.bytes(Dir::Root, name) {
                        Some(bytes) => disk.put(Dir::Root, name, &bytes),
                        None => drop(disk.remove(Dir::Root, name)),
                    }
                }
            }
            Change::Move { dir, name, .. } => {
                // One that was not moved yet, nor copied, is where it was.
                if let Some(bytes) = backup.bytes(*dir, name) {
                    disk.put(*dir, name, &bytes);
                }
            }
            Change::Header { name, .. } | Change::Cut { name, .. } => {
                let offset = match change {
                    Change::Cut { offset, .. } => usize::try_from(*offset).unwrap(),
                    _ => 0,
                };
                let bytes = backup.bytes(Dir::Wal, &copy_name(change).unwrap()).unwrap();
                disk.overwrite(Dir::Wal, name, offset, &bytes);
            }
        }
    }
    disk.remove(Dir::Root, REPAIR_MARK);
}

/// Finds the plan, carries it out, and looks at everything that was said of it.
fn check(what: &str, disk: &SimDisk) -> (Plan, loss::Loss) {
    let (before, all_before) = (contents(disk), disk.contents());
    let judged = verdict(disk);
    let plan = plan(disk).unwrap_or_else(|advice| panic!("{what}: {advice}"));
    assert!(contents(disk) == before, "{what}: looking changed something");
    let lost = loss::read(
        &disk.storage(),
        &plan.cuts,
        promised(&judged),
        judged.is_cut_short(),
    )
    .unwrap();

    let backup = empty();
    let vault = OtherDisk(backup.storage());
    secure(disk, &vault, &plan);
    assert!(contents(disk) == before, "{what}: the backup changed something");
    let made = carry_out(disk, &vault, &plan.changes).unwrap();
    assert_eq!(made, plan.changes.len());
    assert!(!disk.names(Dir::Root).contains(&REPAIR_MARK.to_owned()));
    assert_eq!(
        backup.bytes(Dir::Root, CONTROL_AFTER),
        disk.bytes(Dir::Root, "control"),
        "{what}"
    );

    let after = verdict(disk);
    assert_eq!(
        (after.row, after.end_lsn, after.log_time),
        (plan.after.row, plan.after.end_lsn, plan.after.log_time),
        "{what}: {:#?}",
        after.findings
    );
    let repaired = contents(disk);
    assert!(
        plan.changes
            .iter()
            .all(|change| !matches!(change, Change::Move { dir, name, .. } if repaired.contains_key(&(*dir, name.clone())))),
        "{what}"
    );
    let touched: Vec<(Dir, String)> = plan
        .changes
        .iter()
        .map(|change| match change {
            Change::Control { .. } => (Dir::Root, "control".to_owned()),
            Change::Move { dir, name, .. } => (*dir, name.clone()),
            Change::Header { name, .. } | Change::Cut { name, .. } => (Dir::Wal, name.clone()),
        })
        .collect();
    for (place, bytes) in &before {
        if !touched.contains(place) {
            assert!(
                repaired.get(place) == Some(bytes),
                "{what}: {place:?} was not in the plan"
            );
        }
    }
    for durable in [false, true] {
        let copy = SimDisk::from_image(&disk.image());
        if durable {
            copy.power_loss(&mut |_| 0);
        }
        let starts = start(&copy.storage());
        assert_eq!(
            starts.is_ok(),
            after.verdict.starts(),
            "{what}: {:?}",
            starts.err()
        );
    }
    let back = SimDisk::from_image(&disk.image());
    undo(&back, &backup, &plan);
    assert!(
        back.contents() == all_before,
        "{what}: the backup does not give everything back"
    );
    (plan, lost)
}

fn advice(what: &str, disk: &SimDisk, row: Row, words: &str) {
    assert_eq!(verdict(disk).row, row, "{what}");
    let advice = plan(disk).expect_err(what);
    assert!(advice.contains(words), "{what}: {advice}");
}

#[test]
fn each_damage_has_its_plan_and_the_plan_does_what_it_says() {
    for (what, disk, row, kind) in damaged() {
        let judged = verdict(&disk);
        assert_eq!(judged.row, row, "{what}: {:#?}", judged.findings);
        let end = judged.end_lsn;
        let (plan, lost) = check(what, &disk);
        assert_eq!(plan.kind, kind, "{what}");
        // Surplus in the middle hides the segments that follow.
        assert!(
            plan.after.end_lsn <= end || !plan.cuts.surplus.is_empty(),
            "{what}"
        );
        if !plan.cuts.surplus.is_empty() {
            assert_eq!((lost.records, lost.unread_bytes()), (1, 0), "{what}: {lost:?}");
        }
        if kind != Kind::Control {
            assert!(
                matches!(plan.after.row, Row::A | Row::B),
                "{what}: {:?}",
                plan.after.row
            );
        }
        match what {
            "a bit in the newest segment" | "a bit in the first segment" => {
                assert!(lost.records > 0 && lost.unread_bytes() > 0, "{what}: {lost:?}");
                assert!(
                    !lost.samples.is_empty() && lost.times.is_some(),
                    "{what}: {lost:?}"
                );
            }
            "the newest segment lost its header" => {
                // Everything in it can still be read, record by record.
                assert_eq!(lost.unread_bytes(), 0, "{lost:?}");
                assert!(lost.samples.iter().any(|(_, key)| key == b"key-44"), "{lost:?}");
            }
            "the history promises more" | "records after a clean shutdown" => {
                assert_eq!(plan.changes.len(), 1, "{what}: {:?}", plan.changes);
                assert_eq!(plan.after.end_lsn, end, "{what}");
            }
            "a successor vouches for other bytes" | "records beyond what the next segment names" => {
                assert_eq!(plan.changes.len(), 1, "{what}: {:?}", plan.changes);
                assert!(plan.cuts.end.is_none(), "{what}");
            }
            _ => {}
        }
    }
}

#[test]
fn a_new_control_file_is_another_nodes_and_fenced() {
    let disk = log(true, &[20, 30]);
    let old = verdict(&disk).control.unwrap();
    disk.remove(Dir::Root, "control");
    check("no control file", &disk);
    let new = verdict(&disk).control.unwrap();
    assert_eq!(new.node.0, NODE);
    assert_eq!(
        (new.cluster, &new.history, new.newest_segment, new.newest_snapshot),
        (old.cluster, &old.history, old.newest_segment, old.newest_snapshot)
    );
    assert_eq!(new.role, idem_protocol::control::Role::Follower);
    assert!(new.promised_epoch >= old.history[0].epoch.number && new.clean_end.is_none());
    for name in segments(&disk) {
        assert_eq!(header(&disk, &name).node.0, NODE);
        let bytes = disk.bytes(Dir::Wal, &name).unwrap();
        assert_eq!(
            SegmentHeader::decode(&bytes[2048..]).unwrap(),
            header(&disk, &name),
            "both copies"
        );
    }
}

#[test]
fn what_cannot_be_repaired_from_here_gets_advice() {
    let disk = log(false, &[]);
    disk.remove(Dir::Wal, &segments(&disk)[1]);
    advice("a segment in the middle", &disk, Row::G, "replica");
    disk.remove(Dir::Root, "control");
    advice("and no control file", &disk, Row::G, "would not be enough");

    let disk = log(false, &[]);
    disk.put(Dir::Wal, "backup.wal", b"");
    advice("a strange name", &disk, Row::G, "by hand");

    let disk = log(false, &[]);
    let name = newest(&disk);
    let mut header = header(&disk, &name);
    header.cluster = ClusterId([9; 16]);
    disk.overwrite(Dir::Wal, &name, 0, &header.encode_page());
    advice("another cluster's segment", &disk, Row::H, "belong together");

    let disk = log(false, &[]);
    disk.fail_reads(Dir::Wal, &newest(&disk));
    advice("a failed read", &disk, Row::I, "kernel's log");

    let disk = written(false, &[], 3, true);
    disk.overwrite(Dir::Wal, &newest(&disk), 0, &[0; 4096]);
    advice(
        "the only segment lost its header",
        &disk,
        Row::F,
        "nothing of the log",
    );

    // The log is gone below a snapshot that reaches beyond the damage.
    let disk = log(false, &[44]);
    let names = segments(&disk);
    let name = newest(&disk);
    let (at, _) = *frames(&disk, &name).last().unwrap();
    let (end, _) = used(&disk, &name);
    disk.overwrite(Dir::Wal, &name, at, &vec![0; end - at]);
    disk.remove(Dir::Wal, &names[0]);
    advice("no state to begin with", &disk, Row::F, "no state is left");

    for clean in [false, true] {
        assert_eq!(plan(&log(clean, &[])).unwrap_err(), "nothing");
    }
    assert_eq!(plan(&SimDisk::new()).unwrap_err(), "nothing");
}

#[test]
fn without_space_for_the_backup_nothing_is_changed() {
    for (what, disk, ..) in damaged() {
        let before = contents(&disk);
        let plan = plan(&disk).unwrap();
        let backup = empty();
        backup.set_space(Some(40));
        let vault = OtherDisk(backup.storage());
        let found = verdict(&disk);
        let failed = execute::secure(&disk.storage(), &vault, &found, &plan.changes, b"undo", b"{}");
        let kind = failed.unwrap_err().source.kind();
        assert_eq!(kind, io::ErrorKind::StorageFull, "{what}");
        assert!(contents(&disk) == before, "{what}");

        // The directory itself needs none: what was there for the next control file will do.
        let backup = empty();
        let vault = OtherDisk(backup.storage());
        secure(&disk, &vault, &plan);
        if !disk.names(Dir::Root).contains(&"control.spare".to_owned()) {
            continue;
        }
        disk.set_space(Some(0));
        disk.put(Dir::Root, REPAIR_MARK, &vault.mark());
        execute::carry_out(&disk.storage(), &vault, &plan.changes, &mut |_| {}).unwrap();
        assert_eq!(verdict(&disk).end_lsn, plan.after.end_lsn, "{what}");
    }
}
