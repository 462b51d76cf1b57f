//! The core loop: one event at a time, then what it made due, and the moment at which a commit group leaves.

use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Sleep;

use super::Shard;
use super::events::Event;
use crate::shutdown::Signals;
use crate::snapshotter;

/// A group leaves after so many turns at the latest.
const GATHER_TURNS_MAX: u32 = 16;
/// … and earlier when so many in a row brought nothing …
const GATHER_IDLE_TURNS: u32 = 2;
/// … or, with fewer records than this, at the first: few clients gain less by it than they wait …
const FEW_RECORDS: u32 = 8;
/// … or after this time: a turn is as long as everybody's commands, and who floods the server must not keep the disk idle
/// for sixteen of them.
const GATHER_TIME_MAX: Duration = Duration::from_millis(1);

/// The task that takes the events.
pub struct CoreLoop {
    /// Whose events.
    pub shard: Rc<Shard>,
    /// From the threads.
    pub events: UnboundedReceiver<Event>,
    /// From the operator.
    pub signals: Signals,
    /// Rings at the next deadline. Kept, because a new one for each turn makes the runtime wake itself through the kernel.
    alarm: Pin<Box<Sleep>>,
}

impl CoreLoop {
    /// Takes the events of `shard`.
    pub fn new(shard: Rc<Shard>, events: UnboundedReceiver<Event>, signals: Signals) -> CoreLoop {
        let alarm = Box::pin(tokio::time::sleep_until(Instant::now().into()));
        CoreLoop {
            shard,
            events,
            signals,
            alarm,
        }
    }

    /// Takes one event, then does what it made due. True when the event was a signal.
    ///
    /// Not to be cancelled: between an event and the hand-over that it calls for lies a yield.
    pub async fn turn(&mut self) -> bool {
        let now = Instant::now();
        let deadline = self.shard.core.borrow().next_deadline(now);
        if self.alarm.deadline() != deadline.into() {
            self.alarm.as_mut().reset(deadline.into());
        }
        let event = tokio::select! {
            // Time and signals first: under full load there is always another group.
            biased;
            () = self.signals.recv() => Event::Signal,
            // The runtime's timer would round what is due now up to the next millisecond.
            () = std::future::ready(()), if deadline <= now => Event::Timer,
            () = self.alarm.as_mut() => Event::Timer,
            Some(event) = self.events.recv() => event,
            () = self.shard.commit_wanted.notified() => Event::Work,
        };
        let signalled = matches!(event, Event::Signal);
        let wants_hand_over = {
            let mut core = self.shard.core.borrow_mut();
            core.handle(event);
            while let Ok(event) = self.events.try_recv() {
                core.handle(event);
            }
            core.count_log();
            if core.snapshots.take_request() {
                tokio::task::spawn_local(snapshotter::run(Rc::clone(&self.shard)));
            }
            core.wants_hand_over()
        };
        if self.shard.core.borrow().ticks_at_once() {
            tokio::task::yield_now().await;
        }
        if wants_hand_over {
            self.gather().await;
            self.shard.core.borrow_mut().hand_over();
        }
        signalled
    }

    /// Lets commands that are ready now get into the group that is about to leave, for as long as each turn of everybody
    /// else brings new ones: on a busy core that is most clients' next command, and saves syncs. With half of the clients
    /// it leaves, so that the other half's commands are executed while the disk is busy. With few clients it is one look.
    async fn gather(&self) {
        let state = || {
            let core = self.shard.core.borrow();
            let (batch, peers) = (&core.log.batch, &core.peers);
            (
                batch.appended(),
                batch.open_records(),
                peers.half_waits_for_barrier(),
            )
        };
        let began = Instant::now();
        let (mut appended, _, mut half) = state();
        let mut idle = 0;
        for _ in 0..GATHER_TURNS_MAX {
            if half {
                break;
            }
            tokio::task::yield_now().await;
            let (now, records, enough) = state();
            idle = if now == appended { idle + 1 } else { 0 };
            let patience = if records < FEW_RECORDS {
                1
            } else {
                GATHER_IDLE_TURNS
            };
            if idle >= patience || began.elapsed() >= GATHER_TIME_MAX {
                break;
            }
            (appended, half) = (now, enough);
        }
    }
}
