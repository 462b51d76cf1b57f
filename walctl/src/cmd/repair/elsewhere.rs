//! What can be had without this directory being changed: an earlier state of it, or an archive.
//!
//! Both are looked for, not guessed: the position that is shown is one that `walctl restore` takes, and a store is one that
//! has this log.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use idem_protocol::Lsn;
use idem_wal::recovery::Judgement;

use super::cut;
use crate::view::View;
use crate::{state, store};

/// So many directories beside the data directory are looked into.
const SIBLINGS_MAX: usize = 256;

/// Other ways.
#[derive(Clone, Debug, Default)]
pub(super) struct Elsewhere {
    /// The newest state that can be restored from the directory as it is.
    pub(super) latest: Option<Lsn>,
    /// Stores with an archive of this log, and where the newest state in each is.
    pub(super) archives: Vec<(PathBuf, Lsn)>,
}

/// Looks for them. `judgement` is of `view`, whose path is `dir`.
pub(super) fn look(view: &View, dir: &Path, judgement: &Judgement) -> Elsewhere {
    Elsewhere {
        latest: state::newest(view).map(|(lsn, _)| lsn),
        archives: identity(view, judgement)
            .map(|(cluster, node)| archives(dir, &cluster, &node))
            .unwrap_or_default(),
    }
}

/// Cluster and node as an archive writes them.
fn identity(view: &View, judgement: &Judgement) -> Option<(String, String)> {
    if let Some(control) = &judgement.control {
        return Some((control.cluster.to_string(), control.node.to_string()));
    }
    let firsts = cut::list_segments(view).ok()?;
    let mut headers = firsts
        .iter()
        .rev()
        .filter_map(|first| cut::header(view, *first).ok()?);
    headers
        .next()
        .map(|header| (header.cluster.to_string(), header.node.to_string()))
}

/// The stores in the data directory, beside it, and in the directories beside it that are of the same file system: further
/// away may be a mount that does not answer.
fn archives(dir: &Path, cluster: &str, node: &str) -> Vec<(PathBuf, Lsn)> {
    let Ok(dir) = fs::canonicalize(dir) else {
        return Vec::new();
    };
    let device = |path: &Path| fs::symlink_metadata(path).ok().map(|found| found.dev());
    let mut places = vec![dir.clone()];
    if let Some(parent) = dir.parent() {
        places.push(parent.to_owned());
        let entries = fs::read_dir(parent).into_iter().flatten().flatten();
        let siblings = entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(|entry| entry.path())
            .filter(|path| *path != dir && device(path) == device(parent));
        places.extend(siblings.take(SIBLINGS_MAX));
    }
    let mut found = Vec::new();
    for place in places {
        // What cannot be read as a store is none that could be named.
        for (path, manifest) in store::histories(&place).unwrap_or_default() {
            let is_ours = manifest.cluster == cluster && manifest.node == node;
            let end = manifest.range().map(|(_, end)| end);
            if let Some(end) = end.filter(|_| is_ours && manifest.is_restorable()) {
                found.push((path, end));
            }
        }
    }
    found.sort();
    found
}
