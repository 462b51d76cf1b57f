//! Pages and names, volatile and durable, without any notion of processes or faults.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use super::super::Dir;
use super::SplitMix;

pub(super) type FileId = u64;

#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    pub(super) volatile: Vec<u8>,
    pub(super) durable: Vec<u8>,
    /// Per dirty page the contents since the last successful sync, oldest first.
    pub(super) dirty: BTreeMap<usize, Vec<Arc<[u8]>>>,
    /// The shortest length since the last sync, when the file was cut.
    pub(super) cut: Option<usize>,
    /// The newest name, for messages.
    pub(super) label: String,
}

#[derive(Clone, Debug)]
pub(super) enum NameOp {
    /// Names given and taken at once; none = the name is gone.
    Names(Vec<(String, Option<FileId>)>),
    /// A directory of the data directory.
    Make(Dir),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    pub(super) exists: bool,
    pub(super) exists_durably: bool,
    pub(super) volatile: BTreeMap<String, FileId>,
    pub(super) durable: BTreeMap<String, FileId>,
    pub(super) unsynced: Vec<NameOp>,
}

#[derive(Clone, Debug)]
pub(super) struct Platter {
    pub(super) page_bytes: usize,
    pub(super) files: BTreeMap<FileId, Arc<Inode>>,
    pub(super) dirs: BTreeMap<Dir, Names>,
    next_file: FileId,
}

impl Inode {
    pub(super) fn persist(&mut self, page: usize, page_bytes: usize, content: &[u8]) {
        let from = page * page_bytes;
        let end = from + content.len();
        if self.durable.len() < end {
            self.durable.resize(end, 0);
        }
        self.durable[from..end].copy_from_slice(content);
    }

    fn touch(&mut self, page: usize, page_bytes: usize) {
        let from = page * page_bytes;
        let end = self.volatile.len().min(from + page_bytes);
        self.dirty
            .entry(page)
            .or_default()
            .push(Arc::from(&self.volatile[from..end]));
    }
}

impl Platter {
    pub(super) fn new(page_bytes: usize) -> Platter {
        let root = Names {
            exists: true,
            exists_durably: true,
            ..Names::default()
        };
        let mut dirs: BTreeMap<Dir, Names> = Dir::ALL.iter().map(|dir| (*dir, Names::default())).collect();
        dirs.insert(Dir::Root, root);
        Platter {
            page_bytes: page_bytes.max(1),
            files: BTreeMap::new(),
            dirs,
            next_file: 1,
        }
    }

    fn names(&self, dir: Dir) -> &Names {
        self.dirs
            .get(&dir)
            .expect("every directory has an entry from the start")
    }

    pub(super) fn names_mut(&mut self, dir: Dir) -> &mut Names {
        self.dirs
            .get_mut(&dir)
            .expect("every directory has an entry from the start")
    }

