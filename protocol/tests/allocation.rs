//! A claimed count or length reserves no memory, and looking at a record takes none.
//!
//! Goal: a peer or a damaged file that claims 2^32 − 1 entries costs no more than the bytes that it sent. Method: an
//! allocator that counts what this thread asks for; every count and length of every golden vector claims the most, with
//! checksums put right, and the largest single request must stay near the size of the input.

#![allow(
    unsafe_code,
    reason = "a global allocator can only be written with it; this one adds counters to the system's"
)]

mod support;

use idem_protocol::idem::transition::{Begin, abort, begin, complete};
use idem_protocol::idem::{IdemRecord, IdemState};
use idem_protocol::wal::{Pair, Pairs, RawRecord, Record};
use idem_protocol::{Deadline, Lsn, UnixMs};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use support::formats::{FORMATS, reseal_record};
use support::golden;

thread_local! {
    /// How many requests this thread made, and the largest of them in bytes.
    static REQUESTS: Cell<u64> = const { Cell::new(0) };
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

fn count(size: usize) {
    // At the end of a thread its counters may be gone; nothing is measured then.
    let _ = REQUESTS.try_with(|requests| requests.set(requests.get() + 1));
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(size)));
}

// SAFETY: every call goes to the system's allocator with its arguments unchanged; counting allocates nothing (the counters
// are plain cells without destructors).
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Requests made by `work`, and the largest of them in bytes.
fn measure(work: impl FnOnce()) -> (u64, usize) {
    let before = REQUESTS.get();
    LARGEST.set(0);
    work();
    (REQUESTS.get() - before, LARGEST.get())
}

#[test]
fn the_counter_counts() {
    let (requests, largest) = measure(|| drop(std::hint::black_box(vec![1u8; 4321])));
    assert_eq!((requests, largest), (1, 4321));
}

#[test]
fn claims_reserve_nothing() {
    for format in &FORMATS {
        for vector in format.vectors() {
            // What is read is kept in structures of a few times its size, and grown by doubling.
            let bound = vector.bytes.len() * 16 + 256;
            for at in 0..vector.bytes.len().min(1024).saturating_sub(3) {
                for claim in [u32::MAX, 1 << 31, 1 << 28] {
                    let mut changed = vector.bytes.clone();
                    changed[at..at + 4].copy_from_slice(&claim.to_le_bytes());
                    for reseal in [false, true] {
                        if reseal {
                            (format.reseal)(&mut changed);
                        }
                        let (_, largest) = measure(|| drop(std::hint::black_box((format.reread)(&changed))));
                        assert!(
                            largest <= bound,
                            "{} [{}] at {at}: {largest} bytes",
                            format.file,
                            vector.name
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn reading_and_walking_records_takes_no_memory() {
    for vector in golden::load("record") {
        let (requests, _) = measure(|| {
            let raw = RawRecord::parse(&vector.bytes).unwrap();
            std::hint::black_box(walk(raw.decode().unwrap()));
        });
        assert_eq!(requests, 0, "[{}]", vector.name);
        // Neither does refusing one.
        let mut changed = vector.bytes.clone();
        changed.push(0);
        reseal_record(&mut changed);
        let (requests, _) = measure(|| assert!(RawRecord::parse(&changed).unwrap().decode().is_err()));
        assert_eq!(requests, 0, "[{}] with a byte more", vector.name);
    }
}

/// Touches every part of a record, as `apply` does.
fn walk(record: Record<'_>) -> usize {
    match record {
        Record::HashPut { fields, .. } => fields
            .iter()
            .map(|(field, value)| field.len() + value.len())
            .sum(),
        Record::HashDelete { fields, .. } => fields.iter().map(<[u8]>::len).sum(),
        Record::Transaction { records } => records.iter().map(|(_, part)| walk(part)).sum(),
        Record::Members { members, .. } => members.iter().map(|(_, address)| address.len()).sum(),
        Record::IdempotencyPut { record, .. } => record.result.len(),
        _ => 0,
    }
}

#[test]
fn probes_of_an_idem_record_take_no_memory() {
    for name in ["pending", "completed", "completed-empty"] {
        let stored = golden::bytes("idem-record", name);
        let (requests, _) = measure(|| {
            let record = IdemRecord::decode_stored(&stored).unwrap();
            let IdemRecord {
                fingerprint,
                owner,
                result,
                ..
            } = record;
            let live = Some(record);
            let found = begin(live, fingerprint);
            assert!(matches!(found, Begin::Pending | Begin::Completed { .. }));
            assert_eq!(begin(live, b"another"), Begin::Conflict);
            std::hint::black_box((
                complete(live, fingerprint, owner, result),
                abort(live, fingerprint, b"other"),
            ));
        });
        assert_eq!(requests, 0, "[{name}]");
    }
}

/// A group buffer that was used before has room: appending a transition to it takes nothing.
#[test]
fn appending_to_a_used_buffer_takes_no_memory() {
    let record = IdemRecord {
        state: IdemState::Completed,
        fingerprint: b"f",
        owner: b"o",
        result: b"result",
    };
    let transition = Record::IdempotencyPut {
        key: b"order:1",
        deadline: Deadline::at(9),
        record,
    };
    let pairs: [Pair<'_>; 2] = [(b"a", b"1"), (b"b", b"2")];
    let hash = Record::HashPut {
        key: b"h",
        deadline: Deadline::NONE,
        fields: Pairs::Slice(&pairs),
    };
    let mut buffer = Vec::with_capacity(4096);
    let (requests, _) = measure(|| {
        for record in [&transition, &hash, &Record::Clock] {
            record.encode(Lsn::ZERO, UnixMs::ZERO, 0, &mut buffer);
        }
    });
    assert_eq!(requests, 0);
}
