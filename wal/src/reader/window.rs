//! A file read front to back through a window that holds only what is being looked at.
//!
//! The window grows with bytes that were read, a mebibyte at a time, so a length that a damaged file claims cannot make
//! it allocate. An error of the disk is passed on: a failed read is never the end of a file.

use std::io;

use crate::storage::StorageFile;

/// How much is asked of the disk at once.
const CHUNK_BYTES: usize = 1 << 20;

/// A window over a file.
pub(crate) struct Window<F> {
    file: F,
    file_bytes: u64,
    buffer: Vec<u8>,
    /// First byte of `buffer` that is still wanted.
    start: usize,
    /// Offset in the file of `buffer[start]`.
    offset: u64,
}

impl<F: StorageFile> Window<F> {
    pub(crate) fn new(file: F, offset: u64) -> io::Result<Self> {
        let file_bytes = file.len()?;
        Ok(Window {
            file,
            file_bytes,
            buffer: Vec::new(),
            start: 0,
            offset,
        })
    }

    /// Offset in the file of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The file's length when it was opened.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// What is left of the file.
    pub(crate) fn left(&self) -> u64 {
        self.file_bytes.saturating_sub(self.offset)
    }

    /// Goes to another place, and forgets what was read: the next look is at what the file holds, and is long, by then.
    pub(crate) fn seek(&mut self, offset: u64) -> io::Result<()> {
        self.buffer.clear();
        self.start = 0;
        self.file_bytes = self.file.len()?;
        self.offset = offset;
        Ok(())
    }

    /// Bytes from anywhere in the file; the window stays as it is.
    pub(crate) fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        crate::storage::durable::read_exact_or_end(&self.file, offset, buf)
    }

    /// Makes room for `count` bytes that are known to be worth it, without the surplus of a buffer that grows.
    pub(crate) fn reserve(&mut self, count: usize) -> io::Result<()> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let wanted = count
            .saturating_add(CHUNK_BYTES)
            .saturating_sub(self.buffer.len());
        self.buffer.try_reserve_exact(wanted).map_err(|_| out_of_memory())
    }

    /// The next `count` bytes, or fewer at the end of the file. They stay where they are.
    pub(crate) fn peek(&mut self, count: usize) -> io::Result<&[u8]> {
        let wanted = count.min(usize::try_from(self.left()).unwrap_or(usize::MAX));
        while self.buffer.len() - self.start < wanted {
            if self.start > 0 {
                self.buffer.drain(..self.start);
                self.start = 0;
            }
            let at = self.offset + self.buffer.len() as u64;
            let ahead = (self.file_bytes - at).min(CHUNK_BYTES as u64);
            let ahead = usize::try_from(ahead).expect("at most a mebibyte");
            let filled = self.buffer.len();
            // Memory that cannot be had is an error here, never taken for the end of the file.
            self.buffer.try_reserve(ahead).map_err(|_| out_of_memory())?;
            self.buffer.resize(filled + ahead, 0);
            let read = match self.file.read_at(at, &mut self.buffer[filled..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    self.buffer.truncate(filled);
                    continue;
                }
                other => other,
            };
            self.buffer.truncate(filled + *read.as_ref().unwrap_or(&0));
            if read? == 0 {
                // The file became shorter while it was read (a live directory): its end is here.
                self.file_bytes = at;
                return Ok(&self.buffer[self.start..]);
            }
        }
        Ok(&self.buffer[self.start..self.start + wanted])
    }

    /// Goes on by `count` bytes that were peeked at.
    pub(crate) fn advance(&mut self, count: usize) {
        assert!(
            self.start + count <= self.buffer.len(),
            "only bytes that were seen are passed"
        );
        self.start += count;
        self.offset += count as u64;
    }

    /// The `count` bytes that were passed last; valid until the next peek.
    pub(crate) fn passed(&self, count: usize) -> &[u8] {
        &self.buffer[self.start - count..self.start]
    }
}

/// There is no memory for what has to be held: a good record, and not a length that is only claimed.
pub(crate) fn out_of_memory() -> io::Error {
    io::Error::new(
        io::ErrorKind::OutOfMemory,
        "there is not enough memory to hold it",
    )
}
