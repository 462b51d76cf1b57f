//! Goal: no history of crashes is refused or loses what was promised, and no damage is passed over in silence.
//!
//! Method: seeded histories of a node on the simulated disk (kills between any two operations, power losses that keep any
//! unsynced pages and names, failing syncs whose pages may be dropped), through the real verdict, opening, writer and
//! housekeeping. After every fault the verdict is compared with what an onlooker knows. `IDEM_HISTORIES=n` runs more of
//! them; a failure prints its seed and the steps.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of the test functions"
)]

mod history;

use history::{End, Node, Policy, Read, Truth, begin, begin_key, complete, highest_promise, judge_disk};
use idem_protocol::Lsn;
use idem_protocol::wal::Opcode;
use idem_wal::recovery::{Judgement, Row};
use idem_wal::storage::Dir;
use idem_wal::storage::sim::{SimDisk, SplitMix};

/// Torn sectors are seen with pages of this size.
const PAGE_BYTES: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Faults {
    /// A sync may fail.
    syncs: bool,
    /// Durable bytes may change.
    rot: bool,
    /// Directory syncs do nothing: the broken disk that these histories have to notice.
    no_directory_sync: bool,
}

struct Story {
    disk: SimDisk,
    truth: Truth,
    chance: SplitMix,
    steps: Vec<String>,
    policy: Policy,
    sync_failed: bool,
    rows: Vec<char>,
    /// Where starts found the log's end.
    starts: std::collections::BTreeSet<Lsn>,
}

impl Story {
    fn new(seed: u64) -> Story {
        let mut chance = SplitMix(seed);
        let policy = [Policy::Always, Policy::Everysec, Policy::No][chance.below(3)];
        Story {
            disk: SimDisk::with_page_bytes(PAGE_BYTES),
            truth: Truth::default(),
            chance,
            steps: vec![format!("{policy:?}")],
            policy,
            sync_failed: false,
            rows: Vec::new(),
            starts: std::collections::BTreeSet::new(),
        }
    }

    fn note(&mut self, step: impl Into<String>) {
        self.steps.push(step.into());
    }

    /// One life of a process: from its start to whatever ends it.
    fn life(&mut self) -> Result<(), End> {
        let seed = self.chance.next_u64();
        let mut node = Node::start(&self.disk, self.policy, seed)?;
        self.note(format!("serving at {}", node.batch.appended()));
        node.note_start(&mut self.truth, &self.disk);
        let steps = [8, 16, 40][self.chance.below(3)];
        for _ in 0..self.chance.below(steps) {
            node.time += self.chance.below(3) as u64;
            match self.chance.below(100) {
                0..55 => {
                    let count = [1, 1, 1, 2, 3, 5, 14][self.chance.below(7)];
                    let keys: Vec<Vec<u8>> = (0..count)
                        .map(|_| {
                            let number = self.chance.next_u64() % 1000;
                            begin_key(number, [0, 8, 20, 300, 600][self.chance.below(5)])
                        })
                        .collect();
                    let done = self.chance.below(2) == 0;
                    let records: Vec<_> = keys
                        .iter()
                        .map(|key| {
                            if done {
                                complete(key, b"result")
                            } else {
                                begin(key)
                            }
                        })
                        .collect();
                    let from = node.batch.appended();
                    node.group(&mut self.truth, &records)?;
                    self.note(format!("group {from}..{} of {count}", node.writer.written()));
                }
                55..68 => {
                    node.seal(&mut self.truth)?;
                    self.note("seal");
                }
                68..80 if self.policy == Policy::Everysec => {
                    node.sync(&mut self.truth)?;
                    self.note(format!("synced {}", node.writer.synced()));
                }
                80..84 => {
                    node.spare()?;
                    self.note("spare");
                }
                _ => {
                    node.snapshot_step(&mut self.truth)?;
                    self.note("snapshot step");
                }
            }
        }
        if self.chance.below(4) == 0 {
            node.shut_down(&mut self.truth)?;
            self.note("clean shutdown");
        }
        Ok(())
    }

