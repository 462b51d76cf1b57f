//! Who goes for whose memory, whose time is up, who is woken.

use super::{DropReason, Peer, Peers, Rc};
use crate::inbox::Inbox;
use crate::peer::{PARTIAL_AFTER, STUCK_AFTER};
use idem_engine::pubsub::{PubSub, Topic};
use idem_protocol::lsn::Lsn;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

fn address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 9))
}

#[test]
fn the_largest_goes_when_all_are_too_many() {
    let mut peers = Peers::new(1000);
    let (small, large) = (
        peers.add(address(), Instant::now()),
        peers.add(address(), Instant::now()),
    );
    peers.set_buffers(&large, 700, 200);
    assert_eq!(large.dropped(), None);
    peers.set_buffers(&small, 150, 0);
    assert_eq!(
        (large.dropped(), small.dropped()),
        (Some(DropReason::BuffersTotal), None)
    );
    assert!(peers.are_over_limit());
    // The marked one's memory counts as gone: nobody else has to go for it.
    peers.set_buffers(&small, 160, 0);
    assert_eq!(small.dropped(), None);
    peers.remove(&large);
    assert!(!peers.are_over_limit());
    assert_eq!(peers.buffers_bytes(), 160);
    peers.remove(&small);
    assert_eq!((peers.buffers_bytes(), peers.len()), (0, 0));
}

#[test]
fn a_lower_limit_holds_at_once() {
    let mut peers = Peers::new(1000);
    let [first, second] = [(); 2].map(|()| peers.add(address(), Instant::now()));
    peers.set_buffers(&first, 400, 0);
    peers.set_buffers(&second, 500, 0);
    peers.set_buffers_limit(900);
    assert_eq!((first.dropped(), second.dropped()), (None, None));
    peers.set_buffers_limit(899);
    assert_eq!(
        (first.dropped(), second.dropped()),
        (None, Some(DropReason::BuffersTotal))
    );
    peers.set_buffers_limit(2000);
    peers.set_buffers(&first, 1500, 0);
    assert_eq!(first.dropped(), None);
}

/// Who is spared goes when nobody else is left, and the bound holds all the same.
#[test]
fn the_spared_go_last() {
    let mut peers = Peers::new(1000);
    let [spared, other, last] = [(); 3].map(|()| peers.add(address(), Instant::now()));
    peers.set_buffers(&spared, 700, 0);
    peers.spare(&spared, true);
    peers.spare(&last, true);
    peers.set_buffers(&other, 200, 0);
    peers.set_buffers(&last, 200, 0);
    let reasons = || [&spared, &other, &last].map(|peer| peer.dropped());
    assert_eq!(reasons(), [None, Some(DropReason::BuffersTotal), None]);
    peers.remove(&other);
    peers.set_buffers(&last, 301, 0);
    assert_eq!(spared.dropped(), Some(DropReason::BuffersTotal));
    peers.spare(&last, false);
    peers.spare(&spared, false);
    peers.remove(&spared);
    peers.remove(&last);
    assert_eq!((peers.staying_bytes, peers.by_size.len()), (0, 0));
}

#[test]
fn a_pause_and_the_log_have_their_own_waiters() {
    let mut peers = Peers::new(1000);
    let [first, second, third] = [(); 3].map(|()| peers.add(address(), Instant::now()));
    peers.hold(&second, false);
    peers.wait_for_log(&third, false);
    peers.hold(&first, false);
    // Tried again, because more of it arrived.
    peers.hold(&second, true);
    peers.hold(&first, false);
    assert_eq!(peers.waiting_for_log(), 3);
    let order = |peers: &Peers| peers.held.values().map(|peer| peer.id).collect::<Vec<_>>();
    assert_eq!(order(&peers), [second.id, first.id]);
    peers.log_moved();
    assert_eq!(
        peers.waiting_for_log(),
        2,
        "the log says nothing to those who are held"
    );
    // The pause was over for it before the others were let go, and now it needs the log.
    peers.wait_for_log(&second, true);
    assert_eq!(order(&peers), [first.id]);
    peers.remove(&first);
    assert!(order(&peers).is_empty());
    peers.hold(&third, false);
    peers.resume();
    assert_eq!((peers.waiting_for_log(), third.held.get()), (1, false));
    peers.remove(&second);
    assert_eq!(peers.waiting_for_log(), 0);
}

#[test]
fn who_is_marked_is_no_longer_listed() {
    let mut peers = Peers::new(1000);
    let [first, second] = [(); 2].map(|()| peers.add(address(), Instant::now()));
    let listed = |peers: &Peers, only| {
        let mut ids = Vec::new();
        peers.visit(only, &mut |client| {
            ids.push((client.id, client.session.is_some()))
        });
        ids
    };
    let executing = second.session.borrow_mut();
    assert_eq!(listed(&peers, None), [(first.id, true), (second.id, false)]);
    drop(executing);
    assert_eq!(listed(&peers, Some(second.id)), [(second.id, true)]);
    assert_eq!(listed(&peers, Some(99)), []);
    peers.kill(first.id);
    peers.kill(99);
    assert_eq!(first.dropped(), Some(DropReason::Killed));
    assert_eq!(listed(&peers, None), [(second.id, true)]);
    assert_eq!(listed(&peers, Some(first.id)), []);
}

