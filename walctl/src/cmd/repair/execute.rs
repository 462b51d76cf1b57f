//! Carrying a plan out: first everything that is needed to go back, synced, then the changes.
//!
//! Nothing of the directory is touched before [`secure`] has returned, and until then the backup says so of itself
//! ([`unbegun`]). Then a mark says in the directory that a repair was begun, and where its backup is; the judge refuses a
//! directory with that mark. Each change of [`carry_out`] is durable
//! before the next one begins, and made again changes nothing: whoever finds the mark goes on by making them all. The mark
//! goes last.

use std::io;

use idem_wal::control::{CONTROL_BYTES_MAX, CONTROL_NAME, CONTROL_SPARE, CONTROL_TEMPORARY, ControlFile};
use idem_wal::recovery::{Judgement, REPAIR_MARK};
use idem_wal::storage::durable::{read_all, write_all_at, zero_fill};
use idem_wal::storage::{Dir, Storage, StorageFile};

use super::plan::Change;
use super::{sparse, undo};
use crate::exit::Failure;

/// The control file as the plan leaves it, in the backup.
pub(super) const CONTROL_AFTER: &str = "control.after";
/// What stands in the directory for as long as the plan is not carried out to its end; here for the script.
pub(super) const MARK_COPY: &str = "mark";
/// Gives everything back.
pub(super) const UNDO: &str = "undo.sh";
/// Says what the backup is of.
pub(super) const MANIFEST: &str = "repair.json";

/// The most bytes that a script is read with: a line for each change.
const UNDO_BYTES_MAX: u64 = 64 << 20;

/// Stands in the backup for as long as nothing was changed: such a backup holds nothing but copies.
pub(super) const UNBEGUN: &str = "nothing-changed-yet";

/// A file that is being copied to the backup: one with a name of its own is whole.
pub(super) const PART: &str = "part";

/// Where the backup goes.
pub(super) trait Vault {
    type Store: Storage;
    /// The backup, with the directories of a data directory.
    fn store(&self) -> &Self::Store;
    /// Whether files of this directory can be moved to the backup without a copy.
    fn renames(&self, dir: Dir) -> bool;
    /// Moves a file by giving it another name.
    fn adopt(&self, dir: Dir, name: &str) -> io::Result<()>;
    /// What the mark in the directory says: where the backup is.
    fn mark(&self) -> Vec<u8>;
}

/// An error with what was being done.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) what: String,
    pub(super) source: io::Error,
}

