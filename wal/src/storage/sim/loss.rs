//! What a power loss and an eviction leave of the platter: every unsynced thing is asked about, one by one.

use super::super::Dir;
use super::super::durable::widen;
use super::platter::{NameOp, Platter, apply_names};
use std::sync::Arc;

/// One thing that is not yet durable, as [`super::SimDisk::power_loss`] asks about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsynced {
    /// A dirty page.
    Page {
        /// `wal/NAME`, the file's newest name.
        file: String,
        /// The page's number.
        page: u64,
        /// How many contents it had since the last successful sync.
        versions: usize,
    },
    /// A file that was cut.
    Cut {
        /// The file's newest name.
        file: String,
        /// To how many bytes.
        bytes: usize,
    },
    /// A directory operation.
    Name {
        /// In words: `wal/new.tmp -> wal/….wal`.
        operation: String,
    },
}

impl Unsynced {
    /// How many answers other than "lost" there are.
    pub fn versions(&self) -> usize {
        match self {
            Unsynced::Page { versions, .. } => *versions,
            Unsynced::Cut { .. } | Unsynced::Name { .. } => 1,
        }
    }
}

impl Platter {
    pub(super) fn unsynced(&self) -> Vec<Unsynced> {
        let mut all = Vec::new();
        for file in self.files.values() {
            if let Some(bytes) = file.cut {
                all.push(Unsynced::Cut {
                    file: file.label.clone(),
                    bytes,
                });
            }
            for (page, versions) in &file.dirty {
                let (file, versions) = (file.label.clone(), versions.len());
                all.push(Unsynced::Page {
                    file,
                    page: widen(*page),
                    versions,
                });
            }
        }
        for (dir, names) in &self.dirs {
            all.extend(names.unsynced.iter().map(|op| Unsynced::Name {
                operation: op.words(*dir),
            }));
        }
        all
    }

    pub(super) fn power_loss(&mut self, keep: &mut dyn FnMut(&Unsynced) -> usize) {
        let page_bytes = self.page_bytes;
        for file in self.files.values_mut() {
            let file = Arc::make_mut(file);
            if let Some(bytes) = file.cut.take()
                && keep(&Unsynced::Cut {
                    file: file.label.clone(),
                    bytes,
                }) > 0
            {
                file.durable.truncate(bytes);
            }
            for (page, versions) in std::mem::take(&mut file.dirty) {
                let asked = Unsynced::Page {
                    file: file.label.clone(),
                    page: widen(page),
                    versions: versions.len(),
                };
                let kept = keep(&asked).min(versions.len());
                if let Some(version) = kept.checked_sub(1).and_then(|index| versions.get(index)) {
                    file.persist(page, page_bytes, version);
                }
            }
            file.volatile = file.durable.clone();
        }
        for dir in Dir::ALL {
            let unsynced = std::mem::take(&mut self.names_mut(dir).unsynced);
            for op in unsynced {
                if keep(&Unsynced::Name {
                    operation: op.words(dir),
                }) == 0
                {
                    continue;
                }
                match op {
                    NameOp::Names(changes) => apply_names(&mut self.names_mut(dir).durable, &changes),
                    NameOp::Make(made) => self.names_mut(made).exists_durably = true,
                }
            }
        }
        for names in self.dirs.values_mut() {
            // A directory whose own name is lost takes its files with it.
            if !names.exists_durably {
                names.durable.clear();
            }
            names.exists = names.exists_durably;
            names.volatile = names.durable.clone();
        }
    }

    pub(super) fn evict(&mut self, drops: &mut dyn FnMut(usize) -> bool) -> usize {
        let page_bytes = self.page_bytes;
        let mut changed = 0;
        for file in self.files.values_mut() {
            let file = Arc::make_mut(file);
            for page in 0..file.volatile.len().div_ceil(page_bytes) {
                if file.dirty.contains_key(&page) || !drops(page) {
                    continue;
                }
                let from = page * page_bytes;
                let end = file.volatile.len().min(from + page_bytes);
                let mut medium = file
                    .durable
                    .get(from..end.min(file.durable.len()))
                    .unwrap_or(&[])
                    .to_vec();
                medium.resize(end - from, 0);
                if file.volatile[from..end] != medium {
                    file.volatile[from..end].copy_from_slice(&medium);
                    changed += 1;
                }
            }
        }
        changed
    }
}

impl NameOp {
    fn words(&self, dir: Dir) -> String {
        match self {
            NameOp::Make(made) => format!("make {}", made.path()),
            NameOp::Names(changes) => match changes.as_slice() {
                [(from, None), (to, Some(_))] => format!("{} -> {to}", dir.join(from)),
                [(name, None)] => format!("remove {}", dir.join(name)),
                [(name, Some(_))] => format!("create {}", dir.join(name)),
                _ => format!("{} changes in {}", changes.len(), dir.join("")),
            },
        }
    }
}