/// Against the plain rule: whenever the sum of a growing peer's fellows is over the limit, the largest goes.
#[test]
fn the_largest_is_found_as_by_looking_at_all() {
    const LIMIT: usize = 5000;
    let mut peers = Peers::new(LIMIT);
    let mut all: Vec<_> = (0..40).map(|_| peers.add(address(), Instant::now())).collect();
    let mut seed = 0x1de_u64;
    let mut random = |bound: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(seed >> 33).unwrap() % bound
    };
    let mut marked = 0;
    for _ in 0..4000 {
        let index = random(all.len());
        let (input, output) = (random(300), random(300));
        let before = all[index].buffers_bytes();
        peers.set_buffers(&all[index], input, output);
        let sum: usize = all.iter().map(|peer| peer.buffers_bytes()).sum();
        assert_eq!(peers.buffers_bytes(), sum);
        let staying = all.iter().filter(|peer| peer.dropped().is_none());
        let (staying, largest) = staying.fold((0, 0), |(sum, largest), peer| {
            (sum + peer.buffers_bytes(), largest.max(peer.buffers_bytes()))
        });
        assert!(staying <= LIMIT || input + output <= before);
        // Those that leave do so, and others come in their place; the smallest that was marked is no smaller than
        // the largest that stays.
        for peer in &mut all {
            if peer.dropped() == Some(DropReason::BuffersTotal) {
                assert!(peer.buffers_bytes() >= largest);
                peers.remove(peer);
                *peer = peers.add(address(), Instant::now());
                marked += 1;
            }
        }
    }
    assert!(marked > 50, "{marked} were marked");
    for peer in &all {
        peers.remove(peer);
    }
    assert_eq!(
        (peers.buffers_bytes(), peers.staying_bytes, peers.by_size.len()),
        (0, 0, 0)
    );
}

/// Who goes for another reason is counted as gone before anybody else has to go.
#[test]
fn who_leaves_anyway_makes_room() {
    let mut peers = Peers::new(1000);
    let [first, second] = [(); 2].map(|()| peers.add(address(), Instant::now()));
    peers.set_buffers(&first, 900, 0);
    first.drop_for(DropReason::Stuck);
    peers.set_buffers(&second, 800, 0);
    assert_eq!(
        (first.dropped(), second.dropped()),
        (Some(DropReason::Stuck), None)
    );
    // It may still move its buffers before its task has seen the mark.
    peers.set_buffers(&first, 2000, 0);
    assert_eq!((peers.buffers_bytes(), second.dropped()), (2800, None));
}

/// A message counts in full for everybody it is given to; who does not take it up goes, at its own limit or at that of all.
#[test]
fn messages_are_counted_and_limited() {
    let frame: Rc<[u8]> = Rc::from(vec![0; 100]);
    let cost = Inbox::cost(frame.len());
    let mut peers = Peers::new(5 * cost);
    let [first, second] = [(); 2].map(|()| peers.add(address(), Instant::now()));
    peers.set_buffers(&first, 1, 2);
    assert_eq!(peers.deliver(&first, &frame, Lsn::ZERO, 2 * cost), cost);
    assert_eq!(
        (first.buffers_bytes(), peers.buffers_bytes()),
        (3 + cost, 3 + cost)
    );
    peers.deliver(&first, &frame, Lsn::ZERO, 2 * cost);
    assert_eq!((first.dropped(), first.inbox.bytes()), (None, 2 * cost));
    // One more than its own limit.
    peers.deliver(&first, &frame, Lsn::ZERO, 2 * cost);
    assert_eq!(first.dropped(), Some(DropReason::OutputLimit));
    assert!(first.inbox.is_empty());
    assert_eq!(peers.deliver(&first, &frame, Lsn::ZERO, 2 * cost), 0);
    // Until it has gone, its share of the common limit is taken.
    for _ in 0..3 {
        assert_eq!(second.dropped(), None);
        peers.deliver(&second, &frame, Lsn::ZERO, 100 * cost);
    }
    assert_eq!(second.dropped(), Some(DropReason::BuffersTotal));
    assert!(second.inbox.is_empty());
    peers.remove(&first);
    peers.remove(&second);
    assert_eq!(peers.buffers_bytes(), 0);
    assert_eq!(Rc::strong_count(&frame), 1, "nobody holds it any more");
}