impl From<Trouble> for Failure {
    fn from(Trouble { what, source }: Trouble) -> Failure {
        Failure::Io { what, source }
    }
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

/// What a segment's header becomes, in the backup.
pub(super) fn header_after(name: &str) -> String {
    format!("{name}.head.after")
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
    let replaced = changes.iter().find_map(|change| match change {
        Change::Control { control, .. } => Some(control.encode()),
        _ => None,
    });
    // Only one that stays is read: of a damaged one nobody knows how long it is.
    let after = match replaced {
        Some(bytes) => bytes,
        None => unchanged(storage, judgement)?,
    };
    put(store, Dir::Root, MARK_COPY, &vault.mark())?;
    put(store, Dir::Root, MANIFEST, manifest)?;
    if opens(storage, Dir::Root, CONTROL_NAME)? {
        copy(
            storage,
            store,
            Dir::Root,
            CONTROL_NAME,
            (0, u64::MAX),
            CONTROL_NAME,
        )?;
    }
    put(store, Dir::Root, CONTROL_AFTER, &after)?;
    for change in changes {
        match change {
            Change::Control { .. } => {
                // Replacing it uses up the one and leaves the other.
                for name in [CONTROL_TEMPORARY, CONTROL_SPARE] {
                    if is_file(storage, name)? {
                        copy(storage, store, Dir::Root, name, (0, u64::MAX), name)?;
                    }
                }
            }
            Change::Move { dir, name, .. } if vault.renames(*dir) => {}
            Change::Move { dir, name, bytes } => {
                copy(storage, store, *dir, name, (0, *bytes), name)?;
            }
            Change::Header { name, header } => {
                let page = header.encode_page();
                let target = copy_name(change).expect("a header is copied");
                copy(storage, store, Dir::Wal, name, (0, page.len() as u64), &target)?;
                put(store, Dir::Wal, &header_after(name), &page)?;
            }
            Change::Cut {
                name, offset, bytes, ..
            } => {
                let target = copy_name(change).expect("what is cut is copied");
                copy(storage, store, Dir::Wal, name, (*offset, *bytes), &target)?;
            }
        }
    }
    for dir in [Dir::Wal, Dir::Snap, Dir::Root] {
        sync_dir(store, dir)?;
    }
    // Last: where it is, everything that it needs is. Without it nothing has been changed yet.
    put(store, Dir::Root, UNDO, undo)?;
    sync_dir(store, Dir::Root)
}

/// Whether the control file's temporary or its space is a file that can be copied. A link, a FIFO or an empty directory goes
/// when the control file is replaced, and holds nothing; what cannot go is said now, before anything was changed.
fn is_file<S: Storage>(storage: &S, name: &str) -> Result<bool, Trouble> {
    let place = || storage.describe(Dir::Root, name);
    let obstacle = storage.obstacle(Dir::Root, name).map_err(at(place()))?;
    if let Some(what) = obstacle.filter(|_| name == CONTROL_TEMPORARY) {
        let words = format!("{what}; move it away: this name is for a temporary file");
        return Err(at(place())(io::Error::new(
            io::ErrorKind::DirectoryNotEmpty,
            words,
        )));
    }
    Ok(storage.is_own(Dir::Root, name).unwrap_or(false) && opens(storage, Dir::Root, name)?)
}

/// The control file as it is, and stays.
fn unchanged<S: Storage>(storage: &S, judgement: &Judgement) -> Result<Vec<u8>, Trouble> {
    let read = storage
        .open(Dir::Root, CONTROL_NAME)
        .and_then(|file| read_all(&file, CONTROL_BYTES_MAX));
    match read {
        Ok(bytes) => Ok(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let judged = judgement.control.as_ref();
            Ok(judged.map(|control| control.encode()).unwrap_or_default())
        }
        Err(source) => Err(at(storage.describe(Dir::Root, CONTROL_NAME))(source)),
    }
}

/// Says in the backup that nothing was changed yet: it comes first there, and whoever finds it may remove the backup.
pub(super) fn unbegun<B: Storage>(store: &B) -> Result<(), Trouble> {
    put(store, Dir::Root, UNBEGUN, b"")?;
    sync_dir(store, Dir::Root)
}

/// Takes that back, before the first change. The mark in the directory is on disk by then.
pub(super) fn begun<B: Storage>(store: &B) -> Result<(), Trouble> {
    match store.remove(Dir::Root, UNBEGUN) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(at(format!("removing {}", store.describe(Dir::Root, UNBEGUN)))(
            error,
        )),
        Ok(()) => sync_dir(store, Dir::Root),
    }
}

/// Makes sure of a mark that was found: whoever left it may have stopped before it was on disk.
pub(super) fn sync_mark<S: Storage>(storage: &S) -> Result<(), Trouble> {
    let synced = storage
        .open_write(Dir::Root, REPAIR_MARK)
        .and_then(|file| file.sync_all());
    synced.map_err(at(format!(
        "sync of {}",
        storage.describe(Dir::Root, REPAIR_MARK)
    )))?;
    sync_dir(storage, Dir::Root)
}

/// Takes that back, or says that it came to its end.
pub(super) fn unmark<S: Storage>(storage: &S) -> Result<(), Trouble> {
    storage.remove(Dir::Root, REPAIR_MARK).map_err(at(format!(
        "removing {}",
        storage.describe(Dir::Root, REPAIR_MARK)
    )))?;
    sync_dir(storage, Dir::Root)
}

