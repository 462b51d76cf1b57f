//! The read buffer of one connection: grows with what arrived, never by what a client claims will.
//!
//! An idle connection keeps one small buffer: ten thousand of them must not cost what ten busy ones do.

use bytes::BufMut;

/// Room made for one read of a connection that sends little.
const READ_BYTES_MIN: usize = 4 << 10;

/// Room made for one read of a connection that fills what it gets.
const READ_BYTES_BUSY: usize = 64 << 10;

/// Room made for one read while a long argument arrives.
const READ_BYTES_MAX: usize = 1 << 20;

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

    /// Room for the next read, behind what is there.
    pub fn room(&mut self) -> impl BufMut + '_ {
        if self.start > 0 && self.start >= self.buffer.len() / 2 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        // What holds much already is a long argument: doubling takes a number of reads that is logarithmic in its length.
        let room = self.read_bytes.max(self.buffer.len().min(READ_BYTES_MAX));
        if self.buffer.capacity() - self.buffer.len() < room / 2 {
            self.buffer.reserve_exact(room);
        }
        self.offered = (self.buffer.capacity() - self.buffer.len()).min(READ_BYTES_MAX);
        (&mut self.buffer).limit(self.offered)
    }

    /// The last read brought so many bytes: the next one is offered more, or less.
    pub fn note_read(&mut self, count: usize) {
        if count >= self.offered {
            self.read_bytes = (self.read_bytes * 2).min(READ_BYTES_BUSY);
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
    use super::{Input, READ_BYTES_BUSY, READ_BYTES_MAX, READ_BYTES_MIN};
    use bytes::BufMut;

    /// Puts as many bytes as there is room for, up to `most`; how many these were.
    fn fill(input: &mut Input, most: usize) -> usize {
        let mut room = input.room();
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
            let mut room = input.room();
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
        for _ in 0..60 {
            let before = input.bytes().len();
            fill(&mut input, usize::MAX);
            let bound = before + before.clamp(READ_BYTES_BUSY, READ_BYTES_MAX) * 2;
            assert!(
                input.memory_bytes() <= bound,
                "{} for {before}",
                input.memory_bytes()
            );
        }
        input.consume(input.bytes().len());
        assert!(input.memory_bytes() <= READ_BYTES_BUSY);
        for _ in 0..10 {
            let count = fill(&mut input, 20);
            input.consume(count);
        }
        assert!(input.memory_bytes() <= READ_BYTES_MIN * 2);
    }
}
