//! An archived history, and whether what is read of it is what was archived.
//!
//! A log vouches for itself only backwards: each segment's header has the checksum of the one before it, and nothing has that
//! of the last, nor says how far the log went. In an archive the manifest has both. Without it a segment of another history
//! of the same node would be read as if it were this one's, and a last segment that lost its end as if the log ended there.
//!
//! Invariants
//! * What the manifest does not name is not there: no run of `walctl archive` has finished with it.
//! * A segment is summed up while it is read; what was not read of it is read when that is asked. What does not have the sum
//!   of the manifest is damage ([`amend`], [`complaint`]), from where reading stopped in it, or from its beginning when all
//!   of it could be read: it is sound, and something else then.
//! * A snapshot is summed up before it is read, since its items are a state before its end is known to be good. One that is
//!   something else cannot be read, as a damaged one cannot, and an older one is used instead.
//!
//! Deliberately absent: files that were not read. To look at all of them is `walctl archive --check`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use idem_protocol::Lsn;
use idem_protocol::wal::{SEGMENT_HEADER_BYTES, parse_segment_name, parse_snapshot_name};
use idem_wal::recovery::{Finding, FindingKind, Found, Judgement, Row};
use idem_wal::storage::durable::{read_all, read_exact_or_end};
use idem_wal::storage::{Dir, DiskStorage, Storage, StorageFile};

use crate::log_end::Complaint;
use crate::store::{MANIFEST_BYTES_MAX, MANIFEST_NAME, Manifest, SegmentEntry};
use crate::text::Crc;
use crate::view::View;

/// How much is summed up at once.
const CHUNK_BYTES: usize = 1 << 18;

/// The manifest of the directory that is read, and what was read of its files.
#[derive(Debug)]
pub(crate) struct Vouched {
    manifest: Mutex<Arc<Manifest>>,
    segments: Mutex<BTreeMap<String, Arc<Tally>>>,
    /// What is wrong with the snapshots that were opened.
    snapshots: Mutex<BTreeMap<String, Option<String>>>,
}

/// What was read of one segment.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<Sum>);

#[derive(Debug, Default)]
struct Sum {
    hasher: crc32fast::Hasher,
    /// So much of the file is in it.
    bytes: u64,
    /// Whether more than the header was read.
    is_read: bool,
}

/// A lock whose holder panicked guards sums that nobody looks at any more.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tally {
    /// `bytes` were read at `offset`.
    pub(crate) fn saw(&self, offset: u64, bytes: &[u8]) {
        let mut sum = lock(&self.0);
        sum.is_read |= offset.saturating_add(bytes.len() as u64) > SEGMENT_HEADER_BYTES as u64;
        let fresh = sum.bytes.checked_sub(offset);
        let fresh = fresh.and_then(|known| usize::try_from(known).ok());
        if let Some(fresh) = fresh.and_then(|known| bytes.get(known..)) {
            sum.add(fresh);
        }
    }

    /// Length and checksum of the whole file.
    fn whole(&self, file: &impl StorageFile) -> io::Result<(u64, u32)> {
        let mut sum = lock(&self.0);
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            match read_exact_or_end(file, sum.bytes, &mut chunk)? {
                0 => return Ok((sum.bytes, sum.hasher.clone().finalize())),
                read => sum.add(&chunk[..read]),
            }
        }
    }
}

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
    }
}

/// What a file is instead of what was archived, in words; nothing when it is that.
fn unlike((bytes, crc): (u64, u32), found: (u64, u32)) -> Option<String> {
    (found != (bytes, crc)).then(|| {
        format!(
            "it is not the file that was archived: {} bytes with CRC {} instead of {bytes} with {}",
            found.0,
            Crc(found.1),
            Crc(crc)
        )
    })
}

impl Vouched {
    /// Nothing for a directory without a manifest that can be read.
    pub(crate) fn open(disk: &DiskStorage) -> Option<Vouched> {
        Some(Vouched {
            manifest: Mutex::new(Arc::new(manifest(disk)?)),
            segments: Mutex::default(),
            snapshots: Mutex::default(),
        })
    }

    fn manifest(&self) -> Arc<Manifest> {
        Arc::clone(&lock(&self.manifest))
    }