/// Makes the changes, or those of them that an earlier attempt left, and says so of each that is made.
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
            Change::Cut {
                name, offset, bytes, ..
            } => in_place(storage, name, |file| {
                let end = offset.saturating_add(*bytes);
                let erase = &mut |at, run: &[u8]| zero_fill(file, at, at + run.len() as u64);
                sparse::runs(file, *offset, end, erase).map(drop)
            })?,
        }
        made(change);
    }
    // What the script was at when it was stopped is nobody's any more.
    if let Some(name) = undo::temporary_of(store_script(vault.store())?.as_deref().unwrap_or_default())
        && has_name(storage, Dir::Root, &name)?
    {
        storage
            .remove(Dir::Root, &name)
            .map_err(at(format!("removing {}", storage.describe(Dir::Root, &name))))?;
    }
    unmark(storage)
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
    if !has_name(storage, dir, name)? {
        // An earlier attempt came so far; what it did may not be on disk.
        if !has_name(store, dir, name)? {
            return Err(at(what())(io::ErrorKind::NotFound.into()));
        }
        sync_dir(store, dir)?;
        return sync_dir(storage, dir);
    }
    let adopted = match vault.renames(dir).then(|| vault.adopt(dir, name)) {
        Some(Ok(())) => true,
        // Two mounts of one device look like one.
        Some(Err(error)) if error.kind() != io::ErrorKind::CrossesDevices => {
            return Err(at(what())(error));
        }
        Some(Err(_)) | None => false,
    };
    // A copy that has its name is whole, and may be all there is: the script moves it back byte by byte.
    if !adopted && !has_name(store, dir, name)? {
        copy(storage, store, dir, name, (0, bytes), PART)?;
        store.rename(dir, PART, name).map_err(at(what()))?;
    }
    // The new name first: a power loss may leave both, never none.
    sync_dir(store, dir)?;
    if !adopted {
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

/// Whether there is such a name. A relative link that was moved leads nowhere, and is there all the same.
fn has_name<S: Storage>(storage: &S, dir: Dir, name: &str) -> Result<bool, Trouble> {
    storage
        .has_name(dir, name)
        .map_err(at(storage.describe(dir, name)))
}

/// The script of a backup, when it has one.
fn store_script<B: Storage>(store: &B) -> Result<Option<Vec<u8>>, Trouble> {
    if !opens(store, Dir::Root, UNDO)? {
        return Ok(None);
    }
    let read = store
        .open(Dir::Root, UNDO)
        .and_then(|file| read_all(&file, UNDO_BYTES_MAX));
    read.map(Some).map_err(at(store.describe(Dir::Root, UNDO)))
}

/// Whether a file can be read under this name.
fn opens<S: Storage>(storage: &S, dir: Dir, name: &str) -> Result<bool, Trouble> {
    match storage.open(dir, name) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(at(storage.describe(dir, name))(error)),
    }
}

/// Copies so many bytes from an offset on, or what there is of them. Zeros become holes: they need no space.
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
        let end = sparse::runs(&source, from, from.saturating_add(bytes), &mut |offset, run| {
            write_all_at(&file, offset - from, run)
        })?;
        if file.len()? < end - from {
            file.set_len(end - from)?;
        }
        file.sync_all()
    });
    copied.map_err(at(format!("copying {}", storage.describe(dir, name))))
}

fn put<B: Storage>(store: &B, dir: Dir, name: &str, bytes: &[u8]) -> Result<(), Trouble> {
    let written = store.create(dir, name).and_then(|file| {
        write_all_at(&file, 0, bytes)?;
        file.sync_all()
    });
    written.map_err(at(format!("writing {}", store.describe(dir, name))))
}

pub(super) fn sync_dir<S: Storage>(storage: &S, dir: Dir) -> Result<(), Trouble> {
    storage
        .sync_dir(dir)
        .map_err(at(format!("sync of {}", storage.describe(dir, ""))))
}
