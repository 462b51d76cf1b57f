//! The disk keeps to its fault model: everything the module doc promises, one behaviour a test.

use super::super::durable::{read_all, replace_file, write_all_at, zero_fill};
use super::super::{Storage, StorageFile};
use super::*;

fn page(byte: u8) -> Vec<u8> {
    vec![byte; 4]
}

fn small() -> (SimDisk, SimStorage) {
    let disk = SimDisk::with_page_bytes(4);
    let storage = disk.storage();
    storage.create_dir(Dir::Wal).unwrap();
    storage.sync_dir(Dir::Root).unwrap();
    (disk, storage)
}

#[test]
fn a_kill_keeps_the_cache_and_a_power_loss_keeps_what_was_synced() {
    let (disk, storage) = small();
    let file = storage.create(Dir::Wal, "a").unwrap();
    write_all_at(&file, 0, &page(1)).unwrap();
    file.sync_data().unwrap();
    storage.sync_dir(Dir::Wal).unwrap();
    write_all_at(&file, 0, &page(2)).unwrap();
    disk.kill();
    assert_eq!(disk.bytes(Dir::Wal, "a"), Some(page(2)));
    disk.power_loss(&mut |_| 0);
    assert_eq!(disk.bytes(Dir::Wal, "a"), Some(page(1)));
}

#[test]
fn a_page_can_come_back_as_any_version_since_the_last_sync() {
    for (kept, expected) in [(0, page(1)), (1, page(2)), (2, page(3)), (9, page(3))] {
        let (disk, storage) = small();
        let file = storage.create(Dir::Wal, "a").unwrap();
        write_all_at(&file, 0, &page(1)).unwrap();
        file.sync_data().unwrap();
        storage.sync_dir(Dir::Wal).unwrap();
        write_all_at(&file, 0, &page(2)).unwrap();
        write_all_at(&file, 0, &page(3)).unwrap();
        assert_eq!(
            disk.unsynced(),
            [Unsynced::Page {
                file: "wal/a".into(),
                page: 0,
                versions: 2
            }]
        );
        disk.power_loss(&mut |_| kept);
        assert_eq!(disk.bytes(Dir::Wal, "a"), Some(expected));
    }
}

#[test]
fn names_are_durable_only_after_a_directory_sync_and_a_rename_is_one_operation() {
    for (kept, expected) in [(0, vec!["new.tmp"]), (1, vec!["a"])] {
        let (disk, storage) = small();
        storage.create(Dir::Wal, "new.tmp").unwrap();
        storage.sync_dir(Dir::Wal).unwrap();
        storage.rename(Dir::Wal, "new.tmp", "a").unwrap();
        disk.power_loss(&mut |_| kept);
        assert_eq!(disk.names(Dir::Wal), expected);
    }
    let (disk, storage) = small();
    disk.ignore_directory_syncs();
    storage.create(Dir::Wal, "a").unwrap();
    storage.sync_dir(Dir::Wal).unwrap();
    disk.power_loss(&mut |_| 0);
    assert_eq!(disk.names(Dir::Wal), Vec::<String>::new());
}

#[test]
fn a_directory_whose_name_is_lost_takes_its_files_with_it() {
    let disk = SimDisk::new();
    let storage = disk.storage();
    storage.create_dir(Dir::Snap).unwrap();
    storage.create(Dir::Snap, "a").unwrap();
    storage.sync_dir(Dir::Snap).unwrap();
    assert_eq!(disk.names(Dir::Root), ["snap"]);
    disk.power_loss(&mut |_| 0);
    assert_eq!(disk.names(Dir::Root), Vec::<String>::new());
    assert_eq!(disk.storage().list(Dir::Snap).unwrap(), Vec::<String>::new());
}

#[test]
fn a_crash_falls_between_two_pages_and_stops_the_process_for_good() {
    let (disk, storage) = small();
    let file = storage.create(Dir::Wal, "a").unwrap();
    disk.crash_after(2);
    let error = write_all_at(&file, 0, &[7; 12]).unwrap_err();
    assert!(is_crash(&error) && disk.is_crashed());
    assert!(is_crash(&file.sync_data().unwrap_err()));
    assert!(is_crash(&storage.list(Dir::Wal).unwrap_err()));
    disk.kill();
    assert_eq!(disk.bytes(Dir::Wal, "a"), Some(vec![7; 8]));
    assert!(
        is_crash(&file.len().unwrap_err()),
        "a handle of the old process stays dead"
    );
    assert!(storage.is_crashed() && !disk.storage().is_crashed());
}

#[test]
fn a_failed_sync_marks_pages_clean_that_never_reached_the_medium() {
    let (disk, storage) = small();
    let file = storage.create(Dir::Wal, "a").unwrap();
    storage.sync_dir(Dir::Wal).unwrap();
    write_all_at(&file, 0, &[7; 400]).unwrap();
    disk.fail_sync_at(1, 5);
    assert!(file.sync_data().is_err());
    assert_eq!(disk.unsynced(), []);
    file.sync_data().unwrap();
    assert_eq!(disk.bytes(Dir::Wal, "a"), Some(vec![7; 400]));
    let image = disk.image();
    let lost = disk.evict(100, 1);
    assert!(lost > 30 && lost < 100, "{lost} of 100 pages");
    let evicted = disk.bytes(Dir::Wal, "a").unwrap();
    assert_eq!(evicted.iter().filter(|byte| **byte == 0).count(), lost * 4);
    disk.restore(&image);
    assert_eq!(disk.bytes(Dir::Wal, "a"), Some(vec![7; 400]));
}

