//! What commands ask of the server apart from answering.
//!
//! Carried out in the turn of the command, while the core is still borrowed: nothing else is executed in between, and
//! nothing here waits.

use idem_engine::Deed;

use crate::core::{Core, Shard};

/// Carries out what the last command asked for.
pub(super) fn carry_out(core: &mut Core, shard: &Shard) {
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
        }
    }
}
