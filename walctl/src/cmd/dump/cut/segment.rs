//! What was cut off, as the segment of a log: a header page, the bytes of the file, and the zeros that were behind them.

use std::io;
use std::sync::Arc;

use idem_protocol::Lsn;
use idem_protocol::wal::{SECOND_COPY_OFFSET, SEGMENT_HEADER_BYTES, SegmentHeader, segment_name};
use idem_wal::storage::{Dir, Storage, StorageFile};

use crate::read_only::{refuse_changes, refuse_writes};
use crate::view::ViewFile;

/// Where the bytes of the file begin in the segment that is made of it.
pub(super) const BEGIN: u64 = SEGMENT_HEADER_BYTES as u64;

/// Why a call that writes fails.
const REFUSED: &str = "a tool that only looks does not write";

/// A directory with one segment, and that segment: a header page, the bytes of the file, and zeros.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    page: Arc<[u8]>,
    file: Arc<ViewFile>,
    /// Length of the file.
    pub(super) file_bytes: u64,
    /// Length of the segment. The file ends at the last byte that was not zero, and a record may end in zeros.
    bytes: u64,
    first: Lsn,
}

impl Cut {
    /// Of the file that was cut at `lsn` off the segment with header `origin` and that length.
    pub(super) fn new(
        file: ViewFile,
        lsn: Lsn,
        origin: SegmentHeader,
        segment_bytes: u64,
    ) -> io::Result<Cut> {
        let header = SegmentHeader {
            first_lsn: lsn,
            predecessor: None,
            ..origin
        }
        .encode();
        let mut page = vec![0; SEGMENT_HEADER_BYTES];
        for at in [0, SECOND_COPY_OFFSET] {
            page[at..at + header.len()].copy_from_slice(&header);
        }
        let file_bytes = file.len()?;
        Ok(Cut {
            page: page.into(),
            file: Arc::new(file),
            file_bytes,
            bytes: segment_bytes.max(BEGIN.saturating_add(file_bytes)),
            first: lsn,
        })
    }
}

impl Storage for Cut {
    type File = Cut;

    fn list(&self, dir: Dir) -> io::Result<Vec<String>> {
        Ok(match dir {
            Dir::Wal => vec![segment_name(self.first)],
            Dir::Root | Dir::Snap | Dir::Diverged => Vec::new(),
        })
    }

    fn open(&self, dir: Dir, name: &str) -> io::Result<Cut> {
        if self.list(dir)?.iter().any(|known| known == name) {
            Ok(self.clone())
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    refuse_changes!(REFUSED);

    fn available_bytes(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn describe(&self, dir: Dir, name: &str) -> String {
        dir.join(name)
    }
}

impl StorageFile for Cut {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(page) = usize::try_from(offset).ok().and_then(|at| self.page.get(at..))
            && !page.is_empty()
        {
            let count = page.len().min(buf.len());
            buf[..count].copy_from_slice(&page[..count]);
            return Ok(count);
        }
        if offset - BEGIN < self.file_bytes {
            return self.file.read_at(offset - BEGIN, buf);
        }
        let left = self.bytes.saturating_sub(offset);
        let count = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        buf[..count].fill(0);
        Ok(count)
    }

    refuse_writes!(REFUSED);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Meter;
    use crate::read_only;
    use crate::view::View;
    use idem_protocol::wal::Salt;
    use idem_protocol::{ClusterId, Epoch, NodeId};
    use idem_wal::reader::HeaderPage;
    use idem_wal::storage::durable::read_exact_or_end;

    #[test]
    fn the_segment_that_is_made_of_it_reads_as_one_and_cannot_be_written() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("cut"), b"what was cut").unwrap();
        let view = View::open(directory.path(), Arc::new(Meter::new(false))).unwrap();
        let origin = SegmentHeader {
            node: NodeId([1; 16]),
            cluster: ClusterId([2; 16]),
            first_lsn: Lsn::ZERO,
            salt: Salt([3; 8]),
            epoch: Epoch::default(),
            predecessor: None,
        };
        let file = view.open(Dir::Root, "cut").unwrap();
        let cut = Cut::new(file, Lsn::new(500), origin, 5000).unwrap();
        read_only::check(&cut, &cut);
        let header = HeaderPage::read(&cut).unwrap().header().unwrap();
        assert_eq!((header.first_lsn, header.salt), (Lsn::new(500), origin.salt));
        let mut bytes = [0xff; 32];
        let read = read_exact_or_end(&cut, 4090, &mut bytes).unwrap();
        assert_eq!(
            &bytes[..read],
            b"\0\0\0\0\0\0what was cut\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
        );
        assert_eq!(
            (
                cut.len().unwrap(),
                read_exact_or_end(&cut, 4990, &mut bytes).unwrap()
            ),
            (5000, 10)
        );
    }
}
