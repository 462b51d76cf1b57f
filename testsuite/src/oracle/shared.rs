//! Keys that every writer begins: who is told `acquired`, and what is told afterwards.

use std::sync::atomic::{AtomicU64, Ordering};

use idem_protocol::resp::value::Value;

use super::model::{State, short};
use super::writer::{Stop, is_refusal};
use crate::invariants::at_most_one_acquired::{Told, Watch};
use crate::process::Client;
use crate::rng::Rng;

/// Several writers meet on the newest few keys; older ones are asked for now and then.
const MEETING_KEYS: u64 = 2;
const FINGERPRINT: &[u8] = b"shared";
const TTL_MS: &[u8] = b"604800000";

/// The shared keys of one run. They are never aborted and outlive it.
#[derive(Debug, Default)]
pub struct SharedKeys {
    watch: Watch,
    /// Keys from 0 up to this one, and a little beyond, were begun by somebody.
    newest: AtomicU64,
    attempts: AtomicU64,
}

impl SharedKeys {
    /// One attempt: BEGIN, and COMPLETE when it was acquired (not always: some stay pending).
    pub(super) fn work(&self, client: &mut Client, rng: &mut Rng, writer: usize) -> Result<(), Stop> {
        let newest = self.newest.load(Ordering::SeqCst);
        let number = if rng.below(4) == 0 {
            rng.below(newest + 1)
        } else {
            newest + rng.below(MEETING_KEYS)
        };
        let key = name(number);
        let owner = format!("s{writer}-{}", self.attempts.fetch_add(1, Ordering::SeqCst));
        let before = self.watch.before(&key);
        let reply = client.call(&[
            b"IDEM",
            key.as_bytes(),
            b"BEGIN",
            FINGERPRINT,
            owner.as_bytes(),
            TTL_MS,
        ])?;
        if is_refusal(&reply) {
            return Err(Stop::Refused);
        }
        let told =
            told(&reply, &owner).ok_or_else(|| Stop::Violation(format!("BEGIN {key}: {}", short(&reply))))?;
        let acquired = matches!(told, Told::Acquired(_));
        self.watch.told(&key, &before, told).map_err(Stop::Violation)?;
        if !acquired {
            self.newest.fetch_max(number + 1, Ordering::SeqCst);
            return Ok(());
        }
        if rng.below(3) == 0 {
            return Ok(());
        }
        let result = format!("result of {owner}").into_bytes();
        let before = self.watch.before(&key);
        let reply = client.call(&[
            b"IDEM",
            key.as_bytes(),
            b"COMPLETE",
            FINGERPRINT,
            owner.as_bytes(),
            &result,
        ])?;
        if is_refusal(&reply) {
            return Err(Stop::Refused);
        }
        if reply != Value::Int(1) {
            return Err(Stop::Violation(format!(
                "COMPLETE {key} by its owner: {}",
                short(&reply)
            )));
        }
        self.watch
            .told(&key, &before, Told::Completed(result))
            .map_err(Stop::Violation)
    }

    /// After a crash: nothing that was told is taken back.
    pub fn check(&self, client: &mut Client) -> Result<(), String> {
        for number in 0..=self.newest.load(Ordering::SeqCst) + MEETING_KEYS {
            let key = name(number);
            let mut ask = |args: &[&[u8]]| client.call(args).map_err(|error| format!("{key}: {error}"));
            let (get, pttl) = (ask(&[b"GET", key.as_bytes()])?, ask(&[b"PTTL", key.as_bytes()])?);
            let before = self.watch.before(&key);
            match State::observe(&get, &pttl).map_err(|error| format!("{key}: {error}"))? {
                State::Absent if before.begun => return Err(format!("{key} was begun, and is gone")),
                State::Absent => {}
                State::Text { value, .. } => {
                    return Err(format!("{key} holds what nobody wrote: {}", short(&value)));
                }
                State::Idem {
                    completed,
                    owner,
                    result,
                    ..
                } => {
                    let owner = String::from_utf8_lossy(&owner).into_owned();
                    if let Some(first) = before.owner.as_ref().filter(|first| **first != owner) {
                        return Err(format!("{key} was acquired by {first}, and belongs to {owner}"));
                    }
                    let told = if completed {
                        Told::Completed(result)
                    } else {
                        Told::Pending
                    };
                    self.watch.told(&key, &before, told)?;
                }
            }
        }
        Ok(())
    }
}

fn name(number: u64) -> String {
    format!("shared:{number}")
}

fn told(reply: &Value, owner: &str) -> Option<Told> {
    let items = reply.as_items()?;
    match (items.first()?.as_bytes()?, items.len()) {
        (b"acquired", 1) => Some(Told::Acquired(owner.to_owned())),
        (b"pending", 1) => Some(Told::Pending),
        (b"completed", 2) => Some(Told::Completed(items[1].as_bytes()?.to_vec())),
        _ => None,
    }
}
