//! Commands kept for later, as their arguments: what a transaction queues.

use super::Args;
use super::args::Range;

/// Any number of commands in one buffer. Each costs the bytes of its arguments and 8 for each argument.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ArgsQueue {
    buffer: Vec<u8>,
    ranges: Vec<Range>,
    /// For each command, where its ranges end.
    ends: Vec<u32>,
}

/// The commands have more bytes or arguments than positions of 32 bits can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueFull;

impl ArgsQueue {
    /// Keeps a copy of a command behind the others.
    ///
    /// # Errors
    /// All commands together would have 4 GiB or more; nothing was kept.
    pub fn push(&mut self, args: Args<'_>) -> Result<(), QueueFull> {
        let bytes = args.iter().map(<[u8]>::len).sum::<usize>();
        let place = |bytes: usize| u32::try_from(bytes).map_err(|_| QueueFull);
        place(self.buffer.len().saturating_add(bytes))?;
        let end = place(self.ranges.len().saturating_add(args.len()))?;
        for argument in args.iter() {
            let start = place(self.buffer.len())?;
            self.buffer.extend_from_slice(argument);
            let end = place(self.buffer.len())?;
            self.ranges.push(Range { start, end });
        }
        self.ends.push(end);
        Ok(())
    }

    /// How many commands are kept.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// A command's arguments; `None` behind the last command.
    pub fn get(&self, index: usize) -> Option<Args<'_>> {
        let end = *self.ends.get(index)?;
        let start = match index.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        let ranges = self
            .ranges
            .get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)?;
        Some(Args::positions(&self.buffer, ranges))
    }

    /// All commands, in the order in which they were kept.
    pub fn iter(&self) -> impl Iterator<Item = Args<'_>> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// Bytes on the heap.
    pub fn held_bytes(&self) -> usize {
        self.buffer.capacity()
            + self.ranges.capacity() * size_of::<Range>()
            + self.ends.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_back_what_was_kept() {
        let mut queue = ArgsQueue::default();
        let commands: [&[&[u8]]; 4] = [&[b"SET", b"k", b""], &[b"PING"], &[], &[b"\x00\xff\r\n", b"x"]];
        for command in commands {
            queue.push(Args::from(command)).expect("there is room");
        }
        assert_eq!(queue.len(), commands.len());
        let kept: Vec<Vec<&[u8]>> = queue.iter().map(|args| args.iter().collect()).collect();
        assert_eq!(kept, commands);
        assert!(queue.get(4).is_none());
        assert!(queue.held_bytes() >= 13);
    }
}
