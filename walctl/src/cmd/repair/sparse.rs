//! The parts of a file that are not zeros.
//!
//! A segment may be sparse: gigabytes of zeros that take up no space. What is copied of it, and what is overwritten in it,
//! are only the runs of pages that hold something. Between them, copy and original have the zeros without a write.

use std::io;

use idem_wal::storage::StorageFile;
use idem_wal::storage::durable::read_exact_or_end;

/// Zeros are told from data in pieces of this size: what a file system has a hole or no hole of.
const PAGE_BYTES: usize = 4096;
/// How much is read at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Shows `take` the bytes from `from` up to `to`, or up to the end of the file, in runs with their offsets; what is left out
/// is zero. Returns the offset behind the last byte that was looked at.
pub(super) fn runs<F: StorageFile>(
    file: &F,
    from: u64,
    to: u64,
    take: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<u64> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut at = from;
    while at < to {
        let wanted = usize::try_from(to - at).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
        let read = read_exact_or_end(file, at, &mut chunk[..wanted])?;
        let mut rest = 0;
        while let Some(start) = first_page(&chunk[rest..read], true).map(|page| rest + page) {
            let end = first_page(&chunk[start..read], false).map_or(read, |page| start + page);
            take(at + start as u64, &chunk[start..end])?;
            rest = end;
        }
        at += read as u64;
        if read < wanted {
            break;
        }
    }
    Ok(at)
}

/// Where the first page begins that holds data, or that holds none.
fn first_page(bytes: &[u8], with_data: bool) -> Option<usize> {
    let mut pages = bytes.chunks(PAGE_BYTES);
    let index = pages.position(|page| is_zero(page) != with_data)?;
    Some(index * PAGE_BYTES)
}

/// Whether nothing but zeros is there. In words, since it is asked of gigabytes.
pub(super) fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<32>();
    words.iter().all(|word| *word == [0; 32]) && rest.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use idem_wal::storage::sim::SimDisk;
    use idem_wal::storage::{Dir, Storage};

    #[test]
    fn what_is_left_out_is_zero_and_only_whole_pages_are() {
        let mut bytes = vec![0; 3 * CHUNK_BYTES + 10];
        let marks = [
            0,
            4095,
            4096,
            20_000,
            CHUNK_BYTES - 1,
            CHUNK_BYTES,
            3 * CHUNK_BYTES + 9,
        ];
        for at in marks {
            bytes[at] = 7;
        }
        let disk = SimDisk::new();
        disk.put(Dir::Wal, "a", &bytes);
        let file = disk.storage().open(Dir::Wal, "a").unwrap();
        let all = bytes.len();
        for (from, to) in [
            (0, all),
            (1, all + 5),
            (5000, CHUNK_BYTES),
            (30_000, 40_000),
            (all, all + 1),
            (7, 7),
        ] {
            let mut copy = vec![0; all];
            let mut taken = 0;
            let end = runs(&file, from as u64, to as u64, &mut |offset, run| {
                let offset = usize::try_from(offset).unwrap();
                copy[offset..offset + run.len()].copy_from_slice(run);
                taken += run.len();
                Ok(())
            });
            let end = usize::try_from(end.unwrap()).unwrap();
            assert_eq!(end, to.min(all).max(from), "{from} {to}");
            assert!(
                copy[from.min(end)..end] == bytes[from.min(end)..end],
                "{from} {to}"
            );
            assert!(taken <= marks.len() * PAGE_BYTES, "{from} {to}: {taken}");
        }
    }
}
