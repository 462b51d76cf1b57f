//! Looking up in the keyspace allocates nothing, counted by the allocator itself.

// A global allocator cannot be written without `unsafe`; this one only counts and hands on to the system's.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

use idem_engine::Keyspace;
use idem_engine::keyspace::ValueRef;
use idem_protocol::idem::{IdemRecord, IdemState};
use idem_protocol::wal::Record;
use idem_protocol::{Deadline, UnixMs};

thread_local! {
    // Const and without a destructor: reading it allocates nothing itself. Per thread, as tests run side by side.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises about `layout` are handed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `System.alloc` above with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(run: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    run();
    ALLOCATIONS.get() - before
}

#[test]
fn lookups_allocate_nothing() {
    let now = UnixMs::new(1_700_000_000_000);
    let mut keyspace = Keyspace::new(16, [1, 2, 3, 4]);
    let result = vec![b'r'; 1 << 20];
    for key in 0..5000_u32 {
        let record = IdemRecord {
            state: IdemState::Completed,
            fingerprint: b"f",
            owner: b"o",
            result: &result[..100],
        };
        let deadline = Deadline::at(now.get() + 1000);
        keyspace.apply(
            now,
            0,
            &Record::IdempotencyPut {
                key: &key.to_be_bytes(),
                deadline,
                record,
            },
        );
    }
    let record = IdemRecord {
        state: IdemState::Completed,
        fingerprint: b"f",
        owner: b"o",
        result: &result,
    };
    let deadline = Deadline::at(now.get() + 1000);
    keyspace.apply(
        now,
        0,
        &Record::IdempotencyPut {
            key: b"large",
            deadline,
            record,
        },
    );
    for fields in [10_u32, 1000] {
        for field in 0..fields {
            let fields_put = [(&field.to_be_bytes()[..], &b"value"[..])];
            let key = fields.to_string();
            let record = Record::HashPut {
                key: key.as_bytes(),
                deadline,
                fields: fields_put[..].into(),
            };
            keyspace.apply(now, 0, &record);
        }
    }
    // The counter counts at all.
    assert_eq!(allocations(|| _ = black_box(vec![1_u8])), 1);

    let probed = allocations(|| {
        for key in 0..10_000_u32 {
            let found = black_box(keyspace.get(0, &key.to_be_bytes()));
            assert_eq!(found.is_some(), key < 5000);
        }
        let large = keyspace.get(0, b"large").expect("it was stored");
        let ValueRef::String(value) = large.value() else {
            panic!("a string")
        };
        assert!(
            large.is_idem() && IdemRecord::decode_stored(value).is_ok_and(|record| record.result == result)
        );
        for fields in [&b"10"[..], b"1000"] {
            let ValueRef::Hash(hash) = keyspace.get(0, fields).expect("it was stored").value() else {
                panic!("a hash")
            };
            assert!((0..10_u32).all(|field| hash.get(&field.to_be_bytes()) == Some(b"value")));
            assert!(hash.iter().count() == hash.len());
        }
        assert!(!keyspace.due(now));
    });
    assert_eq!(probed, 0);
}

/// Records stand in pages of many: of an operation's begin and completion, few allocate anything.
#[test]
fn records_share_their_allocations() {
    let now = UnixMs::new(1_700_000_000_000);
    let mut keyspace = Keyspace::new(16, [1, 2, 3, 4]);
    let put = |keyspace: &mut Keyspace, key: u32, state, result: &[u8]| {
        let record = IdemRecord {
            state,
            fingerprint: &[1; 64],
            owner: &[2; 32],
            result,
        };
        let deadline = Deadline::at(now.get() + 1000);
        keyspace.apply(
            now,
            0,
            &Record::IdempotencyPut {
                key: &key.to_be_bytes(),
                deadline,
                record,
            },
        );
    };
    let began = allocations(|| (0..20_000).for_each(|key| put(&mut keyspace, key, IdemState::Pending, b"")));
    assert!(began < 2_000, "{began} allocations for 20 000 records");
    let completed = allocations(|| {
        (0..20_000).for_each(|key| put(&mut keyspace, key, IdemState::Completed, &[b'r'; 256]))
    });
    assert!(
        completed < 1_000,
        "{completed} allocations for 20 000 completions"
    );
    // A completion of the size of what it replaces takes its place.
    put(&mut keyspace, 20_000, IdemState::Pending, b"");
    assert_eq!(
        allocations(|| put(&mut keyspace, 20_000, IdemState::Completed, b"")),
        0
    );
}
