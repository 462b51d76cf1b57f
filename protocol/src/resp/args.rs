//! The borrowed argument list of one request.

use std::ops::Index;

/// Where one argument lies in its buffer. 32 bits each: a million arguments cost 8 MB, not 16; a request that reaches
/// 4 GiB is refused before such a position can arise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) start: u32,
    pub(super) end: u32,
}

/// The arguments of one command, the name included as argument 0. A pair of pointers: copy it freely.
///
/// It borrows either from a connection's read buffer with the positions that a
/// [`Decoder`](super::decode::Decoder) found, or from a list of slices, for tests and callers inside the process.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    source: Source<'a>,
}

#[derive(Clone, Copy)]
enum Source<'a> {
    Positions { buffer: &'a [u8], ranges: &'a [Range] },
    Slices(&'a [&'a [u8]]),
}

impl<'a> Args<'a> {
    pub(super) fn positions(buffer: &'a [u8], ranges: &'a [Range]) -> Self {
        Args {
            source: Source::Positions { buffer, ranges },
        }
    }

    /// How many arguments there are, the name counted.
    pub fn len(&self) -> usize {
        match self.source {
            Source::Positions { ranges, .. } => ranges.len(),
            Source::Slices(slices) => slices.len(),
        }
    }

    /// Whether there is not even a name.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Argument `index`, or `None` behind the last one.
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        match self.source {
            Source::Positions { buffer, ranges } => {
                let range = ranges.get(index)?;
                buffer.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
            }
            Source::Slices(slices) => slices.get(index).copied(),
        }
    }

    /// The command's name as the client spelled it; empty when there is none.
    pub fn name(&self) -> &'a [u8] {
        self.get(0).unwrap_or_default()
    }

    /// All arguments in order, the name first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + DoubleEndedIterator + use<'a> {
        let args = *self;
        (0..args.len()).map(move |index| args.get(index).unwrap_or_default())
    }

    /// The arguments from `first` on, as a list of its own; empty when there are not so many.
    pub fn tail(&self, first: usize) -> Args<'a> {
        let source = match self.source {
            Source::Positions { buffer, ranges } => Source::Positions {
                buffer,
                ranges: ranges.get(first..).unwrap_or_default(),
            },
            Source::Slices(slices) => Source::Slices(slices.get(first..).unwrap_or_default()),
        };
        Args { source }
    }
}

impl<'a> From<&'a [&'a [u8]]> for Args<'a> {
    fn from(slices: &'a [&'a [u8]]) -> Self {
        Args {
            source: Source::Slices(slices),
        }
    }
}

impl<'a, const N: usize> From<&'a [&'a [u8]; N]> for Args<'a> {
    fn from(slices: &'a [&'a [u8]; N]) -> Self {
        Args::from(slices.as_slice())
    }
}

impl Index<usize> for Args<'_> {
    type Output = [u8];

    /// For positions that the arity check has covered. Panics behind the last argument, as a slice does.
    fn index(&self, index: usize) -> &[u8] {
        match self.get(index) {
            Some(argument) => argument,
            None => panic!(
                "argument {index} of {}: the arity was not checked before",
                self.len()
            ),
        }
    }
}

/// Equal when the arguments are, wherever they lie.
impl PartialEq for Args<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Args<'_> {}

/// Shows arguments as escaped text, for test failures. Never for logs: values are the clients' business.
impl std::fmt::Debug for Args<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.iter().map(|argument| argument.escape_ascii().to_string()))
            .finish()
    }
}