#[test]
fn no_space_is_a_short_write_then_an_error_and_comes_back_with_removed_files() {
    let (disk, storage) = small();
    disk.set_space(Some(6));
    let file = storage.create(Dir::Wal, "a").unwrap();
    assert_eq!(file.write_at(0, &[1; 8]).unwrap(), 6);
    assert_eq!(
        file.write_at(6, &[1; 2]).unwrap_err().kind(),
        io::ErrorKind::StorageFull
    );
    assert_eq!(
        file.write_at(0, &[2; 6]).unwrap(),
        6,
        "inside the file no space is needed"
    );
    storage.remove(Dir::Wal, "a").unwrap();
    assert_eq!(storage.available_bytes().unwrap(), 6);
}

#[test]
fn reads_lists_and_writes_fail_where_told() {
    let (disk, storage) = small();
    let file = storage.create(Dir::Wal, "a").unwrap();
    disk.short_writes(3);
    assert_eq!(file.write_at(0, &[1; 8]).unwrap(), 3);
    write_all_at(&file, 0, &[1; 8]).unwrap();
    disk.fail_writes(1, io::ErrorKind::StorageFull);
    assert!(write_all_at(&file, 0, &[2; 8]).is_err());
    assert_eq!(disk.bytes(Dir::Wal, "a"), Some(vec![2, 2, 2, 1, 1, 1, 1, 1]));
    disk.heal_writes();
    write_all_at(&file, 0, &[2; 8]).unwrap();
    disk.fail_reads(Dir::Wal, "a");
    assert!(read_all(&storage.open(Dir::Wal, "a").unwrap(), 1 << 20).is_err());
    disk.fail_list(Dir::Wal);
    assert!(storage.list(Dir::Wal).is_err());
    assert!(
        storage.open(Dir::Wal, "a").unwrap().write_at(0, &[1]).is_err(),
        "opened for reading"
    );
}

#[test]
fn growing_with_a_gap_reads_as_zeros_and_images_are_independent() {
    let (disk, storage) = small();
    let file = storage.create(Dir::Wal, "a").unwrap();
    write_all_at(&file, 10, &[9; 2]).unwrap();
    file.sync_data().unwrap();
    storage.sync_dir(Dir::Wal).unwrap();
    let other = SimDisk::from_image(&disk.image());
    disk.flip(Dir::Wal, "a", 0, 1);
    assert_eq!(
        other.bytes(Dir::Wal, "a"),
        Some(vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 9])
    );
    other.power_loss(&mut |_| 0);
    assert_eq!(other.bytes(Dir::Wal, "a").unwrap().len(), 12);
}

#[test]
fn a_cut_file_keeps_its_length_once_synced() {
    for synced in [false, true] {
        let (disk, storage) = small();
        let file = storage.create(Dir::Wal, "a").unwrap();
        write_all_at(&file, 0, &[1; 8]).unwrap();
        if synced {
            file.sync_data().unwrap();
        }
        write_all_at(&file, 0, &[2; 3]).unwrap();
        file.set_len(3).unwrap();
        let lengths = |keep: usize| {
            let after = SimDisk::from_image(&disk.image());
            after.storage().sync_dir(Dir::Wal).unwrap();
            after.power_loss(&mut |_| keep);
            after.bytes(Dir::Wal, "a").unwrap()
        };
        assert_eq!(lengths(0), if synced { vec![1; 8] } else { vec![] });
        assert_eq!(lengths(usize::MAX), [2; 3]);
        file.sync_data().unwrap();
        assert_eq!(lengths(0), [2; 3]);
    }
}

#[test]
fn replacing_a_file_leaves_the_old_or_the_new_one_at_every_crash() {
    for crash_after in 0.. {
        let (disk, storage) = small();
        storage.sync_dir(Dir::Root).unwrap();
        replace_file(&storage, Dir::Root, "control", "control.tmp", &page(1)).unwrap();
        disk.crash_after(crash_after);
        let done = replace_file(&storage, Dir::Root, "control", "control.tmp", &[2; 8]).is_ok();
        for seed in 0..20 {
            let after = SimDisk::from_image(&disk.image());
            after.power_loss_seeded(seed);
            let found = after.bytes(Dir::Root, "control").unwrap();
            assert!(
                found == vec![2; 8] || !done && found == page(1),
                "{crash_after} {seed} {found:?}"
            );
        }
        if done {
            return;
        }
    }
}

#[test]
fn replacing_on_a_full_disk_keeps_the_old_file_and_gives_the_space_back() {
    let (disk, storage) = small();
    replace_file(&storage, Dir::Root, "control", "control.tmp", &page(1)).unwrap();
    disk.set_space(Some(5));
    assert!(replace_file(&storage, Dir::Root, "control", "control.tmp", &[2; 8]).is_err());
    assert_eq!(disk.names(Dir::Root), ["control", "wal"]);
    assert_eq!(storage.available_bytes().unwrap(), 5);
    let file = storage.create(Dir::Wal, "spare").unwrap();
    assert!(zero_fill(&file, 0, 6).is_err());
}