    /// Of the names in `dir`, those that are archived, and those of no segment and no snapshot.
    pub(crate) fn archived(&self, disk: &DiskStorage, dir: Dir, mut names: Vec<String>) -> Vec<String> {
        // A run of walctl archive may go on meanwhile. Its control file, which is read before the names are, is the last
        // that it writes: all that it knows of is in the manifest by now.
        if let Some(now) = manifest(disk) {
            *lock(&self.manifest) = Arc::new(now);
        }
        let manifest = self.manifest();
        match dir {
            Dir::Wal => {
                let known: BTreeSet<&String> = manifest.segments.iter().map(|entry| &entry.file).collect();
                names.retain(|name| parse_segment_name(name).is_none() || known.contains(name));
            }
            Dir::Snap => {
                let known: BTreeSet<&String> = manifest.snapshots.iter().map(|entry| &entry.file).collect();
                names.retain(|name| parse_snapshot_name(name).is_none() || known.contains(name));
            }
            Dir::Root | Dir::Diverged => {}
        }
        names
    }

    /// Where to say what is read of a file; nothing when it need not be said. A snapshot that is not the one that was
    /// archived is an error.
    pub(crate) fn tally(&self, disk: &DiskStorage, dir: Dir, name: &str) -> io::Result<Option<Arc<Tally>>> {
        match dir {
            Dir::Wal if parse_segment_name(name).is_some() => Ok(Some(self.segment(name))),
            Dir::Snap if parse_snapshot_name(name).is_some() => self.snapshot(disk, name).map(|()| None),
            _ => Ok(None),
        }
    }

    fn segment(&self, name: &str) -> Arc<Tally> {
        Arc::clone(lock(&self.segments).entry(name.to_owned()).or_default())
    }

    fn snapshot(&self, disk: &DiskStorage, name: &str) -> io::Result<()> {
        let manifest = self.manifest();
        let mut entries = manifest.snapshots.iter();
        let Some(entry) = entries.find(|entry| entry.file == name) else {
            return Ok(());
        };
        let known = lock(&self.snapshots).get(name).cloned();
        let wrong = match known {
            Some(known) => known,
            None => {
                let found = Tally::default().whole(&disk.open(Dir::Snap, name)?)?;
                let wrong = unlike((entry.bytes, entry.crc), found);
                lock(&self.snapshots).insert(name.to_owned(), wrong.clone());
                wrong
            }
        };
        wrong.map_or(Ok(()), |wrong| {
            Err(io::Error::new(io::ErrorKind::InvalidData, wrong))
        })
    }

    /// What is wrong with the segment of an entry, if it was read, or if it has to be looked at.
    fn wrong(&self, view: &View, entry: &SegmentEntry, must: bool) -> Option<Wrong> {
        let tally = self.segment(&entry.file);
        if !must && !lock(&tally.0).is_read {
            return None;
        }
        let found = view
            .disk()
            .open(Dir::Wal, &entry.file)
            .and_then(|file| tally.whole(&file));
        let (row, words, crc) = match found {
            Ok(found) => (Row::F, unlike((entry.bytes, entry.crc), found)?, Some(found.1)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                (Row::G, "it was archived, and is gone".to_owned(), None)
            }
            Err(error) => (Row::I, error.to_string(), None),
        };
        Some(Wrong { row, words, crc })
    }
}

struct Wrong {
    row: Row,
    words: String,
    crc: Option<u32>,
}

/// A good manifest, as it is now.
fn manifest(disk: &DiskStorage) -> Option<Manifest> {
    let file = disk.open(Dir::Root, MANIFEST_NAME).ok()?;
    Manifest::decode(&read_all(&file, MANIFEST_BYTES_MAX).ok()?).ok()
}

/// What there is to do about it.
fn remedy(view: &View) -> String {
    let path = view.describe(Dir::Root, "");
    let path = std::path::Path::new(path.trim_end_matches('/'));
    let store = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    format!(
        "walctl archive DIR --into {} --check, where DIR is the data directory, says what brings it back",
        store.unwrap_or(std::path::Path::new(".")).display()
    )
}

