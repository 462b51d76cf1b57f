//! Carrying a plan out: first everything that is needed to go back, synced, then the changes.
//!
//! Nothing of the directory is touched before [`secure`] has returned. Each change of [`carry_out`] is durable before the
//! next one begins.

use std::io;

use idem_wal::control::{CONTROL_NAME, ControlFile};
use idem_wal::recovery::Judgement;
use idem_wal::storage::durable::{read_all, read_exact_or_end, write_all_at, zero_fill};
use idem_wal::storage::{Dir, Storage, StorageFile};

use super::plan::Change;

/// The control file as the plan leaves it, in the backup.
pub(super) const CONTROL_AFTER: &str = "control.after";
/// In the backup for as long as the plan is not carried out to its end.
pub(super) const UNFINISHED: &str = "unfinished";
/// Gives everything back.
pub(super) const UNDO: &str = "undo.sh";
/// Says what the backup is of.
pub(super) const MANIFEST: &str = "repair.json";

/// How much is copied at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Where the backup goes.
pub(super) trait Vault {
    type Store: Storage;
    /// The backup, with the directories of a data directory.
    fn store(&self) -> &Self::Store;
    /// Whether files of this directory can be moved to the backup without a copy.
    fn renames(&self, dir: Dir) -> bool;
    /// Moves a file by giving it another name.
    fn adopt(&self, dir: Dir, name: &str) -> io::Result<()>;
}

/// An error with what was being done.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) what: String,
    pub(super) source: io::Error,
}

fn at(what: impl Into<String>) -> impl FnOnce(io::Error) -> Trouble {
    let what = what.into();
    move |source| Trouble { what, source }
}

/// What a part of a segment is called in the backup.
pub(super) fn copy_name(change: &Change) -> Option<String> {
    match change {
        Change::Header { name, .. } => Some(format!("{name}.head")),
        Change::Cut { name, .. } => Some(format!("{name}.cut")),
        Change::Control { .. } | Change::Move { .. } => None,
    }
}

/// Copies what will be changed, and writes what is needed to go back. All of it is on disk when it returns.
pub(super) fn secure<S: Storage, V: Vault>(
    storage: &S,
    vault: &V,
    judgement: &Judgement,
    changes: &[Change],
    undo: &[u8],
    manifest: &[u8],
) -> Result<(), Trouble> {
    let store = vault.store();
    for dir in [Dir::Wal, Dir::Snap] {
        store
            .create_dir(dir)
            .map_err(at(format!("making {}", store.describe(dir, ""))))?;
    }
    let control = storage
        .open(Dir::Root, CONTROL_NAME)
        .and_then(|file| read_all(&file));
    let control = match control {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(source) => return Err(at(storage.describe(Dir::Root, CONTROL_NAME))(source)),
    };
    let replaced = changes.iter().find_map(|change| match change {
        Change::Control { control, .. } => Some(control.encode()),
        _ => None,
    });
    let unchanged = || judgement.control.as_ref().map(|control| control.encode());
    let after = replaced.or_else(|| control.clone()).or_else(unchanged);
    put(store, UNFINISHED, b"")?;
    put(store, MANIFEST, manifest)?;
    if let Some(bytes) = &control {
        put(store, CONTROL_NAME, bytes)?;
    }
    put(store, CONTROL_AFTER, &after.unwrap_or_default())?;
    for change in changes {
        match change {
            Change::Control { .. } => {}
            Change::Move { dir, name, .. } if vault.renames(*dir) => {}
            Change::Move { dir, name, bytes } => {
                copy(storage, store, *dir, name, (0, *bytes), name)?;
            }
            Change::Header { name, header } => {
                let bytes = header.encode_page().len() as u64;
                let target = copy_name(change).expect("a header is copied");
                copy(storage, store, Dir::Wal, name, (0, bytes), &target)?;
            }
            Change::Cut { name, offset, bytes } => {
                let target = copy_name(change).expect("what is cut is copied");
                copy(storage, store, Dir::Wal, name, (*offset, *bytes), &target)?;
            }
        }
    }
    for dir in [Dir::Wal, Dir::Snap, Dir::Root] {
        sync_dir(store, dir)?;
    }
    // Last: where it is, everything that it needs is. Without it nothing has been changed yet.
    put(store, UNDO, undo)?;
    sync_dir(store, Dir::Root)
}

