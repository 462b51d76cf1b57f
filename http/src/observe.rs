//! One span and one counter, both off unless asked for, both with the outcome and nothing else.
//!
//! Keys, subjects and addresses are never in them: their number is unbounded, and some are secrets.

use tracing::Span;

/// How a request ended. A closed list, so that a label has few values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The handler ran and its answer is stored.
    Executed,
    /// The handler ran and its status is one that is not stored.
    NotStored,
    Replayed,
    Pending,
    Conflict,
    /// The request could not be used: 400, 401, 405, 413, or a subject or scope that cannot be.
    Refused,
    /// 503: crowded, or the store did not answer.
    Unavailable,
    /// 500 after BEGIN, or an attempt that was dropped.
    Failed,
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Outcome::Executed => "executed",
            Outcome::NotStored => "not_stored",
            Outcome::Replayed => "replayed",
            Outcome::Pending => "pending",
            Outcome::Conflict => "conflict",
            Outcome::Refused => "refused",
            Outcome::Unavailable => "unavailable",
            Outcome::Failed => "failed",
        }
    }
}

/// Watches one request. What it was told last is counted when it goes, so that a panic and an attempt whose client is gone
/// are counted, too. A request that goes before anything was said of it has begun nothing and is not counted: its client
/// left while it sent, a time-out outside gave up, or a closure of the application panicked.
pub(crate) struct Watch {
    span: Option<Span>,
    outcome: Option<Outcome>,
}

impl Watch {
    /// `on`: otherwise it makes no span and counts nothing.
    pub(crate) fn new(on: bool) -> Watch {
        Watch {
            span: on.then(|| tracing::info_span!("idempotent_request", outcome = tracing::field::Empty)),
            outcome: None,
        }
    }

    /// The span in which an attempt runs: a handler in a task of its own still logs into its request's span.
    pub(crate) fn span(&self) -> Span {
        self.span.clone().unwrap_or_else(Span::current)
    }

    /// Says that an attempt begins: from here on it has failed, unless something else is said of it.
    pub(crate) fn begin(&mut self) {
        self.settle(Outcome::Failed);
    }

    pub(crate) fn settle(&mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let (Some(span), Some(outcome)) = (&self.span, self.outcome) {
            span.record("outcome", outcome.word());
            metrics::counter!("idem_http_outcomes_total", "outcome" => outcome.word()).increment(1);
        }
    }
}
