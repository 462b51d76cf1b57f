//! A repair that stops somewhere: by a kill, or by a loss of power with any part of what was not synced.

use idem_wal::recovery::Row;
use idem_wal::storage::sim::SimDisk;

use super::super::execute;
use super::super::plan::{Kind, Plan};
use super::damage::damaged;
use super::log::{empty, start, verdict};
use super::{OtherDisk, plan, secure};

#[test]
fn a_repair_may_stop_anywhere() {
    for (what, disk, row, kind) in damaged() {
        let plan_found = plan(&disk).unwrap();
        let image = disk.image();
        let backup = empty();
        let vault = OtherDisk(backup.storage());
        secure(&disk, &vault, &plan_found);
        let secured = backup.image();
        for crash_after in 0.. {
            let disk = SimDisk::from_image(&image);
            let backup = SimDisk::from_image(&secured);
            let vault = OtherDisk(backup.storage());
            disk.crash_after(crash_after);
            let done = execute::carry_out(&disk.storage(), &vault, &plan_found.changes, &mut |_| {}).is_ok();
            for seed in 0..6 {
                let after = SimDisk::from_image(&disk.image());
                match seed {
                    0 => after.kill(),
                    seed => after.power_loss_seeded(seed),
                }
                check_interrupted(
                    &format!("{what}, {crash_after} {seed}"),
                    &after,
                    row,
                    kind,
                    &plan_found,
                );
            }
            if done {
                break;
            }
        }
    }
}

/// Refused as before, or what the plan leads to; and a second repair leads there too. Of a new control file, the headers
/// come first: in between they name two nodes, and the backup has to take them back.
fn check_interrupted(what: &str, disk: &SimDisk, row: Row, kind: Kind, first: &Plan) {
    let found = verdict(disk);
    if found.verdict.starts() {
        let cut_by_the_start = found.row.cuts() && found.end_lsn == first.after.end_lsn;
        let is_final = matches!(found.row, Row::A | Row::B) && found.end_lsn == first.after.end_lsn;
        assert!(
            is_final || cut_by_the_start,
            "{what}: {:?} {:#?}",
            found.row,
            found.findings
        );
        return;
    }
    let allowed = match (kind, row) {
        (Kind::Control, _) => matches!(found.row, Row::G | Row::H) || found.row == first.after.row,
        (_, Row::F | Row::J) => matches!(found.row, Row::F | Row::J),
        _ => false,
    };
    assert!(allowed, "{what}: {:?} {:#?}", found.row, found.findings);
    if kind == Kind::Control {
        return;
    }
    let second = plan(disk).unwrap_or_else(|advice| panic!("{what}: {advice}"));
    assert_eq!(second.after.end_lsn, first.after.end_lsn, "{what}");
    let vault = OtherDisk(empty().storage());
    secure(disk, &vault, &second);
    execute::carry_out(&disk.storage(), &vault, &second.changes, &mut |_| {}).unwrap();
    assert_eq!(verdict(disk).end_lsn, first.after.end_lsn, "{what}");
    assert!(start(&disk.storage()).is_ok(), "{what}");
}
