//! What commands ask of the server apart from answering.
//!
//! Carried out in the turn of the command, while the core is still borrowed: nothing else is executed in between, and
//! nothing here waits.

use std::rc::Rc;

use idem_engine::Deed;
use idem_engine::pubsub::Publication;
use idem_protocol::lsn::Lsn;
use idem_protocol::resp::Protocol;

use crate::core::{Core, Shard};

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    /// What it speaks now. Its session cannot be looked at: it is its own task that is here.
    pub(super) protocol: Protocol,
    /// What its replies so far depend on, that of the command included.
    pub(super) promised: Lsn,
}

/// What the commands of one stretch have given to other connections.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Published {
    /// Messages, counted for each who gets them.
    pub(super) bytes: usize,
    /// Connections that are to be woken for them.
    pub(super) woken: usize,
}

/// Carries out what the last command asked for, and adds up what it gave to others.
pub(super) fn carry_out(core: &mut Core, shard: &Shard, caller: Caller, published: &mut Published) {
    for deed in core.node.take_deeds() {
        match deed {
            Deed::Snapshot => {
                core.snapshots.request(None);
                shard.commit_wanted.notify_one();
            }
            Deed::Sleep(duration) => {
                tracing::warn!(?duration, "DEBUG SLEEP: nobody is served");
                // On the thread that serves everybody: that is what the command is for.
                std::thread::sleep(duration);
            }
            Deed::Kill { ids } => ids.iter().for_each(|id| core.peers.kill(*id)),
            Deed::Pause { .. } => {
                let now = core.clock.now();
                core.node.carry_out(&deed, now);
                core.note_pause();
            }
            Deed::Unpause => core.resume(),
            Deed::ResetSlowlog | Deed::ResetLatency(_) => {
                let now = core.clock.now();
                core.node.carry_out(&deed, now);
            }
            Deed::Configure(changes) => {
                core.configure(&changes, &shard.places);
                shard.commit_wanted.notify_one();
            }
            Deed::ResetStatistics => core.reset_statistics(),
            Deed::Publish(publication) => publish(core, shard, caller, &publication, published),
        }
    }
}

/// Gives a message to all its receivers.
///
/// It may tell them that the publisher's writes before it have happened: "k is set", sent behind the SET in one go. They
/// must not read that before a crash can no longer take the SET back. So it waits in each receiver's replies for all that
/// the publisher has been promised so far.
fn publish(
    core: &mut Core,
    shard: &Shard,
    caller: Caller,
    publication: &Publication,
    published: &mut Published,
) {
    let Core { node, peers, .. } = core;
    let promised = caller.promised;
    #[cfg(feature = "sabotage")]
    let promised = if node.delivers_at_once() {
        Lsn::ZERO
    } else {
        promised
    };
    let limit = shard.options.get().client_output_buffer_limit;
    for (pattern, receivers) in node.pubsub().receivers(publication) {
        // Encoded once for each protocol that somebody speaks.
        let (mut resp2, mut resp3) = (None, None);
        for id in receivers {
            let Some(peer) = peers.get(*id).map(Rc::clone) else {
                continue;
            };
            let protocol = match peer.session.try_borrow() {
                Ok(session) => session.protocol,
                Err(_) => caller.protocol,
            };
            let frame = match protocol {
                Protocol::Resp2 => &mut resp2,
                Protocol::Resp3 => &mut resp3,
            };
            let frame = frame.get_or_insert_with(|| Rc::from(publication.encode(pattern, protocol)));
            published.woken += usize::from(!peer.called.get());
            published.bytes += peers.deliver(&peer, frame, promised, limit);
        }
    }
    shard.mail.notify_one();
}