#[test]
fn times_are_up_only_after_their_limit() {
    let mut peers = Peers::new(1000);
    let start = Instant::now();
    let [stuck, partial, idle, owed] = [(); 4].map(|()| peers.add(address(), start));
    stuck.note_stuck(true);
    partial.note_partial(true);
    owed.note_owed(true);
    let timeout = Duration::from_secs(3600);
    peers.sweep(start + STUCK_AFTER - Duration::from_secs(1), timeout);
    assert!(
        [&stuck, &partial, &idle, &owed]
            .iter()
            .all(|peer| peer.dropped().is_none())
    );
    peers.sweep(start + PARTIAL_AFTER + Duration::from_secs(5), timeout);
    assert_eq!(stuck.dropped(), Some(DropReason::Stuck));
    assert_eq!(partial.dropped(), Some(DropReason::Partial));
    peers.sweep(start + Duration::from_secs(9000), Duration::ZERO);
    assert_eq!(idle.dropped(), None);
    peers.sweep(start + Duration::from_secs(3601), timeout);
    assert_eq!((idle.dropped(), owed.dropped()), (Some(DropReason::Idle), None));
}

#[test]
fn the_barrier_wakes_whom_it_passed() {
    let mut peers = Peers::new(1000);
    let [first, second] = [(); 2].map(|()| peers.add(address(), Instant::now()));
    peers.wait_for_barrier(&first, Lsn::new(10));
    peers.wait_for_barrier(&second, Lsn::new(20));
    peers.wait_for_barrier(&second, Lsn::new(21));
    assert_eq!(peers.waiting_for_barrier(), 2);
    assert!(peers.half_waits_for_barrier(), "nobody was ever let go");
    peers.barrier_moved(Lsn::new(20));
    assert_eq!(peers.waiting_for_barrier(), 1);
    peers.barrier_moved(Lsn::new(21));
    assert_eq!(peers.waiting_for_barrier(), 0);
    // One of two had waited; a listener that does so with it says nothing about the other's next command.
    peers.wait_for_barrier(&first, Lsn::new(30));
    peers.wait_for_barrier(&second, Lsn::new(30));
    peers.barrier_moved(Lsn::new(30));
    let listener = peers.add(address(), Instant::now());
    let mut pubsub = PubSub::default();
    pubsub.subscribe(&mut listener.session.borrow_mut(), Topic::Channel, b"a");
    peers.wait_for_barrier(&listener, Lsn::new(40));
    assert_eq!(peers.waiting_for_barrier(), 1);
    assert!(!peers.half_waits_for_barrier());
    peers.wait_for_barrier(&first, Lsn::new(40));
    assert!(peers.half_waits_for_barrier());
    peers.remove(&listener);
    assert_eq!(peers.waiting_for_barrier(), 1);
}

/// Those who got messages are woken in the order in which they got them, each once, and a few at a time.
#[test]
fn mail_is_handed_out_in_handfuls() {
    let mut peers = Peers::new(1 << 20);
    let all: Vec<_> = (0..40).map(|_| peers.add(address(), Instant::now())).collect();
    let frame: Rc<[u8]> = Rc::from(*b"x");
    assert!(peers.has_handed_out(peers.mail_end()) && !peers.hand_out());
    for _ in 0..3 {
        for peer in &all {
            peers.deliver(peer, &frame, Lsn::ZERO, 1 << 20);
        }
    }
    let end = peers.mail_end();
    assert!(peers.hand_out(), "there are more");
    assert!(!peers.has_handed_out(end));
    let called = |peers: &[Rc<Peer>]| peers.iter().filter(|peer| peer.called.get()).count();
    assert_eq!((called(&all), called(&all[32..])), (8, 8));
    // One that has been woken gets another message: behind the others.
    peers.deliver(&all[0], &frame, Lsn::ZERO, 1 << 20);
    assert!(!peers.has_handed_out(end) && !peers.hand_out());
    assert!(peers.has_handed_out(end));
    // What others publish meanwhile is nothing to wait for.
    peers.deliver(&all[5], &frame, Lsn::ZERO, 1 << 20);
    assert!(peers.has_handed_out(end) && !peers.has_handed_out(peers.mail_end()));
    peers.hand_out();
    assert_eq!(called(&all), 0);
}

/// However many publish one behind the other, each for as long as it may: those who read get a turn before the limit of all
/// is reached.
#[test]
fn stretches_never_fill_what_is_left() {
    const LIMIT: usize = 1 << 30;
    let mut peers = Peers::new(LIMIT);
    let peer = peers.add(address(), Instant::now());
    assert_eq!(peers.stretch_bytes_max(0), 256 << 10);
    assert_eq!(peers.stretch_bytes_max(100), 100 * (16 << 10));
    for _ in 0..10_000 {
        let held = peers.buffers_bytes();
        peers.set_buffers(&peer, 0, held + peers.stretch_bytes_max(usize::MAX));
    }
    assert_eq!(peer.dropped(), None);
    assert!(peers.buffers_bytes() > LIMIT / 10 * 9);
}
