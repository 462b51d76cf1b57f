//! Probes allocate nothing but what their replies take in the output buffer.
//!
//! A file of its own, because a counting allocator is a property of the whole test binary; and one test, because another
//! one on another thread would be counted too.

// The trait of allocators is unsafe to implement. Here every call is handed on unchanged to the system's allocator.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use idem_engine::{Durability, Facts, Log, Node, NodeConfig, Outcome, Reservation, ServerFacts, Session};
use idem_protocol::resp::Args;
use idem_protocol::wal::Record;
use idem_protocol::{Epoch, Lsn, UnixMs};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A log that only counts.
struct Endless(u64);

impl Log for Endless {
    fn reserve(&mut self, _record_bytes: u64) -> Reservation {
        Reservation::Granted
    }

    fn append(&mut self, _time: UnixMs, _db: u8, record: &Record<'_>) -> Lsn {
        self.0 += record.encoded_len();
        Lsn::new(self.0)
    }

    fn appended(&self) -> Lsn {
        Lsn::new(self.0)
    }
}

struct NoFacts;

impl Facts for NoFacts {
    fn info(&self) -> ServerFacts {
        ServerFacts::default()
    }

    fn last_save(&self) -> u64 {
        0
    }

    fn snapshot_running(&self) -> bool {
        false
    }
}

#[test]
fn probes_allocate_nothing() {
    let mut node = Node::new(NodeConfig {
        databases: 16,
        hash_seed: [1, 2, 3, 4],
        policy: Durability::Always,
        bulk_bytes_max: 16 << 20,
        #[cfg(feature = "sabotage")]
        sabotage: idem_engine::Sabotage::None,
    });
    node.open(Lsn::ZERO, UnixMs::new(1000), Epoch::default());
    let mut log = Endless(0);
    let mut session = Session::new(1);
    // The output buffer has room, as a connection's has after its first replies.
    let mut out = Vec::with_capacity(1 << 20);
    let result = vec![b'r'; 4096];
    let mut run = |arguments: &[&[u8]], now: u64, out: &mut Vec<u8>| {
        node.execute(
            &mut session,
            Args::from(arguments),
            UnixMs::new(now),
            &mut log,
            &NoFacts,
            out,
        )
    };
    for key in 0..5000_u32 {
        let key = key.to_string();
        run(
            &[
                b"IDEM",
                key.as_bytes(),
                b"BEGIN",
                b"fingerprint",
                b"owner",
                b"100000",
            ],
            1000,
            &mut out,
        );
        out.clear();
    }
    run(
        &[b"IDEM", b"1", b"COMPLETE", b"fingerprint", b"owner", &result],
        1000,
        &mut out,
    );
    run(&[b"SET", b"string", b"value"], 1000, &mut out);
    run(&[b"SET", b"short", b"value", b"PX", b"10"], 1000, &mut out);
    run(&[b"INCRBY", b"number", b"7"], 1000, &mut out);
    run(&[b"ONCE", b"once", b"100000"], 1000, &mut out);
    run(&[b"LIMIT", b"limit", b"1", b"100000"], 1000, &mut out);
    run(&[b"GET", b"short"], 1020, &mut out);
    out.clear();

    // Each is a whole command: lookup, decision, reply, counters.
    let probes: [(&[&[u8]], &[u8]); 20] = [
        (
            &[b"IDEM", b"0", b"BEGIN", b"fingerprint", b"other", b"5"],
            b"*1\r\n$7\r\npending\r\n",
        ),
        (
            &[b"idem", b"0", b"begin", b"another", b"other", b"5"],
            b"*1\r\n$8\r\nconflict\r\n",
        ),
        (
            &[b"IDEM", b"1", b"BEGIN", b"fingerprint", b"other", b"5"],
            b"*2\r\n$9\r\ncompleted\r\n$4096\r\nrrrr",
        ),
        (
            &[b"IDEM", b"1", b"COMPLETE", b"fingerprint", b"owner", &result],
            b":1\r\n",
        ),
        (
            &[b"IDEM", b"1", b"COMPLETE", b"fingerprint", b"owner", b"other"],
            b":0\r\n",
        ),
        (
            &[b"IDEM", b"0", b"COMPLETE", b"fingerprint", b"other", b"r"],
            b":0\r\n",
        ),
        (
            &[b"IDEM", b"missing", b"ABORT", b"fingerprint", b"owner"],
            b":0\r\n",
        ),
        (&[b"GET", b"string"], b"$5\r\nvalue\r\n"),
        (&[b"GET", b"missing"], b"$-1\r\n"),
        (&[b"GET", b"short"], b"$-1\r\n"),
        (&[b"GET", b"1"], b"$4123\r\nIDM"),
        (&[b"GETEX", b"string"], b"$5\r\nvalue\r\n"),
        (&[b"SETNX", b"string", b"other"], b":0\r\n"),
        (&[b"INCRBY", b"number", b"0"], b":7\r\n"),
        (&[b"PEXPIRETIME", b"0"], b":101000\r\n"),
        (&[b"EXISTS", b"string", b"missing"], b":1\r\n"),
        (&[b"PTTL", b"0"], b":"),
        (&[b"ONCE", b"once", b"5"], b":0\r\n"),
        (&[b"LIMIT", b"limit", b"1", b"5"], b"$-1\r\n"),
        (&[b"PING"], b"+PONG\r\n"),
    ];
    for (arguments, reply) in probes {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        let outcome = run(arguments, 1020, &mut out);
        let allocated = ALLOCATIONS.load(Ordering::Relaxed) - before;
        let name = arguments
            .iter()
            .map(|argument| argument.escape_ascii().to_string())
            .collect::<Vec<_>>();
        assert!(matches!(outcome, Outcome::Reply { .. }));
        assert!(out.starts_with(reply), "{name:?} answered {}", out.escape_ascii());
        assert_eq!(allocated, 0, "{name:?}");
        out.clear();
    }
}
