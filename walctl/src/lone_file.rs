//! A file that is named on the command line by itself, in whatever directory it lies: what it is, and what is said when it is
//! not what was wanted.

use std::io;
use std::path::Path;
use std::sync::Arc;

use idem_protocol::wal::{SECOND_COPY_OFFSET, frame, segment_header};
use idem_protocol::{control, snapshot};
use idem_wal::storage::durable::read_exact_or_end;
use idem_wal::storage::{Dir, Storage};

use crate::exit::Failure;
use crate::progress::Meter;
use crate::view::{View, ViewFile};

/// What a file is by its first bytes. They say what it was written as, not that it is undamaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Segment,
    Snapshot,
    Control,
    /// It begins with a group, as what is cut off a segment can.
    Group,
    /// Anything else.
    Other,
}

impl Kind {
    /// As part of a sentence; nothing for [`Kind::Other`].
    pub(crate) const fn words(self) -> Option<&'static str> {
        match self {
            Kind::Segment => Some("a segment of a log"),
            Kind::Snapshot => Some("a snapshot"),
            Kind::Control => Some("a control file"),
            Kind::Group => Some("a piece of a log"),
            Kind::Other => None,
        }
    }

    fn of(begin: &[u8]) -> Kind {
        let has = |at: usize, magic: &[u8]| begin.get(at..).is_some_and(|bytes| bytes.starts_with(magic));
        if has(0, &snapshot::MAGIC) {
            Kind::Snapshot
        } else if has(0, &control::MAGIC) {
            Kind::Control
        } else if has(0, &segment_header::MAGIC) || has(SECOND_COPY_OFFSET, &segment_header::MAGIC) {
            Kind::Segment
        } else if has(0, &frame::MAGIC) {
            Kind::Group
        } else {
            Kind::Other
        }
    }
}

/// An open file.
pub(crate) struct LoneFile {
    /// The directory that it lies in, which need not be a data directory.
    pub(crate) view: View,
    /// Its name there.
    pub(crate) name: String,
    pub(crate) file: ViewFile,
    pub(crate) kind: Kind,
}

/// Opens the file for reading and looks at its first bytes.
pub(crate) fn open(path: &Path, meter: &Arc<Meter>) -> Result<LoneFile, Failure> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return Err(Failure::usage(format!(
            "{}: not the path of a file, or its name is no UTF-8",
            path.display()
        )));
    };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    // A directory that is missing is said to be that, and by its own name.
    let view = View::open(parent.unwrap_or(Path::new(".")), Arc::clone(meter))?;
    let file = view
        .open(Dir::Root, name)
        .map_err(|error| failure(path, name, &error))?;
    let mut begin = [0; SECOND_COPY_OFFSET + segment_header::MAGIC.len()];
    // Whoever reads the file tells of what cannot be read, and how far it came.
    let read = read_exact_or_end(&file, 0, &mut begin).unwrap_or(0);
    Ok(LoneFile {
        kind: Kind::of(&begin[..read]),
        name: name.to_owned(),
        view,
        file,
    })
}

/// The path is said once, as it was given.
fn failure(path: &Path, name: &str, error: &io::Error) -> Failure {
    let path = path.display();
    if error.kind() == io::ErrorKind::NotFound {
        return Failure::usage(format!("no such file: {path}"));
    }
    let words = error.to_string();
    let words = words
        .strip_prefix(name)
        .and_then(|words| words.strip_prefix(": "))
        .unwrap_or(&words);
    Failure::usage(format!("{path}: {words}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_told_by_the_first_bytes() {
        let second_copy = [&[0; SECOND_COPY_OFFSET][..], b"IDEMWAL1"].concat();
        for (begin, expected) in [
            (&b"IDEMSNP1...."[..], Kind::Snapshot),
            (b"IDEMCTL1", Kind::Control),
            (b"IDEMWAL1", Kind::Segment),
            (&second_copy, Kind::Segment),
            (b"IFRM", Kind::Group),
            (b"IDEMSNP", Kind::Other),
            (b"", Kind::Other),
            (&[0; 3000], Kind::Other),
        ] {
            assert_eq!(Kind::of(begin), expected, "{begin:?}");
        }
    }
}