    pub(super) fn file(&self, id: FileId) -> io::Result<&Inode> {
        self.files
            .get(&id)
            .map(Arc::as_ref)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn file_mut(&mut self, id: FileId) -> io::Result<&mut Inode> {
        self.files
            .get_mut(&id)
            .map(Arc::make_mut)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    // --- names

    pub(super) fn list(&self, dir: Dir) -> Vec<String> {
        let mut names: Vec<String> = self.names(dir).volatile.keys().cloned().collect();
        if dir == Dir::Root {
            let made = self
                .dirs
                .iter()
                .filter(|(dir, names)| **dir != Dir::Root && names.exists);
            names.extend(made.map(|(dir, _)| dir.path().to_owned()));
            names.sort_unstable();
        }
        names
    }

    pub(super) fn find(&self, dir: Dir, name: &str) -> io::Result<FileId> {
        self.names(dir)
            .volatile
            .get(name)
            .copied()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn exists(&self, dir: Dir) -> bool {
        self.names(dir).exists
    }

    pub(super) fn make_dir(&mut self, dir: Dir) {
        if !self.names(dir).exists {
            self.names_mut(dir).exists = true;
            self.names_mut(Dir::Root).unsynced.push(NameOp::Make(dir));
        }
    }

    pub(super) fn create(&mut self, dir: Dir, name: &str) -> io::Result<FileId> {
        if !self.exists(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let id = self.next_file;
        self.next_file += 1;
        self.files.insert(
            id,
            Arc::new(Inode {
                label: dir.join(name),
                ..Inode::default()
            }),
        );
        self.change(dir, vec![(name.to_owned(), Some(id))]);
        Ok(id)
    }

    pub(super) fn rename(&mut self, dir: Dir, from: &str, to: &str) -> io::Result<()> {
        let id = self.find(dir, from)?;
        self.file_mut(id)?.label = dir.join(to);
        self.change(dir, vec![(from.to_owned(), None), (to.to_owned(), Some(id))]);
        Ok(())
    }

    pub(super) fn remove(&mut self, dir: Dir, name: &str) -> io::Result<()> {
        self.find(dir, name)?;
        self.change(dir, vec![(name.to_owned(), None)]);
        Ok(())
    }

    fn change(&mut self, dir: Dir, changes: Vec<(String, Option<FileId>)>) {
        let names = self.names_mut(dir);
        apply_names(&mut names.volatile, &changes);
        names.unsynced.push(NameOp::Names(changes));
    }

    pub(super) fn sync_dir(&mut self, dir: Dir) {
        let names = self.names_mut(dir);
        names.durable = names.volatile.clone();
        for op in std::mem::take(&mut names.unsynced) {
            if let NameOp::Make(made) = op {
                self.names_mut(made).exists_durably = true;
            }
        }
    }

    // --- bytes

    /// Where the page that holds `offset` ends.
    pub(super) fn page_end(&self, offset: usize) -> usize {
        (offset / self.page_bytes + 1) * self.page_bytes
    }

    /// Writes inside one page.
    pub(super) fn write_page(&mut self, id: FileId, offset: usize, buf: &[u8]) -> io::Result<()> {
        let page_bytes = self.page_bytes;
        let file = self.file_mut(id)?;
        let end = offset + buf.len();
        let old = file.volatile.len();
        if old < end {
            file.volatile.resize(end, 0);
            // Pages between the old end and this write exist now too, as zeros.
            for page in old.div_ceil(page_bytes)..offset / page_bytes {
                file.touch(page, page_bytes);
            }
        }
        file.volatile[offset..end].copy_from_slice(buf);
        file.touch(offset / page_bytes, page_bytes);
        Ok(())
    }

    pub(super) fn set_len(&mut self, id: FileId, bytes: usize) -> io::Result<()> {
        let page_bytes = self.page_bytes;
        let file = self.file_mut(id)?;
        let old = file.volatile.len();
        file.volatile.resize(bytes, 0);
        if bytes < old {
            file.dirty.retain(|page, _| page * page_bytes < bytes);
            file.cut = Some(file.cut.map_or(bytes, |cut| cut.min(bytes)));
            if !bytes.is_multiple_of(page_bytes) {
                // The page at the new end is shorter from now on.
                file.touch(bytes / page_bytes, page_bytes);
            }
        } else {
            for page in old / page_bytes..bytes.div_ceil(page_bytes) {
                file.touch(page, page_bytes);
            }
        }
        Ok(())
    }

    pub(super) fn sync_file(&mut self, id: FileId) -> io::Result<()> {
        self.sync_pages(id, &mut || true)
    }

    /// Marks every page clean, whether or not it reaches the medium.
    pub(super) fn sync_file_badly(&mut self, id: FileId, seed: u64) -> io::Result<()> {
        let mut chance = SplitMix(seed);
        self.sync_pages(id, &mut || chance.below(100) < 30)
    }

    fn sync_pages(&mut self, id: FileId, reaches: &mut dyn FnMut() -> bool) -> io::Result<()> {
        let page_bytes = self.page_bytes;
        let file = self.file_mut(id)?;
        if let Some(cut) = file.cut.take() {
            file.durable.truncate(cut);
        }
        for (page, versions) in std::mem::take(&mut file.dirty) {
            if let Some(newest) = versions.last()
                && reaches()
            {
                file.persist(page, page_bytes, newest);
            }
        }
        Ok(())
    }

    // --- what a test does

    pub(super) fn contents(&self) -> BTreeMap<(Dir, String), Vec<u8>> {
        let mut all = BTreeMap::new();
        for (dir, names) in &self.dirs {
            for (name, id) in &names.volatile {
                if let Ok(file) = self.file(*id) {
                    all.insert((*dir, name.clone()), file.volatile.clone());
                }
            }
        }
        all
    }

    /// Changes a file's bytes on the medium and in the cache at once; what was dirty is clean.
    pub(super) fn rot(&mut self, dir: Dir, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> bool {
        let Ok(id) = self.find(dir, name) else {
            return false;
        };
        let Ok(file) = self.file_mut(id) else { return false };
        change(&mut file.volatile);
        file.durable = file.volatile.clone();
        file.dirty.clear();
        file.cut = None;
        true
    }

    /// Makes everything in the cache durable: the state after `sync` of the whole machine.
    pub(super) fn settle(&mut self) {
        for file in self.files.values_mut() {
            let file = Arc::make_mut(file);
            file.durable = file.volatile.clone();
            file.dirty.clear();
            file.cut = None;
        }
        for dir in Dir::ALL {
            self.sync_dir(dir);
        }
    }

    /// Frees the files that no name leads to any more; their processes are gone.
    pub(super) fn forget_unreachable(&mut self) {
        let mut reachable = BTreeSet::new();
        for names in self.dirs.values() {
            reachable.extend(names.volatile.values().copied());
            reachable.extend(names.durable.values().copied());
            for op in &names.unsynced {
                if let NameOp::Names(changes) = op {
                    reachable.extend(changes.iter().filter_map(|(_, id)| *id));
                }
            }
        }
        self.files.retain(|id, _| reachable.contains(id));
    }
}

pub(super) fn apply_names(names: &mut BTreeMap<String, FileId>, changes: &[(String, Option<FileId>)]) {
    for (name, id) in changes {
        match id {
            Some(id) => names.insert(name.clone(), *id),
            None => names.remove(name),
        };
    }
}
