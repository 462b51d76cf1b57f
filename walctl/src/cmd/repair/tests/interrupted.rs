//! A repair that stops somewhere: by a kill, or by a loss of power with any part of what was not synced.

use std::path::Path;

use idem_wal::recovery::{REPAIR_MARK, Row};
use idem_wal::storage::Dir;
use idem_wal::storage::sim::SimDisk;

use super::super::execute;
use super::super::plan::{Kind, Plan};
use super::super::resume::{self, Earlier};
use super::damage::damaged;
use super::log::{empty, start, verdict};
use super::{Contents, MARK_PART, OtherDisk, carry_out, contents, plan, plan_after, secure, undo};

/// A damage, its plan, and what it is before and after.
struct Case {
    what: String,
    row: Row,
    kind: Kind,
    plan: Plan,
    before: Contents,
    after: Contents,
}

/// What a kill, or one of five losses of power, leaves of a disk.
fn survivor(disk: &SimDisk, seed: u64) -> SimDisk {
    let after = SimDisk::from_image(&disk.image());
    match seed {
        0 => after.kill(),
        seed => after.power_loss_seeded(seed),
    }
    after
}

#[test]
fn a_repair_may_stop_anywhere_and_is_finished_or_taken_back() {
    for (what, disk, row, kind) in damaged() {
        let image = disk.image();
        let backup = empty();
        let vault = OtherDisk(backup.storage());
        let plan = plan(&disk).unwrap();
        secure(&disk, &vault, &plan);
        let secured = backup.image();
        let before = disk.contents();
        carry_out(&disk, &vault, &plan.changes).unwrap();
        let mut case = Case {
            what: what.to_owned(),
            row,
            kind,
            plan,
            before,
            after: contents(&disk),
        };
        for crash_after in 0.. {
            let disk = SimDisk::from_image(&image);
            let backup = SimDisk::from_image(&secured);
            disk.crash_after(crash_after);
            let done = carry_out(&disk, &OtherDisk(backup.storage()), &case.plan.changes).is_ok();
            for seed in 0..6 {
                case.what = format!("{what}, {crash_after} {seed}");
                case.check(
                    &survivor(&disk, seed),
                    &survivor(&backup, seed),
                    crash_after + seed,
                );
            }
            if done {
                break;
            }
        }
    }
}

impl Case {
    /// As it was, but for the mark.
    fn is_before(&self, disk: &SimDisk) -> bool {
        let mut found = disk.contents();
        found.retain(|(_, name), _| ![REPAIR_MARK, MARK_PART].contains(&name.as_str()));
        found == self.before
    }

    fn check(&self, disk: &SimDisk, backup: &SimDisk, chance: u64) {
        let what = &self.what;
        let marked = |disk: &SimDisk| disk.names(Dir::Root).contains(&REPAIR_MARK.to_owned());
        let is_before = |disk: &SimDisk| self.is_before(disk);
        if !marked(disk) {
            assert!(is_before(disk) || contents(disk) == self.after, "{what}");
            return;
        }
        assert!(verdict(disk).row.refuses(), "{what}");
        match resume::earlier(&disk.storage(), Path::new("/data")).unwrap() {
            Earlier::None => panic!("{what}: there is a mark"),
            Earlier::Unclear(words) => panic!("{what}: {words}"),
            Earlier::Begun(path) => {
                assert_eq!(path, Path::new("/backup"), "{what}");
                self.check_finish(disk, backup, chance);
                let back = SimDisk::from_image(&disk.image());
                undo(&back, backup, &self.plan);
                assert!(is_before(&back) && !marked(&back), "{what}");
            }
        }
        // Whoever has lost the backup has the files.
        let files = SimDisk::from_image(&disk.image());
        files.remove(Dir::Root, REPAIR_MARK);
        self.check_without_backup(&files);
    }

    /// Finished by what the backup says, also when that is interrupted.
    fn check_finish(&self, disk: &SimDisk, backup: &SimDisk, chance: u64) {
        let what = &self.what;
        let (kind, changes) = resume::recorded(&backup.storage()).unwrap();
        assert_eq!(kind, self.kind, "{what}");
        let again = SimDisk::from_image(&disk.image());
        let backup = SimDisk::from_image(&backup.image());
        let vault = OtherDisk(backup.storage());
        again.crash_after(chance % 11);
        let go_on = |disk: &SimDisk, vault: &OtherDisk| {
            execute::sync_mark(&disk.storage())?;
            execute::carry_out(&disk.storage(), vault, &changes, &mut |_| {})
        };
        let stopped = go_on(&again, &vault).is_err();
        let (again, backup) = if stopped {
            (survivor(&again, chance % 6), survivor(&backup, chance % 6))
        } else {
            (SimDisk::from_image(&again.image()), backup)
        };
        let vault = OtherDisk(backup.storage());
        if again.names(Dir::Root).contains(&REPAIR_MARK.to_owned()) {
            go_on(&again, &vault).unwrap_or_else(|trouble| panic!("{what}: {trouble:?}"));
        }
        if self.is_before(&again) {
            // It stopped before its mark was on disk.
            return;
        }
        assert!(contents(&again) == self.after, "{what}: not finished");
        let found = verdict(&again);
        assert_eq!(
            (found.row, found.end_lsn),
            (self.plan.after.row, self.plan.after.end_lsn),
            "{what}"
        );
        undo(&again, &backup, &self.plan);
        assert!(again.contents() == self.before, "{what}: not taken back");
    }

    /// The files by themselves are refused as before, or what the plan leads to; and a second repair leads there too.
    fn check_without_backup(&self, disk: &SimDisk) {
        let (what, first) = (&self.what, &self.plan);
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
        let allowed = match (self.kind, self.row) {
            (Kind::Control, _) => matches!(found.row, Row::G | Row::H) || found.row == first.after.row,
            (_, Row::F | Row::J) => matches!(found.row, Row::F | Row::J),
            _ => false,
        };
        assert!(allowed, "{what}: {:?} {:#?}", found.row, found.findings);
        // Headers of two nodes are what a new control file looks like in the middle: known from the mark.
        if self.kind == Kind::Control && found.row == first.after.row {
            return;
        }
        let second = plan_after(disk, true).unwrap_or_else(|advice| panic!("{what}: {advice}"));
        assert_eq!(second.after.end_lsn, first.after.end_lsn, "{what}");
        let vault = OtherDisk(empty().storage());
        secure(disk, &vault, &second);
        carry_out(disk, &vault, &second.changes).unwrap();
        let end = verdict(disk);
        assert_eq!(end.end_lsn, first.after.end_lsn, "{what}");
        assert_eq!(
            start(&disk.storage()).is_ok(),
            first.after.row == end.row && end.verdict.starts(),
            "{what}"
        );
    }
}
