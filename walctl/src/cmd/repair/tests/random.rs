//! Damage by chance: whatever became of a log, a plan that is proposed for it leads to where it says, and what it keeps is
//! what was written.

use std::collections::BTreeMap;

use idem_protocol::Lsn;
use idem_protocol::wal::{RawRecord, Record};
use idem_wal::recovery::{JudgeOptions, Place, Sink, judge};
use idem_wal::storage::Dir;
use idem_wal::storage::sim::{SimDisk, SplitMix};

use super::super::plan::Kind;
use super::log::{log, verdict};
use super::{check, plan};

/// Every record that a start would read.
#[derive(Default)]
struct Records(BTreeMap<Lsn, Vec<u8>>);

impl Sink for Records {
    fn reset(&mut self) {
        self.0.clear();
    }

    fn snapshot_item(&mut self, _: &RawRecord<'_>, _: &Record<'_>) {}

    fn record(&mut self, _: Place<'_>, raw: &RawRecord<'_>, _: &Record<'_>) {
        self.0.insert(raw.lsn, raw.bytes.to_vec());
    }
}

fn records(disk: &SimDisk) -> BTreeMap<Lsn, Vec<u8>> {
    let mut records = Records::default();
    judge(&disk.storage(), &JudgeOptions::default(), &mut records);
    records.0
}

/// One to three damages of files that are there.
fn damage(disk: &SimDisk, chance: &mut SplitMix) -> Vec<String> {
    let mut done = Vec::new();
    for _ in 0..=chance.below(3) {
        let files: Vec<(Dir, String)> = disk
            .contents()
            .into_keys()
            .filter(|(_, name)| name.ends_with(".wal") || name.ends_with(".snap") || name == "control")
            .collect();
        let (dir, name) = files[chance.below(files.len())].clone();
        let bytes = disk.bytes(dir, &name).unwrap_or_default();
        // Most of a segment's first page means nothing.
        let first = if dir == Dir::Wal && chance.below(8) > 0 {
            4096
        } else {
            0
        };
        let at = first + chance.below(bytes.len().saturating_sub(first));
        let words = match chance.below(9) {
            0..=4 => {
                disk.flip(dir, &name, at, 1 << chance.below(8));
                format!("flip {at}")
            }
            5 => {
                let length = (1 + chance.below(600)).min(bytes.len().saturating_sub(at));
                disk.overwrite(dir, &name, at, &vec![0; length]);
                format!("zero {at}+{length}")
            }
            6 => {
                disk.overwrite(dir, &name, at.saturating_sub(100), b"junk that nobody wrote");
                format!("junk {at}")
            }
            7 => {
                disk.truncate(dir, &name, at);
                format!("cut {at}")
            }
            _ => {
                disk.remove(dir, &name);
                "remove".to_owned()
            }
        };
        done.push(format!("{} {words}", dir.join(&name)));
    }
    done
}

#[test]
fn whatever_became_of_a_log_a_plan_keeps_its_word() {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..2_000 {
        let mut chance = SplitMix(seed);
        let snapshots: &[u64] = [&[][..], &[20], &[10, 30], &[30, 44]][chance.below(4)];
        let disk = log(chance.below(2) == 0, snapshots);
        let written = {
            let copy = SimDisk::from_image(&disk.image());
            for name in copy.names(Dir::Snap) {
                copy.remove(Dir::Snap, &name);
            }
            records(&copy)
        };
        let what = format!("seed {seed}: {}", damage(&disk, &mut chance).join(", "));
        if plan(&disk).is_err() {
            *kinds.entry("none").or_default() += 1;
            continue;
        }
        // What is wrong beside a control file is seen, and may be repaired, when there is a new one.
        for _ in 0..2 {
            let (made, lost) = check(&what, &disk);
            *kinds.entry(made.kind.word()).or_default() += 1;
            assert!(lost.from <= lost.to, "{what}: {lost:?}");
            if made.kind != Kind::Control {
                assert!(verdict(&disk).verdict.starts(), "{what}");
                assert!(!verdict(&disk).row.cuts(), "{what}");
            }
            if plan(&disk).is_err() {
                break;
            }
        }
        for (lsn, bytes) in records(&disk) {
            assert_eq!(written.get(&lsn), Some(&bytes), "{what}: lsn {lsn}");
        }
    }
    for kind in ["none", "cut-tail", "accept-loss", "control"] {
        assert!(kinds.get(kind).is_some_and(|count| *count > 10), "{kinds:?}");
    }
}
