use super::*;
use crate::storage::durable::{read_all, replace_file, write_all_at, zero_fill};

#[test]
fn files_and_names_do_what_the_trait_says() {
    let directory = tempfile::tempdir().unwrap();
    let storage = DiskStorage::open(directory.path()).unwrap();
    storage.create_dir(Dir::Wal).unwrap();
    storage.create_dir(Dir::Wal).unwrap();
    let file = storage.create(Dir::Wal, "b").unwrap();
    zero_fill(&file, 0, 600_000).unwrap();
    write_all_at(&file, 599_998, b"end").unwrap();
    file.sync_data().unwrap();
    file.sync_all().unwrap();
    assert_eq!(file.len().unwrap(), 600_001);
    storage.rename(Dir::Wal, "b", "a").unwrap();
    storage.sync_dir(Dir::Wal).unwrap();
    let bytes = read_all(&storage.open(Dir::Wal, "a").unwrap(), 1 << 20).unwrap();
    assert!(bytes.ends_with(b"\0end") && bytes[..599_998].iter().all(|byte| *byte == 0));
    storage.open_write(Dir::Wal, "a").unwrap().set_len(3).unwrap();
    assert_eq!(storage.open(Dir::Wal, "a").unwrap().len().unwrap(), 3);
    assert!(
        storage.open(Dir::Wal, "a").unwrap().write_at(0, b"x").is_err(),
        "opened for reading"
    );
    replace_file(&storage, Dir::Root, "control", "control.tmp", b"new").unwrap();
    assert_eq!(storage.list(Dir::Root).unwrap(), ["control", "wal"]);
    storage.remove(Dir::Wal, "a").unwrap();
    assert_eq!(storage.list(Dir::Wal).unwrap(), Vec::<String>::new());
    assert_eq!(
        storage.list(Dir::Snap).unwrap(),
        Vec::<String>::new(),
        "a missing directory is empty"
    );
}

#[test]
fn after_a_failed_sync_no_handle_changes_anything() {
    let directory = tempfile::tempdir().unwrap();
    let storage = DiskStorage::open(directory.path()).unwrap();
    let other = storage.clone();
    let file = other.create(Dir::Root, "a").unwrap();
    file.write_at(0, b"x").unwrap();
    assert!(
        storage.sync_dir(Dir::Diverged).is_err(),
        "there is no such directory"
    );
    assert!(file.write_at(1, b"y").is_err());
    assert!(file.sync_data().is_err() && file.sync_all().is_err() && file.set_len(0).is_err());
    assert!(other.create(Dir::Root, "b").is_err());
    assert!(other.rename(Dir::Root, "a", "b").is_err());
    assert!(other.remove(Dir::Root, "a").is_err());
    assert!(other.sync_dir(Dir::Root).is_err());
    assert_eq!(
        read_all(&other.open(Dir::Root, "a").unwrap(), 1 << 20).unwrap(),
        b"x"
    );
}

#[test]
fn a_file_that_was_taken_away_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let storage = DiskStorage::open(directory.path()).unwrap();
    storage.create_dir(Dir::Wal).unwrap();
    let file = storage.create(Dir::Wal, "a").unwrap();
    let (wal, aside) = (directory.path().join("wal"), directory.path().join("aside"));
    let in_place = || storage.is_in_place(Dir::Wal, "a", &file, 3).unwrap();
    assert!(!in_place(), "it is too short");
    file.write_at(0, b"abc").unwrap();
    assert!(in_place());
    // The directory moved, a copy in its place, and everything back again.
    std::fs::rename(&wal, &aside).unwrap();
    assert!(!in_place());
    std::fs::create_dir(&wal).unwrap();
    std::fs::copy(aside.join("a"), wal.join("a")).unwrap();
    assert!(!in_place());
    std::fs::remove_dir_all(&wal).unwrap();
    std::fs::rename(&aside, &wal).unwrap();
    assert!(in_place());
    std::fs::remove_file(wal.join("a")).unwrap();
    assert!(!in_place());
}

#[test]
fn what_is_no_directory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, b"").unwrap();
    assert!(DiskStorage::open(&file).is_err());
    assert!(DiskStorage::create(&file).is_err());
    assert!(DiskStorage::create(&file.join("below")).is_err());
    assert!(DiskStorage::open(&directory.path().join("missing")).is_err());
    let storage = DiskStorage::open(directory.path()).unwrap();
    std::fs::write(directory.path().join("wal"), b"").unwrap();
    assert!(storage.create_dir(Dir::Wal).is_err());
    assert!(
        storage.list(Dir::Wal).is_err(),
        "a file in the way is no empty directory"
    );
}

