//! The reply queue against a naive model: for any sequence of replies, barrier moves and partial sends, what left is
//! exactly what was written, in order, and never a byte whose lsn, or whose predecessors' lsn, the barrier had not
//! passed.

#![allow(
    clippy::unwrap_used,
    reason = "a helper of tests is a test: what is not so fails it"
)]

use idem_protocol::lsn::Lsn;
use idem_server::replies::Replies;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    /// A reply of so many bytes that depends on this lsn; of none, when it is not sent.
    Reply { bytes: usize, lsn: u64 },
    /// The barrier stands here now (it may also fall).
    Barrier(u64),
    /// The socket takes at most so many bytes.
    Send(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (prop_oneof![Just(0_usize), 1..20_usize, 100..40_000_usize], 0..60_u64)
            .prop_map(|(bytes, lsn)| Step::Reply { bytes, lsn }),
        3 => (0..60_u64).prop_map(Step::Barrier),
        3 => prop_oneof![0..50_usize, 0..100_000_usize].prop_map(Step::Send),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn nothing_early_nothing_lost_nothing_reordered(steps in prop::collection::vec(step(), 0..80)) {
        let mut replies = Replies::default();
        // The model: every byte with the largest lsn up to it.
        let mut written: Vec<(u8, u64)> = Vec::new();
        let mut sent = 0_usize;
        let mut allowed = 0_usize;
        let mut highest = 0;
        let mut counter = 0_u32;
        for step in steps {
            match step {
                Step::Reply { bytes, lsn } => {
                    highest = highest.max(lsn);
                    for _ in 0..bytes {
                        counter = counter.wrapping_mul(1_103_515_245).wrapping_add(12_345);
                        let byte = counter.to_le_bytes()[2];
                        replies.buffer().push(byte);
                        written.push((byte, highest));
                    }
                    replies.mark(Lsn::new(lsn));
                }
                Step::Barrier(barrier) => {
                    replies.release(Lsn::new(barrier));
                    while allowed < written.len() && written[allowed].1 <= barrier {
                        allowed += 1;
                    }
                }
                Step::Send(most) => {
                    let bytes = replies.sendable().len().min(most);
                    let chunk: Vec<u8> = replies.sendable()[..bytes].to_vec();
                    let expected: Vec<u8> = written[sent..sent + bytes].iter().map(|(byte, _)| *byte).collect();
                    prop_assert_eq!(chunk, expected);
                    replies.sent(bytes);
                    sent += bytes;
                }
            }
            prop_assert_eq!(replies.sendable().len(), allowed - sent);
            prop_assert_eq!(replies.unsent_bytes(), written.len() - sent);
            prop_assert_eq!(replies.waits_for().map(Lsn::get), written.get(allowed).map(|(_, lsn)| *lsn));
            prop_assert_eq!(replies.is_empty(), written.len() == sent);
        }
    }
}

#[test]
fn an_emptied_queue_gives_its_memory_back() {
    let mut replies = Replies::default();
    replies.buffer().extend_from_slice(&vec![0; 8 << 20]);
    replies.mark(Lsn::ZERO);
    replies.release(Lsn::ZERO);
    let bytes = replies.sendable().len();
    replies.sent(bytes);
    assert!(replies.memory_bytes() < 64 << 10);
}
