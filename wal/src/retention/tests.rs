use super::*;
use crate::storage::sim::SimDisk;

fn lsns(values: &[u64]) -> Vec<Lsn> {
    values.iter().copied().map(Lsn::new).collect()
}

#[derive(Clone, Copy)]
struct Case {
    valid: &'static [u64],
    damaged: &'static [u64],
    segments: &'static [u64],
    end: u64,
    keep: u64,
    pins: &'static [u64],
}

const LOG: Case = Case {
    valid: &[],
    damaged: &[],
    segments: &[0, 100, 200, 300, 400],
    end: 450,
    keep: 0,
    pins: &[],
};

fn check(case: Case, snapshots: &[u64], segments: &[u64]) {
    let valid = lsns(case.valid).into_iter().map(|start| (start, true));
    let damaged = lsns(case.damaged).into_iter().map(|start| (start, false));
    let inventory = Inventory {
        snapshots: valid.chain(damaged).collect(),
        segments: lsns(case.segments),
        end: Lsn::new(case.end),
        keep_bytes: case.keep,
        pins: lsns(case.pins),
    };
    let removals = Removals {
        snapshots: lsns(snapshots),
        segments: lsns(segments),
    };
    assert_eq!(plan(&inventory), removals, "{inventory:?}");
}

#[test]
fn segments_go_only_behind_the_older_of_two_valid_snapshots() {
    check(LOG, &[], &[]);
    check(Case { valid: &[400], ..LOG }, &[], &[]);
    check(
        Case {
            valid: &[250, 400],
            ..LOG
        },
        &[],
        &[0, 100],
    );
    check(
        Case {
            valid: &[299, 400],
            ..LOG
        },
        &[],
        &[0, 100],
    );
    check(
        Case {
            valid: &[300, 400],
            ..LOG
        },
        &[],
        &[0, 100, 200],
    );
    check(
        Case {
            valid: &[400, 50, 300, 200],
            ..LOG
        },
        &[50, 200],
        &[0, 100, 200],
    );
}

#[test]
fn a_damaged_snapshot_takes_nobody_s_place() {
    check(
        Case {
            valid: &[400],
            damaged: &[300],
            ..LOG
        },
        &[],
        &[],
    );
    check(
        Case {
            valid: &[200, 300],
            damaged: &[400],
            ..LOG
        },
        &[],
        &[0, 100],
    );
    check(
        Case {
            valid: &[200, 300],
            damaged: &[100, 250],
            ..LOG
        },
        &[100],
        &[0, 100],
    );
}

#[test]
fn kept_bytes_and_pins_hold_segments_and_the_newest_never_goes() {
    check(
        Case {
            valid: &[400, 440],
            keep: 150,
            ..LOG
        },
        &[],
        &[0, 100, 200],
    );
    check(
        Case {
            valid: &[400, 440],
            keep: 1000,
            ..LOG
        },
        &[],
        &[],
    );
    check(
        Case {
            valid: &[400, 440],
            pins: &[410, 199],
            ..LOG
        },
        &[],
        &[0],
    );
    check(
        Case {
            valid: &[450, 460],
            end: 460,
            ..LOG
        },
        &[],
        &[0, 100, 200, 300],
    );
    check(
        Case {
            valid: &[450, 460],
            segments: &[400],
            end: 460,
            ..LOG
        },
        &[],
        &[],
    );
    check(
        Case {
            valid: &[450, 460],
            segments: &[],
            end: 460,
            ..LOG
        },
        &[],
        &[],
    );
}

#[test]
fn at_every_power_loss_the_log_has_no_gap() {
    let disk = SimDisk::new();
    for first in [0, 100, 200, 300] {
        disk.put(Dir::Wal, &segment_name(Lsn::new(first)), b"x");
    }
    for start in [50, 250, 260] {
        disk.put(Dir::Snap, &snapshot_name(Lsn::new(start)), b"x");
    }
    disk.put(Dir::Wal, "spare-0", b"");
    let image = disk.image();
    let removals = Removals {
        snapshots: lsns(&[50]),
        segments: lsns(&[0, 100]),
    };
    for crash_after in 0.. {
        disk.restore(&image);
        disk.crash_after(crash_after);
        let done = execute(&disk.storage(), &removals).is_ok();
        for seed in 0..16 {
            let after = SimDisk::from_image(&disk.image());
            after.power_loss_seeded(seed);
            let mut valid = |_| true;
            let left = take_inventory(&after.storage(), &mut valid, Lsn::new(400), 0).unwrap();
            let mut expected = lsns(&[0, 100, 200, 300]);
            expected.drain(..expected.len() - left.segments.len());
            assert_eq!(left.segments, expected);
            assert!(
                left.segments.len() == 4 || left.snapshots.len() == 2,
                "snapshots go first"
            );
            assert!(!done || left.segments.len() == 2);
        }
        if done {
            return;
        }
    }
}
