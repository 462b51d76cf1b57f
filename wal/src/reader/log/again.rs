//! Looking again at the end of a log, for a reader that follows it.
//!
//! A log does not only grow. A start of the server cuts what was not whole; going back to another history or a repair
//! writes segments anew under the same names. So the segment is opened again by its name each time, and has to hold what was
//! read of it.

use std::io;

use idem_protocol::wal::{parse_segment_name, segment_name};

use super::{LogReader, Shared};
use crate::reader::HeaderPage;
use crate::storage::{Dir, Storage};

/// Whether the log still is the one that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// It is: the next step goes on where the last one ended.
    Same,
    /// The place that was read up to is gone, or is another one now. A new reader has to look how much is left.
    Changed,
}

impl<S: Storage> LogReader<S> {
    /// To be called after an end, before the next step: what was read ahead is forgotten, and what the newest segment's name
    /// leads to is compared with what was read.
    pub fn look_again(&mut self) -> io::Result<Again> {
        // What was opened for later may have got another name since, and its name another file.
        self.next = None;
        let Some(current) = self.current.as_mut() else {
            self.list()?;
            return Ok(Again::Same);
        };
        let names = self.storage.list(Dir::Wal)?;
        let firsts = || names.iter().filter_map(|name| parse_segment_name(name));
        if !firsts().any(|first| first == current.first) {
            // The oldest ones are removed first, and never the newest: anything else is no retention.
            let is_oldest = firsts().all(|first| first > current.first);
            if !is_oldest || names.is_empty() || firsts().next().is_none() {
                return Ok(Again::Changed);
            }
            current.reader.renew()?;
            return Ok(Again::Same);
        }
        let file = match self.storage.open(Dir::Wal, &segment_name(current.first)) {
            Ok(file) => Shared(std::sync::Arc::new(file)),
            // Removed a moment ago; the next look knows more.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Again::Same),
            Err(error) => return Err(error),
        };
        let is_same = HeaderPage::read(&file)?.header() == Ok(*current.reader.header())
            && current.reader.is_continued_by(&file)?;
        if !is_same {
            return Ok(Again::Changed);
        }
        current.reader.continue_in(file.clone())?;
        current.file = file;
        Ok(Again::Same)
    }
}

#[cfg(test)]
mod tests;