/// Makes the changes, and says so of each that is made.
pub(super) fn carry_out<S: Storage, V: Vault>(
    storage: &S,
    vault: &V,
    changes: &[Change],
    made: &mut dyn FnMut(&Change),
) -> Result<(), Trouble> {
    for change in changes {
        match change {
            Change::Control { control, .. } => {
                let what = format!("replacing {}", storage.describe(Dir::Root, CONTROL_NAME));
                ControlFile::create(storage.clone(), control.as_ref().clone())
                    .map_err(|error| at(what)(error.into_io()))?;
            }
            Change::Header { name, header } => in_place(storage, name, |file| {
                // A file that was cut short stays so: the copy could not make it short again.
                let page = header.encode_page();
                let there = usize::try_from(file.len()?).map_or(page.len(), |bytes| bytes.min(page.len()));
                write_all_at(file, 0, &page[..there])
            })?,
            Change::Move { dir, name, bytes } => move_away(storage, vault, *dir, name, *bytes)?,
            Change::Cut { name, offset, bytes } => {
                in_place(storage, name, |file| zero_fill(file, *offset, offset + bytes))?;
            }
        }
        made(change);
    }
    let store = vault.store();
    store
        .remove(Dir::Root, UNFINISHED)
        .map_err(at(format!("removing {}", store.describe(Dir::Root, UNFINISHED))))?;
    sync_dir(store, Dir::Root)
}

fn move_away<S: Storage, V: Vault>(
    storage: &S,
    vault: &V,
    dir: Dir,
    name: &str,
    bytes: u64,
) -> Result<(), Trouble> {
    let what = || format!("moving {}", storage.describe(dir, name));
    let store = vault.store();
    let renamed = match vault.renames(dir).then(|| vault.adopt(dir, name)) {
        Some(Ok(())) => true,
        // Two mounts of one device look like one.
        Some(Err(error)) if error.kind() == io::ErrorKind::CrossesDevices => {
            copy(storage, store, dir, name, (0, bytes), name)?;
            false
        }
        Some(Err(error)) => return Err(at(what())(error)),
        None => false,
    };
    // The new name first: a power loss may leave both, never none.
    sync_dir(store, dir)?;
    if !renamed {
        storage.remove(dir, name).map_err(at(what()))?;
    }
    sync_dir(storage, dir)
}

fn in_place<S: Storage>(
    storage: &S,
    name: &str,
    change: impl FnOnce(&S::File) -> io::Result<()>,
) -> Result<(), Trouble> {
    let written = storage.open_write(Dir::Wal, name).and_then(|file| {
        change(&file)?;
        file.sync_data()
    });
    written.map_err(at(format!("writing {}", storage.describe(Dir::Wal, name))))
}

/// Copies so many bytes from an offset on. Blocks of zeros become holes: they need no space.
fn copy<S: Storage, B: Storage>(
    storage: &S,
    store: &B,
    dir: Dir,
    name: &str,
    (from, bytes): (u64, u64),
    target: &str,
) -> Result<(), Trouble> {
    let copied = storage.open(dir, name).and_then(|source| {
        let file = store.create(dir, target)?;
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut done = 0;
        while done < bytes {
            let wanted = usize::try_from(bytes - done).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
            let read = read_exact_or_end(&source, from + done, &mut chunk[..wanted])?;
            if read == 0 {
                break;
            }
            if chunk[..read].iter().any(|byte| *byte != 0) {
                write_all_at(&file, done, &chunk[..read])?;
            }
            done += read as u64;
        }
        if file.len()? < done {
            file.set_len(done)?;
        }
        file.sync_all()
    });
    copied.map_err(at(format!("copying {}", storage.describe(dir, name))))
}

fn put<B: Storage>(store: &B, name: &str, bytes: &[u8]) -> Result<(), Trouble> {
    let written = store.create(Dir::Root, name).and_then(|file| {
        write_all_at(&file, 0, bytes)?;
        file.sync_all()
    });
    written.map_err(at(format!("writing {}", store.describe(Dir::Root, name))))
}

fn sync_dir<S: Storage>(storage: &S, dir: Dir) -> Result<(), Trouble> {
    storage
        .sync_dir(dir)
        .map_err(at(format!("sync of {}", storage.describe(dir, ""))))
}