    fn fault(&mut self, end: &Result<(), End>) {
        if matches!(end, Err(End::SyncFailed)) {
            self.sync_failed = true;
            self.note("a sync failed, the process ends");
        }
        if self.chance.below(2) == 0 {
            let seed = self.chance.next_u64();
            self.disk.power_loss_seeded(seed);
            self.truth.kill = self.truth.power;
            self.note("-- power loss");
        } else {
            self.disk.kill();
            self.note("-- kill");
            if self.sync_failed && self.chance.below(2) == 0 {
                let percent = [30, 100][self.chance.below(2)];
                let seed = self.chance.next_u64();
                if self.disk.evict(percent, seed) > 0 {
                    self.truth.kill = self.truth.power;
                    self.note("   clean pages dropped");
                }
            }
        }
    }

    /// Changes durable bytes of one file.
    fn rot(&mut self) -> bool {
        self.disk.power_loss(&mut |_| 0);
        self.truth.kill = self.truth.power;
        let mut files: Vec<(Dir, String)> = vec![(Dir::Root, "control".into())];
        for dir in [Dir::Wal, Dir::Snap] {
            let wanted = |name: &String| name.ends_with(".wal") || name.ends_with(".snap");
            files.extend(
                self.disk
                    .names(dir)
                    .into_iter()
                    .filter(wanted)
                    .map(|name| (dir, name)),
            );
        }
        let (dir, name) = files[self.chance.below(files.len())].clone();
        let Some(bytes) = self.disk.bytes(dir, &name) else {
            return false;
        };
        let used = bytes
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1);
        if used == 0 {
            return false;
        }
        let at = self.chance.below(used);
        let what = match self.chance.below(5) {
            0 | 1 => {
                let mask = 1 << self.chance.below(8);
                self.disk.flip(dir, &name, at, mask);
                format!("bit flipped at {at}")
            }
            2 => {
                let page = at / PAGE_BYTES * PAGE_BYTES;
                self.disk.change(dir, &name, |bytes| {
                    let end = bytes.len().min(page + PAGE_BYTES);
                    bytes[page..end].fill(0);
                });
                format!("page at {page} zeroed")
            }
            3 => {
                self.disk.truncate(dir, &name, at);
                format!("cut to {at}")
            }
            _ => {
                self.disk.remove(dir, &name);
                "removed".into()
            }
        };
        self.note(format!("** {name}: {what}"));
        self.disk.bytes(dir, &name).as_ref() != Some(&bytes)
    }
}

fn check_verdict(story: &mut Story, judgement: &Judgement, read: &Read, rotten: bool) -> Result<(), String> {
    let floor = story.truth.kill;
    let row = judgement.row;
    if row == Row::New {
        return if floor > Lsn::ZERO {
            Err(format!("taken as new, {floor} was promised"))
        } else {
            Ok(())
        };
    }
    if row.refuses() {
        return if rotten {
            Ok(())
        } else {
            Err(format!("refused: {:?}", judgement.findings))
        };
    }
    for (lsn, bytes) in &read.records {
        let is_epoch_start = bytes[22] == Opcode::EpochStart.to_byte();
        if is_epoch_start && story.starts.contains(lsn) && story.truth.records.get(lsn) != Some(bytes) {
            // A start that did not live to tell opened its epoch here.
            story.truth.cut(*lsn);
            story.truth.records.insert(*lsn, bytes.clone());
        }
        if story.truth.records.get(lsn) != Some(bytes) {
            return Err(format!(
                "the record at {lsn} is not the one that was last written there"
            ));
        }
    }
    if judgement.end_lsn < floor && !rotten {
        return Err(format!(
            "row {row:?} ends at {}, {floor} was promised",
            judgement.end_lsn
        ));
    }
    if judgement.end_lsn < floor {
        let promised = highest_promise(&story.disk);
        if promised > judgement.end_lsn {
            return Err(format!(
                "row {row:?} ends at {}, and {promised} is promised",
                judgement.end_lsn
            ));
        }
    }
    Ok(())
}

