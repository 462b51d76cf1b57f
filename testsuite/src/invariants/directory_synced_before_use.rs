//! A segment's name is on disk before its first frame.
//!
//! No SIGKILL shows a missing directory sync: the kernel keeps the name. Only a power loss takes it, and with it every
//! frame of that segment, synced or not. So this is looked for in the order of the system calls.

use std::path::Path;

use crate::trace::Call;

/// Frames begin behind the header page; what is written below is the header.
const HEADER_BYTES: u64 = idem_protocol::wal::SEGMENT_HEADER_BYTES as u64;

/// Each rename to a segment's name in the trace is followed by a sync of the directory before anything is written
/// behind the segment's header.
pub fn check(calls: &[Call]) -> Vec<String> {
    let renames = calls
        .iter()
        .filter(|call| call.succeeded() && call.renamed_to().is_some_and(|path| is_segment(&path)));
    renames.filter_map(|rename| check_rename(calls, rename)).collect()
}

/// Segments that got their names in the trace: a check of none of them proves nothing.
pub fn renamed_segments(calls: &[Call]) -> usize {
    calls
        .iter()
        .filter(|call| call.succeeded() && call.renamed_to().is_some_and(|path| is_segment(&path)))
        .count()
}

fn is_segment(path: &str) -> bool {
    Path::new(path)
        .extension()
        .is_some_and(|extension| extension == "wal")
}

fn check_rename(calls: &[Call], rename: &Call) -> Option<String> {
    let segment = rename.renamed_to()?;
    let segment = Path::new(&segment);
    let directory = segment.parent()?;
    let named = rename.end?;
    let first_frame = calls.iter().find(|call| {
        let of_segment = call.file().is_some_and(|file| Path::new(file) == segment);
        call.begin > named && of_segment && call.span().is_some_and(|(_, at)| at >= HEADER_BYTES)
    })?;
    let synced = calls.iter().any(|call| {
        let of_directory = call.file().is_some_and(|file| Path::new(file) == directory);
        of_directory
            && call.is_sync()
            && call.succeeded()
            && call.begin > named
            && call.end < Some(first_frame.begin)
    });
    (!synced).then(|| {
        format!(
            "{} got its first frame (line {}) before its name was synced",
            segment.display(),
            first_frame.begin + 1
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{check, renamed_segments};
    use crate::trace::parse;

    const RENAME: &str = "1 0.1 rename(\"/d/wal/new.tmp\", \"/d/wal/00000000000000000064.wal\") = 0 <0.1>\n";
    const SYNC: &str = "1 0.2 fsync(5</d/wal>) = 0 <0.1>\n";
    const FAILED: &str = "1 0.2 fsync(5</d/wal>) = -1 EIO (Input/output error) <0.1>\n";
    const OTHER: &str = "1 0.2 fsync(5</d/snap>) = 0 <0.1>\n";
    const HEADER: &str =
        "1 0.3 pwrite64(7</d/wal/00000000000000000064.wal>, \"\"..., 4096, 0) = 4096 <0.1>\n";
    const FRAME: &str = "1 0.4 pwrite64(7</d/wal/00000000000000000064.wal>, \"\"..., 64, 4096) = 64 <0.1>\n";

    #[test]
    fn a_name_has_to_be_synced_between_its_rename_and_the_first_frame() {
        for (lines, violations) in [
            (&[RENAME, SYNC, FRAME][..], 0),
            (&[RENAME, HEADER, SYNC, FRAME], 0),
            (&[RENAME, HEADER], 0),
            (&[RENAME, FRAME], 1),
            (&[RENAME, OTHER, FRAME, SYNC], 1),
            (&[SYNC, RENAME, FRAME], 1),
            (&[RENAME, FAILED, FRAME], 1),
        ] {
            let calls = parse(&lines.concat());
            assert_eq!(renamed_segments(&calls), 1);
            assert_eq!(check(&calls).len(), violations, "{lines:?}");
        }
    }
}