#[cfg(feature = "sabotage")]
#[test]
fn the_sabotaged_disk_syncs_no_directory() {
    let directory = tempfile::tempdir().unwrap();
    let mut storage = DiskStorage::open(directory.path()).unwrap();
    assert!(storage.sync_dir(Dir::Wal).is_err(), "there is none");
    storage.set_sabotage_no_directory_sync();
    assert!(storage.clone().sync_dir(Dir::Wal).is_ok());
}

#[test]
fn what_is_no_regular_file_is_refused_in_words_and_keeps_nobody_waiting() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let storage = DiskStorage::open(path).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path.join("fifo"),
        fifo,
        Mode::RUSR | Mode::WUSR,
        0,
    )
    .unwrap();
    fs::create_dir(path.join("directory")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(path.join("socket")).unwrap();
    std::os::unix::fs::symlink("/dev/null", path.join("device")).unwrap();
    std::os::unix::fs::symlink("fifo", path.join("link")).unwrap();
    for (name, expected) in [
        ("fifo", "a FIFO"),
        ("directory", "a directory"),
        ("socket", "a socket"),
        ("device", "a device"),
        ("link", "a FIFO"),
    ] {
        let opened = [
            Storage::open(&storage, Dir::Root, name),
            storage.open_write(Dir::Root, name),
        ];
        for opened in opened {
            let error = opened.unwrap_err().to_string();
            assert!(error.contains(expected), "{name}: {error}");
        }
        let as_directory = DiskStorage::open(&path.join(name));
        assert_eq!(as_directory.is_ok(), name == "directory", "{name}");
    }
    // A link to a file is a file.
    fs::write(path.join("file"), b"abc").unwrap();
    std::os::unix::fs::symlink("file", path.join("to-file")).unwrap();
    let file = Storage::open(&storage, Dir::Root, "to-file").unwrap();
    assert_eq!(read_all(&file, 1 << 20).unwrap(), b"abc");
    let missing = Storage::open(&storage, Dir::Root, "none").unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_new_file_is_one_of_its_own_whatever_has_its_name() {
    let directory = tempfile::Builder::new().prefix("w").tempdir().unwrap();
    let path = directory.path();
    let storage = DiskStorage::open(path).unwrap();
    let victim = path.join("victim");
    fs::write(&victim, b"somebody else's").unwrap();
    type Put = fn(&Path, &Path);
    let kinds: [(&str, Put); 8] = [
        ("nothing", |_, _| {}),
        ("a file", |name, _| fs::write(name, b"old").unwrap()),
        ("a link to a file", |name, victim| {
            std::os::unix::fs::symlink(victim, name).unwrap()
        }),
        ("a link to nothing", |name, _| {
            std::os::unix::fs::symlink("missing", name).unwrap()
        }),
        ("a second name", |name, victim| {
            fs::hard_link(victim, name).unwrap()
        }),
        ("a FIFO", |name, _| {
            let mode = Mode::RUSR | Mode::WUSR;
            rustix::fs::mknodat(rustix::fs::CWD, name, rustix::fs::FileType::Fifo, mode, 0).unwrap()
        }),
        ("a socket", |name, _| {
            drop(std::os::unix::net::UnixListener::bind(name).unwrap())
        }),
        ("an empty directory", |name, _| fs::create_dir(name).unwrap()),
    ];
    for (kind, put) in kinds {
        put(&path.join("a"), &victim);
        let is_own = storage.is_own(Dir::Root, "a").ok();
        let expected = (kind != "nothing").then_some(kind == "a file");
        assert_eq!(is_own, expected, "{kind}");
        assert_eq!(storage.obstacle(Dir::Root, "a").unwrap(), None, "{kind}");
        let file = storage.create(Dir::Root, "a").unwrap();
        file.write_at(0, b"new").unwrap();
        assert_eq!(fs::read(path.join("a")).unwrap(), b"new", "{kind}");
        assert!(storage.is_own(Dir::Root, "a").unwrap(), "{kind}");
        assert_eq!(fs::read(&victim).unwrap(), b"somebody else's", "{kind}");
        assert!(!path.join("missing").exists(), "{kind}");
        storage.remove(Dir::Root, "a").unwrap();
        put(&path.join("a"), &victim);
        let removed = storage.remove(Dir::Root, "a").map_err(|error| error.kind());
        let expected = (kind != "nothing").then_some(()).ok_or(io::ErrorKind::NotFound);
        assert_eq!(removed, expected, "{kind}");
        assert_eq!(storage.list(Dir::Root).unwrap(), ["victim"], "{kind}");
    }
    // What is in a directory is nobody's to throw away.
    fs::create_dir_all(path.join("a/b")).unwrap();
    let words = storage.obstacle(Dir::Root, "a").unwrap().unwrap();
    assert_eq!(words, "it is a directory that is not empty");
    for failed in [
        storage.create(Dir::Root, "a").map(drop),
        storage.remove(Dir::Root, "a"),
    ] {
        assert_eq!(failed.unwrap_err().to_string(), words);
    }
    assert!(path.join("a/b").exists());
}
