//! Which transitions of an IDEM record are legal.
//!
//! Three total functions, one per action that may write. They are the only place in the workspace that answers the
//! question; the server, in-memory doubles and the log checker call them. Time does not occur here: the caller looks up
//! the *live* record, with `None` for a key that is missing or has ended.
//!
//! There is no takeover, no renewal and no overwrite. The same owner that begins twice finds its own record pending: an
//! owner names an attempt, and an attempt that does not know whether it has begun must not run.

use super::{IdemRecord, IdemState};

/// What BEGIN does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin<'a> {
    /// Nobody has begun: write a pending record.
    Acquire,
    /// The key was used for another request. Compared before the state: pending or completed makes no difference.
    Conflict,
    /// Somebody has begun and not finished.
    Pending,
    /// It is done.
    Completed {
        /// The stored result, possibly empty.
        result: &'a [u8],
    },
}

/// Decides BEGIN with `fingerprint` on what lives under the key.
pub fn begin<'a>(live: Option<IdemRecord<'a>>, fingerprint: &[u8]) -> Begin<'a> {
    match live {
        None => Begin::Acquire,
        Some(record) if record.fingerprint != fingerprint => Begin::Conflict,
        Some(IdemRecord {
            state: IdemState::Completed,
            result,
            ..
        }) => Begin::Completed { result },
        // An aborted record never lives under a key; taking it as pending can delay work but cannot repeat it.
        Some(IdemRecord {
            state: IdemState::Pending | IdemState::Aborted,
            ..
        }) => Begin::Pending,
    }
}

/// What COMPLETE does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Complete {
    /// Write the completed record with the deadline that the pending one had.
    Store,
    /// Exactly this completion is stored already: answer `1`, write nothing.
    AlreadyStored,
    /// Not the owner's record any more, or another result: answer `0`, write nothing.
    Refused,
}

/// Decides COMPLETE on what lives under the key.
pub fn complete(live: Option<IdemRecord<'_>>, fingerprint: &[u8], owner: &[u8], result: &[u8]) -> Complete {
    match live {
        Some(record) if record.fingerprint == fingerprint && record.owner == owner => match record.state {
            IdemState::Pending => Complete::Store,
            IdemState::Completed if record.result == result => Complete::AlreadyStored,
            IdemState::Completed | IdemState::Aborted => Complete::Refused,
        },
        _ => Complete::Refused,
    }
}

/// What ABORT does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abort {
    /// Remove the pending record.
    Remove,
    /// Answer `0`, write nothing. A completed result is never removed.
    Refused,
}

/// Decides ABORT on what lives under the key.
pub fn abort(live: Option<IdemRecord<'_>>, fingerprint: &[u8], owner: &[u8]) -> Abort {
    match live {
        Some(record)
            if record.state == IdemState::Pending
                && record.fingerprint == fingerprint
                && record.owner == owner =>
        {
            Abort::Remove
        }
        _ => Abort::Refused,
    }
}
