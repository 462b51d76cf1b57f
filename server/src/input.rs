//! The read buffer of one connection: grows with what arrived, never by what a client claims will.
//!
//! An idle connection keeps one small buffer: ten thousand of them must not cost what ten busy ones do.

use bytes::BufMut;

/// Room made for one read of a connection that sends little.
const READ_BYTES_MIN: usize = 4 << 10;

/// Room made for one read of a connection that fills what it gets, and the most that one read takes: what is read at once
/// is looked at at once, and 64 KiB can be nine thousand arguments.
const READ_BYTES_MAX: usize = 64 << 10;

/// From here on the buffer grows to up to five times what is in it, if the argument is known to be so long. Below, moving
/// costs nothing, and thousands of clients may hold so much.
const LONG_BYTES: usize = 1 << 20;

/// See the module. What has been consumed stays in front of `start` until it is worth moving the rest.
#[derive(Debug)]
pub struct Input {
    buffer: Vec<u8>,
    start: usize,
    /// Room for the next read; follows how much of it is used.
    read_bytes: usize,
    /// Room that the last read was offered.
    offered: usize,
}

impl Default for Input {
    fn default() -> Self {
        Input {
            buffer: Vec::new(),
            start: 0,
            read_bytes: READ_BYTES_MIN,
            offered: 0,
        }
    }
}

impl Input {
    /// What arrived and is not consumed.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// Drops `count` bytes from the front.
    pub fn consume(&mut self, count: usize) {
        self.start += count;
        assert!(
            self.start <= self.buffer.len(),
            "only what arrived can be consumed"
        );
        if self.start == self.buffer.len() {
            self.buffer.clear();
            self.buffer.shrink_to(self.read_bytes);
            self.start = 0;
        }
    }

    /// Room for the next read, behind what is there. `missing`: how many more bytes the unfinished command is known to
    /// have, 1 when nothing is known. A client chose that number: it only keeps the room from growing beyond what is
    /// needed, and what is made at once is never more than four times what has arrived.
    pub fn room(&mut self, missing: usize) -> impl BufMut + '_ {
        if self.start > 0 && self.start >= self.buffer.len() / 2 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        let length = self.buffer.len();
        if self.buffer.capacity() - length < missing.clamp(1, self.read_bytes / 2) {
            // All that is there is moved when the buffer grows, and others wait meanwhile. Doubling keeps that in
            // proportion to what arrived. What is long goes to a quarter of its size, then to all of it: less is moved,
            // less at once, and it ends in a buffer of its size.
            let more = if length < LONG_BYTES {
                length
            } else if missing <= length.saturating_mul(4) {
                missing.max(length)
            } else {
                let quarter = length.saturating_add(missing) / 4;
                quarter.clamp(length.saturating_mul(2), length.saturating_mul(4)) - length
            };
            self.buffer.reserve_exact(more.max(self.read_bytes));
        }
        self.offered = (self.buffer.capacity() - self.buffer.len()).min(READ_BYTES_MAX);
        (&mut self.buffer).limit(self.offered)
    }

    /// The last read brought so many bytes: the next one is offered more, or less.
    pub fn note_read(&mut self, count: usize) {
        if count >= self.offered {
            self.read_bytes = (self.read_bytes * 2).min(READ_BYTES_MAX);
        } else if count < self.read_bytes / 4 {
            self.read_bytes = (self.read_bytes / 2).max(READ_BYTES_MIN);
        }
    }

    /// Memory held.
    pub fn memory_bytes(&self) -> usize {
        self.buffer.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::{Input, LONG_BYTES, READ_BYTES_MAX, READ_BYTES_MIN};
    use bytes::BufMut;

    /// Puts as many bytes as there is room for, up to `most`; how many these were.
    fn fill(input: &mut Input, missing: usize, most: usize) -> usize {
        let mut room = input.room(missing);
        let count = room.remaining_mut().min(most);
        room.put_bytes(7, count);
        drop(room);
        input.note_read(count);
        count
    }

    #[test]
    fn keeps_order() {
        let mut input = Input::default();
        let (mut next_in, mut next_out) = (0_u32, 0_u32);
        for round in 0..2_000_usize {
            let mut room = input.room(1);
            let words = (room.remaining_mut() / 4).min(round % 700);
            for _ in 0..words {
                room.put_u32(next_in);
                next_in += 1;
            }
            drop(room);
            input.note_read(words * 4);
            let take = (input.bytes().len() / 4).min(round * 7 % 600);
            for _ in 0..take {
                let word: [u8; 4] = input.bytes()[..4].try_into().unwrap();
                assert_eq!(u32::from_be_bytes(word), next_out);
                next_out += 1;
                input.consume(4);
            }
        }
        assert!(next_out > 10_000);
    }

    #[test]
    fn memory_follows_what_arrived() {
        let mut input = Input::default();
        let (mut moves, mut memory) = (0, 0);
        for _ in 0..4000 {
            let before = input.bytes().len();
            let count = fill(&mut input, 1, usize::MAX);
            assert!((1..=READ_BYTES_MAX).contains(&count));
            let bound = 2 * before + 2 * READ_BYTES_MAX;
            assert!(
                input.memory_bytes() <= bound,
                "{} for {before}",
                input.memory_bytes()
            );
            moves += usize::from(input.memory_bytes() != memory);
            memory = input.memory_bytes();
        }
        // 250 MiB by now.
        assert!(moves < 20, "the buffer was moved {moves} times");
        input.consume(input.bytes().len());
        assert!(input.memory_bytes() <= READ_BYTES_MAX);
        for _ in 0..10 {
            let count = fill(&mut input, 1, 20);
            input.consume(count);
        }
        assert!(input.memory_bytes() <= READ_BYTES_MIN * 2);
    }

    /// Sixteen MiB that were announced: never more than five times what arrived, and in the end just them.
    #[test]
    fn an_announced_argument_ends_in_a_buffer_of_its_size() {
        const ALL: usize = (16 << 20) + 40;
        let (mut input, mut moved, mut memory) = (Input::default(), 0, 0);
        while input.bytes().len() < ALL {
            let before = input.bytes().len();
            fill(&mut input, ALL - before, usize::MAX);
            let factor = if before < LONG_BYTES { 2 } else { 5 };
            assert!(input.memory_bytes() <= factor * before + 2 * READ_BYTES_MAX);
            if input.memory_bytes() != memory {
                moved += before;
                memory = input.memory_bytes();
            }
        }
        assert_eq!((input.bytes().len(), input.memory_bytes()), (ALL, ALL));
        assert!(moved < ALL * 3 / 5, "{moved} bytes were moved");
    }
}