/// Adds to a judgement what the manifest knows better: segments that are not what was archived, and an end that is none.
/// With `whole`, also about what was read of log that the judgement did not need.
pub(crate) fn amend(view: &View, judgement: &mut Judgement, whole: bool) {
    let Some(vouched) = view.vouched().filter(|_| !judgement.live) else {
        return;
    };
    let manifest = vouched.manifest();
    let begin = match &judgement.snapshot {
        Some(snapshot) if !whole => snapshot.start.get(),
        _ => 0,
    };
    let end = judgement.end_lsn;
    let mut found: Vec<(Row, Finding)> = Vec::new();
    for entry in manifest.segments.iter().filter(|entry| entry.end_lsn > begin) {
        // Where reading stopped, the log should have gone on. Behind that, nothing is known when it stopped for a reason.
        let is_next = entry.first_lsn <= end.get() || !judgement.row.refuses();
        let must = entry.end_lsn > end.get() && is_next && found.is_empty();
        let Some(wrong) = vouched.wrong(view, entry, must) else {
            continue;
        };
        let ends_here = entry.first_lsn < end.get() && end.get() < entry.end_lsn;
        let read = judgement.segments.iter().find(|read| read.name == entry.file);
        let offset = read.filter(|_| ends_here).map_or(0, |read| read.used_bytes);
        let finding = Finding {
            kind: FindingKind::Row(wrong.row),
            message: format!("{}; {}", wrong.words, remedy(view)),
            place: Some(Found {
                dir: Dir::Wal,
                name: entry.file.clone(),
                offset,
            }),
            lsn: Some(if ends_here { end } else { Lsn::new(entry.first_lsn) }),
            promised: Some(Lsn::new(entry.end_lsn)),
            expected_crc: wrong.crc.map(|_| entry.crc),
            found_crc: wrong.crc,
        };
        if !judgement.findings.contains(&finding) {
            found.push((wrong.row, finding));
        }
    }
    let Some((row, first)) = found.first() else {
        return;
    };
    let is_it = |finding: &Finding| {
        let name = |finding: &Finding| finding.place.as_ref().map(|place| place.name.clone());
        *row == Row::F && name(finding) == name(first)
    };
    // A file without a good header is said to be missing. It is there.
    if !judgement.row.refuses() || judgement.row == Row::G && judgement.reasons().all(is_it) {
        (judgement.row, judgement.verdict) = (*row, (*row).into());
    }
    acquit(view, vouched, &manifest, &mut judgement.findings, &found);
    // The reasons of the row come first.
    let (reasons, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|(row, _)| *row == judgement.row);
    let at = judgement.reasons().count();
    judgement
        .findings
        .splice(at..at, reasons.into_iter().map(|(_, finding)| finding));
    judgement
        .findings
        .extend(others.into_iter().map(|(_, finding)| finding));
}

/// Takes back what the header of a segment that is not the archived one says against the one before it, which is.
fn acquit(
    view: &View,
    vouched: &Vouched,
    manifest: &Manifest,
    findings: &mut Vec<Finding>,
    found: &[(Row, Finding)],
) {
    let is_wrong = |entry: &SegmentEntry| {
        let mut names = found.iter().filter_map(|(_, finding)| finding.place.as_ref());
        names.any(|place| place.name == entry.file)
    };
    for pair in manifest.segments.windows(2) {
        let [entry, next] = pair else { continue };
        if is_wrong(next) && !is_wrong(entry) && vouched.wrong(view, entry, true).is_none() {
            findings.retain(|finding| {
                let place = finding.place.as_ref();
                let is_here = place.is_some_and(|place| place.dir == Dir::Wal && place.name == entry.file);
                !(is_here && finding.kind == FindingKind::Row(Row::F))
            });
        }
    }
}

/// The first thing that is wrong with what was read, for whoever reads without a verdict up to `end`, the end of the log or
/// (with nothing) wherever there was enough.
pub(crate) fn complaint(view: &View, end: Option<Lsn>) -> Option<Complaint> {
    let vouched = view.vouched()?;
    let manifest = vouched.manifest();
    let mut entries = manifest.segments.iter();
    entries.find_map(|entry| {
        let must = end.is_some_and(|end| end.get() < entry.end_lsn);
        let Wrong { words, .. } = vouched.wrong(view, entry, must)?;
        Some(Complaint {
            words: format!("{}: {words}; {}", Dir::Wal.join(&entry.file), remedy(view)),
            file: Some(entry.file.clone()),
        })
    })
}
