//! The service: what is checked of a request, in order, before anything begins.
//!
//! Method, login, key, body: the cheapest first, and nothing of the body is read for a request that is refused anyway.
//! Then the attempt starts in a task of its own ([`attempt`](crate::attempt)), and this future only waits for it: when it
//! is dropped, because the client is gone, the attempt goes on.
//!
//! The service is always ready. Whether the inner one is, only an attempt asks that has to run it: a limit inside holds up
//! neither replays nor refusals, and a client that does not send its body occupies nothing of it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use http::{Method, Request, Response};
use http_body::Body;
use http_body_util::Full;
use idem_client::Store;
use tower_service::Service;
use tracing::Instrument;

use crate::attempt::{self, Settled};
use crate::body::read_request;
use crate::fingerprint::{Fingerprint, original_uri, too_long};
use crate::key;
use crate::observe::{Outcome, Watch};
use crate::operation::OperationKey;
use crate::policy::{FIELD_BYTES_MAX, Policy, Principal};
use crate::problem::Problem;

/// A service behind an [`IdempotencyLayer`](crate::IdempotencyLayer).
pub struct IdempotencyService<S, Inner> {
    policy: Arc<Policy<S>>,
    inner: Inner,
}

impl<S, Inner> IdempotencyService<S, Inner> {
    pub(crate) fn new(policy: Arc<Policy<S>>, inner: Inner) -> Self {
        IdempotencyService { policy, inner }
    }
}

impl<S, Inner: Clone> Clone for IdempotencyService<S, Inner> {
    fn clone(&self) -> Self {
        IdempotencyService {
            policy: Arc::clone(&self.policy),
            inner: self.inner.clone(),
        }
    }
}

impl<S, Inner: fmt::Debug> fmt::Debug for IdempotencyService<S, Inner> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyService")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

type Answer<E> = Result<Response<Full<Bytes>>, E>;

/// Waits for the answer. Dropping it is what a lost client looks like: an attempt that has begun goes on without it.
#[must_use = "futures do nothing unless polled"]
pub struct ResponseFuture<E> {
    answer: Pin<Box<dyn Future<Output = Answer<E>> + Send>>,
}

impl<E> fmt::Debug for ResponseFuture<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

impl<E> Future for ResponseFuture<E> {
    type Output = Answer<E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.answer.as_mut().poll(context)
    }
}

impl<S, Inner, RequestBody, ResponseBody> Service<Request<RequestBody>> for IdempotencyService<S, Inner>
where
    S: Store,
    Inner: Service<Request<Full<Bytes>>, Response = Response<ResponseBody>> + Clone + Send + 'static,
    Inner::Future: Send,
    Inner::Error: Send + 'static,
    RequestBody: Body + Send + 'static,
    RequestBody::Data: Send,
    RequestBody::Error: Send,
    ResponseBody: Body + Send + 'static,
    ResponseBody::Data: Send,
    ResponseBody::Error: Send,
{
    type Response = Response<Full<Bytes>>;
    type Error = Inner::Error;
    type Future = ResponseFuture<Inner::Error>;

    /// Always ready, see the module.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        // Nobody has asked ours whether it is ready, and the attempt asks its copy.
        let answer = answer(Arc::clone(&self.policy), self.inner.clone(), request);
        ResponseFuture {
            answer: Box::pin(answer),
        }
    }
}

