//! `memory_bytes` and `held_bytes` against every allocation that is made: within 5 percent, whatever is stored.

// A global allocator cannot be written without `unsafe`; this one only counts and hands on to the system's.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use idem_engine::pubsub::{PubSub, Topic};
use idem_engine::{Keyspace, Session};
use idem_protocol::idem::{IdemRecord, IdemState};
use idem_protocol::wal::{DeleteReason, Record};
use idem_protocol::{Deadline, UnixMs};

thread_local! {
    // Const and without a destructor: reading it allocates nothing itself. Per thread, as tests run side by side.
    static HELD: Cell<i64> = const { Cell::new(0) };
}

struct Counting;

/// What an allocator with four size classes in each doubling holds for a request.
fn held(bytes: usize) -> i64 {
    let bytes = match bytes {
        0..=128 => bytes.next_multiple_of(16),
        129..=0x1_0000 => bytes.next_multiple_of((1 << (bytes - 1).ilog2()) / 4),
        _ => bytes.next_multiple_of(4096),
    };
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.set(HELD.get() + held(layout.size()));
        // SAFETY: the caller's promises about `layout` are handed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.set(HELD.get() - held(layout.size()));
        // SAFETY: `pointer` came from `System.alloc` above with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const NOW: UnixMs = UnixMs::new(1_700_000_000_000);

fn idem(keyspace: &mut Keyspace, key: u32, state: IdemState, result: &[u8]) {
    let record = IdemRecord {
        state,
        fingerprint: &[1; 64],
        owner: &[2; 32],
        result,
    };
    keyspace.apply(
        NOW,
        0,
        &Record::IdempotencyPut {
            key: format!("payment:{key:012}").as_bytes(),
            deadline: Deadline::at(NOW.get() + 1000 + u64::from(key) * 7),
            record,
        },
    );
}

fn string(keyspace: &mut Keyspace, key: u32, bytes: usize) {
    keyspace.apply(
        NOW,
        0,
        &Record::StringPut {
            key: &key.to_be_bytes(),
            deadline: Deadline::NONE,
            value: &vec![b'v'; bytes],
        },
    );
}

fn field(keyspace: &mut Keyspace, key: u32, field: u32, bytes: usize) {
    let value = vec![b'v'; bytes];
    let fields = [(&field.to_be_bytes()[..], &value[..])];
    keyspace.apply(
        NOW,
        0,
        &Record::HashPut {
            key: &key.to_be_bytes(),
            deadline: Deadline::NONE,
            fields: fields[..].into(),
        },
    );
}

/// Ways of filling a keyspace, with a name for the message.
type Fill = (&'static str, fn(&mut Keyspace));

const FILLS: &[Fill] = &[
    ("pending records", |keyspace| {
        (0..60_000).for_each(|key| idem(keyspace, key, IdemState::Pending, b""));
    }),
    ("completed records", |keyspace| {
        (0..100_000).for_each(|key| {
            idem(keyspace, key, IdemState::Pending, b"");
            idem(
                keyspace,
                key,
                IdemState::Completed,
                &vec![b'r'; key as usize % 700],
            );
        });
    }),
    ("small strings without a deadline", |keyspace| {
        (0..150_000).for_each(|key| string(keyspace, key, key as usize % 20));
    }),
    ("strings of all sizes", |keyspace| {
        (0..3_000).for_each(|key| string(keyspace, key, 1 << (key % 18)));
    }),
    ("large values", |keyspace| {
        (0..40).for_each(|key| string(keyspace, key, 300_000 + 10_000 * key as usize));
    }),
    ("many small hashes", |keyspace| {
        (0..20_000).for_each(|key| (0..1 + key % 9).for_each(|name| field(keyspace, key, name, 11)));
    }),
    ("one large hash", |keyspace| {
        (0..60_000).for_each(|name| field(keyspace, 0, name, name as usize % 90));
    }),
];

fn share(part: u64, whole: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a share in percent")]
    let share = part as f64 / whole as f64;
    share
}

#[test]
fn all_memory_is_counted() {
    for (name, fill) in FILLS {
        let before = HELD.get();
        let mut keyspace = Keyspace::new(16, [1, 2, 3, 4]);
        fill(&mut keyspace);
        let allocated = u64::try_from(HELD.get() - before).expect("something was allocated");
        assert!(
            allocated > 4_000_000,
            "{name}: {allocated} bytes are too few to say anything"
        );
        let (used, held) = (keyspace.memory_bytes(), keyspace.held_bytes());
        for (what, counted) in [("used", used), ("held", held)] {
            let share = share(counted, allocated);
            assert!(
                (0.95..=1.05).contains(&share),
                "{name}: {what} {counted} of {allocated} allocated: {share:.3}"
            );
        }
        assert!(used <= held, "{name}: {used} used, {held} held");

        // Half of it goes: what is held goes on to be what was allocated.
        let keys: Vec<Vec<u8>> = keyspace_keys(&keyspace);
        for key in keys.iter().step_by(2) {
            let reason = DeleteReason::Command;
            keyspace.apply(NOW, 0, &Record::Delete { reason, key });
        }
        while keyspace.maintain(NOW, 1000) {}
        drop(keys);
        let allocated = u64::try_from(HELD.get() - before).unwrap_or(0);
        if allocated > 4_000_000 {
            let share = share(keyspace.held_bytes(), allocated);
            assert!(
                (0.95..=1.05).contains(&share),
                "{name}, half: held {} of {allocated}: {share:.3}",
                keyspace.held_bytes()
            );
        }
        drop(keyspace);
        assert_eq!(HELD.get(), before, "{name}: everything comes back");
    }
}

fn keyspace_keys(keyspace: &Keyspace) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let mut cursor = 0;
    loop {
        cursor = keyspace.scan(0, cursor, 1000, &mut |entry| keys.push(entry.key().to_vec()));
        if cursor == 0 {
            return keys;
        }
    }
}

/// What connections are charged for their subscriptions covers every allocation behind them, however they are spread. (It is
/// more where many share a name: then the last one who goes takes it along.)
#[test]
fn subscriptions_are_charged_no_less_than_they_take() {
    let connections = |count: u64| (0..count).map(Session::new).collect::<Vec<_>>();
    // How many connections, and the names of each.
    type Names = fn(u64, u32) -> Vec<u8>;
    let cases: [(&str, u64, u32, Topic, Names); 6] = [
        (
            "one connection, many names",
            1,
            20_000,
            Topic::Channel,
            |_, name| format!("user:{name:08}").into_bytes(),
        ),
        (
            "many connections, a name each",
            20_000,
            1,
            Topic::Channel,
            |id, _| format!("user:{id:08}").into_bytes(),
        ),
        ("many connections, one name", 20_000, 1, Topic::Channel, |_, _| {
            b"news".to_vec()
        }),
        ("ten names for all", 2_000, 10, Topic::Channel, |_, name| {
            format!("news:{name}").into_bytes()
        }),
        ("many patterns", 1, 10_000, Topic::Pattern, |_, name| {
            format!("user:{name:08}:*").into_bytes()
        }),
        ("a pattern each", 10_000, 1, Topic::Pattern, |id, _| {
            format!("u:{id}:[a-z]*").into_bytes()
        }),
    ];
    for (what, count, names, topic, name) in cases {
        let mut sessions = connections(count);
        let mut pubsub = PubSub::default();
        let before = HELD.get();
        for session in &mut sessions {
            for number in 0..names {
                let name = name(session.id, number);
                pubsub.subscribe(session, topic, &name);
            }
        }
        let taken = HELD.get() - before;
        let charged: usize = sessions
            .iter()
            .map(|session| session.subscriptions.memory_bytes())
            .sum();
        let charged = i64::try_from(charged).unwrap();
        sessions.iter_mut().for_each(|session| pubsub.forget(session));
        let left = HELD.get() - before;
        println!("{what}: {taken} bytes taken, {charged} charged");
        assert!(taken <= charged, "{what}: {taken} bytes taken, {charged} charged");
        // An emptied map keeps one node.
        assert!(left <= 2048, "{what}: {left} bytes do not come back");
    }
}
