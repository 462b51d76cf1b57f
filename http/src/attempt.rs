//! One attempt: BEGIN, the handler, COMPLETE. It runs in a task of its own and outlives its client.
//!
//! ```text
//! BEGIN ── conflict ──▶ 409 or 422        acquired ──▶ handler ── whole answer ──▶ COMPLETE ── 1 ──▶ the answer is sent
//!       ── pending ───▶ 409, Retry-After                  │                                 ── 0 ──▶ 500
//!       ── completed ─▶ replay                            │ panic, timeout, stream, too long   ── unclear ─▶ 503
//!       ── no answer ─▶ 503                               └──▶ 500, the record stays pending
//! ```
//!
//! Invariants
//! * One BEGIN, at most one call of the handler, at most one COMPLETE: whatever fails, nothing is repeated here.
//! * Nothing of an answer is sent before it is stored, and no failure is followed by ABORT: the handler may have acted.
//!   The one ABORT is for an answer whose status the application does not want stored.
//! * The inner service is asked whether it is ready only when it is to run, within the time that the handler has.
//! * A client that goes away after BEGIN was sent changes nothing. If it did, a lost connection would leave a pending
//!   record that nobody will complete.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use idem_client::{Begin, Error, OwnerToken, Store};
use tower_service::Service;

use crate::body::capture;
use crate::observe::Outcome;
use crate::operation::OperationKey;
use crate::policy::{Policy, Settings};
use crate::problem::Problem;
use crate::stored_response::{StoredResponse, first_answer};

/// An attempt that has come to an answer.
pub(crate) struct Settled {
    pub(crate) outcome: Outcome,
    pub(crate) response: Response<Full<Bytes>>,
}

impl Settled {
    pub(crate) fn problem(outcome: Outcome, problem: Problem, settings: &Settings) -> Settled {
        Settled {
            outcome,
            response: problem.response(settings),
        }
    }
}

/// Runs one attempt to its end.
///
/// # Errors
/// The handler's own, when it is a service that can fail, or that says it will never be ready: passed on as it is, and the
/// record stays pending.
pub(crate) async fn run<S, Inner, B>(
    policy: Arc<Policy<S>>,
    operation: OperationKey,
    mut inner: Inner,
    request: Request<Full<Bytes>>,
) -> Result<Settled, Inner::Error>
where
    S: Store,
    Inner: Service<Request<Full<Bytes>>, Response = Response<B>>,
    B: Body,
{
    let settings = &policy.settings;
    let problem = |outcome, problem| Ok(Settled::problem(outcome, problem, settings));
    // A fresh one for each attempt: an owner that another attempt has, too, would let one complete the other's record.
    let owner = match OwnerToken::random() {
        Ok(owner) => owner,
        Err(error) => {
            tell(settings, "BEGIN", &error);
            return problem(Outcome::Unavailable, Problem::StoreUnavailable);
        }
    };
    let key = operation.storage_key().as_bytes();
    let fingerprint = operation.fingerprint().as_bytes();
    let begun = policy
        .store
        .begin(key, fingerprint, owner.as_bytes(), settings.retention)
        .await;
    match begun {
        Ok(Begin::Acquired) => {}
        Ok(Begin::Pending) => return problem(Outcome::Pending, Problem::Pending),
        Ok(Begin::Conflict) => return problem(Outcome::Conflict, Problem::Reused),
        Ok(Begin::Completed(stored)) => {
            return match StoredResponse::decode(stored) {
                Ok(stored) => Ok(Settled {
                    outcome: Outcome::Replayed,
                    response: stored.into_replay(settings.replay_header.as_ref()),
                }),
                Err(error) => problem(Outcome::Failed, Problem::Stored(error)),
            };
        }
        Err(error) => {
            tell(settings, "BEGIN", &error);
            return problem(Outcome::Unavailable, Problem::StoreUnavailable);
        }
    }

    let answered = tokio::time::timeout(settings.response_timeout, async {
        poll_fn(|context| inner.poll_ready(context)).await?;
        let answer = inner.call(request).await?;
        Ok(capture(answer, settings.max_response_bytes).await)
    });
    // Over the time the handler is dropped where it awaits: a place that is never given back would be worse.
    let (parts, body) = match answered.await {
        Ok(Ok(Ok(captured))) => captured,
        Ok(Ok(Err(error))) => return problem(Outcome::Failed, Problem::Answer(error)),
        Ok(Err(error)) => return Err(error),
        Err(_) => return problem(Outcome::Failed, Problem::Timeout),
    };

    let marker = settings.replay_header.as_ref();
    if !(settings.stores)(parts.status) {
        // A failed ABORT must not hide the handler's words; the record then stays pending until its deadline.
        if let Err(error) = policy.store.abort(key, fingerprint, owner.as_bytes()).await {
            tell(settings, "ABORT", &error);
        }
        return Ok(Settled {
            outcome: Outcome::NotStored,
            response: first_answer(parts, body, marker),
        });
    }
    let (envelope, body) = match StoredResponse::of(&parts, body) {
        Ok(stored) => stored.into_envelope(),
        Err(error) => return problem(Outcome::Failed, Problem::Answer(error)),
    };
    let completed = policy
        .store
        .complete(key, fingerprint, owner.as_bytes(), &envelope)
        .await;
    match completed {
        Ok(true) => Ok(Settled {
            outcome: Outcome::Executed,
            response: first_answer(parts, body, marker),
        }),
        Ok(false) => problem(Outcome::Failed, Problem::CompletionRefused),
        Err(error) => {
            tell(settings, "COMPLETE", &error);
            problem(Outcome::Unavailable, Problem::CompletionUnclear)
        }
    }
}

/// Kinds of errors only: their texts come from elsewhere and could hold a key.
fn tell(settings: &Settings, command: &'static str, error: &Error) {
    if settings.instrumented {
        tracing::warn!(
            command,
            kind = ?error.kind(),
            may_have_run = error.may_have_run(),
            "the idempotency store did not answer as hoped"
        );
    }
}