async fn answer<S, Inner, RequestBody, ResponseBody>(
    policy: Arc<Policy<S>>,
    inner: Inner,
    request: Request<RequestBody>,
) -> Result<Response<Full<Bytes>>, Inner::Error>
where
    S: Store,
    Inner: Service<Request<Full<Bytes>>, Response = Response<ResponseBody>> + Send + 'static,
    Inner::Future: Send,
    Inner::Error: Send + 'static,
    RequestBody: Body + Send,
    RequestBody::Data: Send,
    RequestBody::Error: Send,
    ResponseBody: Body + Send + 'static,
    ResponseBody::Data: Send,
    ResponseBody::Error: Send,
{
    let mut watch = Watch::new(policy.settings.instrumented);
    let (operation, request) = match accept(&policy, request).await {
        Ok(accepted) => accepted,
        Err(problem) => {
            watch.settle(Outcome::Refused);
            return Ok(problem.response(&policy.settings));
        }
    };
    let Ok(place) = Arc::clone(&policy.places).try_acquire_owned() else {
        watch.settle(Outcome::Unavailable);
        return Ok(Problem::Crowded.response(&policy.settings));
    };

    let span = watch.span();
    let attempt = {
        let policy = Arc::clone(&policy);
        async move {
            watch.begin();
            let settled = attempt::run(policy, operation, inner, request).await;
            if let Ok(Settled { outcome, .. }) = &settled {
                watch.settle(*outcome);
            }
            drop(place);
            settled
        }
    };
    match tokio::spawn(attempt.instrument(span)).await {
        Ok(settled) => settled.map(|settled| settled.response),
        // Unwinding has given back the place. The record stays pending: the handler may have acted before.
        Err(error) if error.is_panic() => Ok(Problem::Panicked.response(&policy.settings)),
        Err(_) => Ok(Problem::Interrupted.response(&policy.settings)),
    }
}

/// Checks a request, in the order of the contract, and reads it whole.
async fn accept<S, B>(
    policy: &Policy<S>,
    request: Request<B>,
) -> Result<(OperationKey, Request<Full<Bytes>>), Problem>
where
    B: Body,
{
    let (mut parts, body) = request.into_parts();
    if ![Method::POST, Method::PUT, Method::PATCH, Method::DELETE].contains(&parts.method) {
        return Err(Problem::Method);
    }
    let (principal, scope) = caller(policy, &parts)?;
    let key = key::parse(&parts.headers).map_err(Problem::Key)?;
    let content_type = content_type(&parts)?;
    if let Some(field) = too_long(original_uri(&parts), content_type) {
        return Err(Problem::FieldTooLong(field));
    }
    let body = read_request(&parts.headers, body, policy.settings.max_request_bytes)
        .await
        .map_err(Problem::Body)?;

    let uri = original_uri(&parts);
    let fingerprint = Fingerprint {
        method: parts.method.as_str(),
        path: uri.path(),
        query: uri.query(),
        content_type,
        body: &body,
        namespace: &policy.namespace,
        principal: &principal,
        scope: &scope,
    };
    let operation = OperationKey::new(
        key::storage_key(&policy.namespace, &principal, &scope, &key),
        fingerprint.hex(),
    );
    // An outer layer has begun this very operation: it would be found under way here, and that would be stored as its
    // answer. Other operations may be inside of one another, as when a handler calls other marked routes.
    let outer = parts.extensions.insert(operation.clone());
    if outer.is_some_and(|outer| outer.storage_key() == operation.storage_key()) {
        return Err(Problem::Twice);
    }
    // What is stored has to suit every client that repeats the request, whatever encodings it reads. A compression layer
    // outside still sees the header.
    parts.headers.remove(ACCEPT_ENCODING);
    Ok((operation, Request::from_parts(parts, Full::new(body))))
}

/// Who is asking, and for whom.
fn caller<S>(policy: &Policy<S>, parts: &Parts) -> Result<(Principal, String), Problem> {
    let principal = (policy.principal)(parts)
        .filter(|principal| !principal.subject.is_empty())
        .ok_or(Problem::Unauthenticated)?;
    if !principal.fits() {
        return Err(Problem::Unusable("principal"));
    }
    let scope = (policy.scope)(parts);
    if scope.is_empty() || scope.len() > FIELD_BYTES_MAX {
        return Err(Problem::Unusable("scope"));
    }
    Ok((principal, scope))
}

/// The one content type, or none. Of two it would be a guess which one the handler follows.
fn content_type(parts: &Parts) -> Result<Option<&[u8]>, Problem> {
    let mut values = parts.headers.get_all(CONTENT_TYPE).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(Problem::RepeatedContentType);
    }
    Ok(first.map(http::HeaderValue::as_bytes))
}
