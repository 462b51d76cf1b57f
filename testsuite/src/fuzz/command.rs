//! The whole way of a command without its socket: bytes, decoder, command table, decision, records, state, reply.
//!
//! What is checked beside the absence of panics is checked by [`NodeTarget`]: each command has exactly one well-formed
//! reply that depends on no more than was appended, and the state is always that of a replay of the log, from the last
//! snapshot on.

use std::time::Duration;

use idem_protocol::resp::decode::{Decoder, Limits, Step};

use super::bytes::plan;
use crate::contract::{Connection, NodeTarget, Target};

/// Arguments long enough for every bound of a token, short enough for speed.
const LIMITS: Limits = Limits {
    bulk_bytes: 4096,
    array_count: 64,
    inline_bytes: 4096,
};

/// More commands teach nothing new.
const COMMANDS_MAX: usize = 64;

/// What happens beside a command, by the bits of a byte of the plan.
const OTHER_CONNECTION: u8 = 1;
const RESTART: u8 = 2;
const WAIT: u8 = 4;

/// Any bytes as the requests of two connections. Input: a plan (first byte: how many, up to 8; one byte for each command,
/// over and over: who sends it, whether the node restarts before it, how long nothing happens before it), then the
/// requests.
///
/// # Panics
/// When anything on that way is wrong.
pub fn command(mut data: &[u8]) {
    let plan = plan(&mut data, 8);
    let mut node = NodeTarget::new();
    let mut connections = [node.connect(), node.connect()];
    let mut decoder = Decoder::new();
    for index in 0..COMMANDS_MAX {
        let consumed = match decoder.step(data, &LIMITS) {
            Step::Command { consumed } => consumed,
            Step::Empty { consumed } => {
                data = &data[consumed..];
                continue;
            }
            Step::NeedMore { .. } | Step::Error(_) => break,
        };
        let args: Vec<&[u8]> = decoder.args(data).iter().collect();
        let does = match plan {
            [] => 0,
            plan => plan[index % plan.len()],
        };
        if does & WAIT != 0 {
            // 1 ms to 24 days: past every deadline that IDEM takes.
            node.idle(Duration::from_millis(1 << (does >> 3)));
        }
        if does & RESTART != 0 {
            // Connections do not outlive a server.
            node.restart();
            connections = [node.connect(), node.connect()];
        }
        let connection = &mut connections[usize::from(does & OTHER_CONNECTION)];
        connection
            .send(&args)
            .unwrap_or_else(|what| panic!("{what}: {args:02x?}"));
        data = &data[consumed..];
    }
    node.restart();
    // What a replay has made must be able to go on.
    let mut after = node.connect();
    after.send(&[b"DBSIZE"]).expect("a replayed node answers");
}