fn run(seed: u64, faults: Faults) -> Result<Vec<char>, String> {
    let mut story = Story::new(seed);
    let told = |story: &Story, error: String| {
        format!(
            "seed {seed} {faults:?}: {error}\n  {}\n",
            story.steps.join("\n  ")
        )
    };
    let rounds = 2 + story.chance.below(5);
    let mut rotten = false;
    for _ in 0..rounds {
        if faults.no_directory_sync {
            story.disk.ignore_directory_syncs();
        }
        let mut read = Read::default();
        let before = story.disk.contents();
        let judgement = judge_disk(&story.disk, &mut read);
        story.rows.push(judgement.letter());
        story.starts.insert(judgement.end_lsn);
        story.note(format!("row {} at {}", judgement.letter(), judgement.end_lsn));
        check_verdict(&mut story, &judgement, &read, rotten).map_err(|error| told(&story, error))?;
        if story.disk.contents() != before {
            return Err(told(&story, "judging changed the directory".into()));
        }
        if rotten && !judgement.row.refuses() {
            return Ok(story.rows);
        }
        if !rotten {
            if story.chance.below(2) == 0 {
                let operations = story.chance.below(120) as u64;
                story.disk.crash_after(operations);
            }
            if faults.syncs && story.chance.below(3) == 0 {
                let (nth, chance) = (1 + story.chance.below(14) as u64, story.chance.next_u64());
                story.disk.fail_sync_at(nth, chance);
            }
        }
        let end = story.life();
        match &end {
            Err(End::Refused(_)) => {
                let unchanged = story.disk.contents() == before;
                return if unchanged {
                    Ok(story.rows)
                } else {
                    Err(told(&story, "a refusal changed the directory".into()))
                };
            }
            Err(End::Disk(error)) => return Err(told(&story, format!("unexpected: {error}"))),
            _ => {}
        }
        story.fault(&end);
        if faults.rot && story.chance.below(3) == 0 {
            rotten = story.rot();
        }
    }
    Ok(story.rows)
}

fn histories() -> u64 {
    std::env::var("IDEM_HISTORIES")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(600)
}

fn sweep(from: u64, faults: Faults) -> std::collections::BTreeMap<char, u64> {
    let mut rows = std::collections::BTreeMap::new();
    for seed in from..from + histories() {
        for row in run(seed, faults).unwrap_or_else(|error| panic!("{error}")) {
            *rows.entry(row).or_default() += 1;
        }
    }
    rows
}

#[test]
fn crashes_are_never_refused_and_lose_nothing_that_was_promised() {
    let rows = sweep(
        0,
        Faults {
            syncs: false,
            rot: false,
            no_directory_sync: false,
        },
    );
    for expected in ['N', 'A', 'B', 'D', 'E'] {
        assert!(
            rows.contains_key(&expected),
            "these histories should reach row {expected}: {rows:?}"
        );
    }
}

#[test]
fn failing_syncs_are_never_refused_and_lose_nothing_that_was_promised() {
    sweep(
        1_000_000,
        Faults {
            syncs: true,
            rot: false,
            no_directory_sync: false,
        },
    );
}

#[test]
fn damage_is_never_passed_over_while_anything_intact_promises_what_is_gone() {
    let rows = sweep(
        2_000_000,
        Faults {
            syncs: true,
            rot: true,
            no_directory_sync: false,
        },
    );
    for expected in ['F', 'G'] {
        assert!(
            rows.contains_key(&expected),
            "these histories should reach row {expected}: {rows:?}"
        );
    }
}

#[test]
fn a_disk_whose_directory_syncs_do_nothing_is_noticed() {
    let faults = Faults {
        syncs: false,
        rot: false,
        no_directory_sync: true,
    };
    let caught = (3_000_000..3_000_000 + histories()).any(|seed| run(seed, faults).is_err());
    assert!(caught, "the histories above prove nothing about directory syncs");
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let faults = Faults {
        syncs: true,
        rot: true,
        no_directory_sync: false,
    };
    for seed in 0..20 {
        assert_eq!(run(seed, faults), run(seed, faults));
    }
}
