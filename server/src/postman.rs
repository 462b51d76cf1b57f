//! Who wakes those that got messages: one task for all of them.
//!
//! A message to a thousand connections makes a thousand tasks ready at once, and each makes a system call when it has its
//! turn. Everybody else would have to wait for all of them, several times on the way of one command to the disk and back.
//! So they are woken a few at a time, and between two such handfuls whoever else is ready has a turn. A publisher goes on
//! when the last one whom it called has been woken: what it causes is done before it causes more.

use std::rc::Rc;

use crate::core::Shard;

/// Hands out what there is, for as long as the server runs.
pub async fn run(shard: Rc<Shard>) {
    loop {
        shard.mail.notified().await;
        while shard.core.borrow_mut().peers.hand_out() {
            tokio::task::yield_now().await;
        }
    }
}
