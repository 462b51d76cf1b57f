//! The read buffer of one connection: grows with what arrived, never by what a client claims will.

use bytes::BufMut;

/// Room made for one read while the buffer is small; it then grows with what it holds, so that a long argument takes a
/// number of reads that is logarithmic in its length.
const READ_BYTES_MIN: usize = 16 << 10;

/// Room made for one read at most.
const READ_BYTES_MAX: usize = 1 << 20;

/// An emptied buffer keeps at most this much memory.
const KEPT_BYTES_MAX: usize = 32 << 10;

/// See the module. What has been consumed stays in front of `start` until it is worth moving the rest.
#[derive(Debug, Default)]
pub struct Input {
    buffer: Vec<u8>,
    start: usize,
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
            self.buffer.shrink_to(KEPT_BYTES_MAX);
            self.start = 0;
        }
    }

    /// Room for the next read, behind what is there.
    pub fn room(&mut self) -> impl BufMut + '_ {
        if self.start > 0 && self.start >= self.buffer.len() / 2 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        let room = self.buffer.len().clamp(READ_BYTES_MIN, READ_BYTES_MAX);
        if self.buffer.capacity() - self.buffer.len() < READ_BYTES_MIN / 2 {
            self.buffer.reserve(room);
        }
        let free = self.buffer.capacity() - self.buffer.len();
        (&mut self.buffer).limit(free.min(READ_BYTES_MAX))
    }

    /// Memory held.
    pub fn memory_bytes(&self) -> usize {
        self.buffer.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::{Input, KEPT_BYTES_MAX, READ_BYTES_MAX, READ_BYTES_MIN};
    use bytes::BufMut;

    #[test]
    fn keeps_order_and_bounds() {
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
    fn room_follows_what_arrived() {
        let mut input = Input::default();
        for _ in 0..40 {
            let before = input.bytes().len();
            let mut room = input.room();
            let bytes = room.remaining_mut();
            assert!((READ_BYTES_MIN / 2..=READ_BYTES_MAX).contains(&bytes));
            room.put_bytes(0, bytes);
            drop(room);
            assert!(input.memory_bytes() <= (2 * before).max(before + READ_BYTES_MAX) + 2 * READ_BYTES_MIN);
        }
        let all = input.bytes().len();
        input.consume(all);
        assert!(input.memory_bytes() <= KEPT_BYTES_MAX);
    }
}
