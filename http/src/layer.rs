//! The layer, and the builder that cannot be finished without the three things that tell callers apart.
//!
//! Namespace, principal and scope have no defaults: a default would let two deployments, two people or two tenants share
//! a key, which is found out when one of them reads the other's answer. So they are types: [`Builder::build`] exists only
//! when all three were said.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode};
use idem_client::Store;
use tower_layer::Layer;

use crate::policy::{ConfigError, Policy, Principal, PrincipalOf, Profile, ScopeOf, Settings};
use crate::service::IdempotencyService;

/// Puts idempotency in front of a route. Clones are one layer: they share the store and the places of
/// [`Builder::max_detached`].
pub struct IdempotencyLayer<S> {
    policy: Arc<Policy<S>>,
}

impl<S: Store> IdempotencyLayer<S> {
    /// Starts a configuration. Nothing connects, here or in [`Builder::build`]: a store that is down fails requests, not
    /// the start.
    pub fn builder(store: S) -> Builder<S, Missing, Missing, Missing> {
        Builder {
            store,
            namespace: Missing,
            principal: Missing,
            scope: Missing,
            settings: Settings::default(),
        }
    }
}

impl<S> IdempotencyLayer<S> {
    /// Waits until no attempt of this layer, its clones and its services is under way; at once when there is none.
    ///
    /// An attempt outlives its client, and a server that has closed its connections does not know of it. A runtime that
    /// ends meanwhile drops it, and its key stays pending. So call this at a shutdown, after the server's and before the
    /// runtime ends, within a bound of time: `response_timeout`, and some seconds for the store. Requests that come while
    /// somebody waits can be answered with 503, with nothing begun. Dropping the future ends that.
    ///
    /// ```
    /// # async fn example<S: idem_client::Store>(once: idem_http::IdempotencyLayer<S>) {
    /// # use std::time::Duration;
    /// // The server has come to its end.
    /// if tokio::time::timeout(Duration::from_secs(40), once.idle()).await.is_err() {
    ///     eprintln!("attempts were given up: their keys stay pending");
    /// }
    /// # }
    /// ```
    pub async fn idle(&self) {
        self.policy.idle().await;
    }
}

impl<S> Clone for IdempotencyLayer<S> {
    fn clone(&self) -> Self {
        IdempotencyLayer {
            policy: Arc::clone(&self.policy),
        }
    }
}

impl<S> fmt::Debug for IdempotencyLayer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyLayer")
            .field("namespace", &self.policy.namespace)
            .finish_non_exhaustive()
    }
}

impl<S, Inner> Layer<Inner> for IdempotencyLayer<S> {
    type Service = IdempotencyService<S, Inner>;

    fn layer(&self, inner: Inner) -> Self::Service {
        IdempotencyService::new(Arc::clone(&self.policy), inner)
    }
}

/// In the type of a [`Builder`]: this was not said yet.
#[derive(Clone, Copy, Debug)]
pub struct Missing;

/// In the type of a [`Builder`]: the namespace was said.
#[derive(Clone, Debug)]
pub struct Namespace(String);

/// In the type of a [`Builder`]: it was said how to find the principal.
#[derive(Clone)]
pub struct PrincipalFound(PrincipalOf);

/// In the type of a [`Builder`]: it was said how to find the scope.
#[derive(Clone)]
pub struct ScopeFound(ScopeOf);

/// A configuration in the making. Forgetting one of the three required parts does not compile.
///
/// ```
/// # use idem_client::Store;
/// # use idem_http::{ConfigError, IdempotencyLayer, Principal};
/// # fn example<S: Store>(store: S) -> Result<IdempotencyLayer<S>, ConfigError> {
/// IdempotencyLayer::builder(store)
///     .namespace("payments-production")
///     .principal(|request| request.extensions.get::<Principal>().cloned())
///     .scope(|_| "the only tenant".to_owned())
///     .build()
/// # }
/// ```
///
/// Without a namespace:
/// ```compile_fail,E0599
/// # use idem_client::Store;
/// # use idem_http::{ConfigError, IdempotencyLayer, Principal};
/// # fn example<S: Store>(store: S) -> Result<IdempotencyLayer<S>, ConfigError> {
/// IdempotencyLayer::builder(store)
///     .principal(|request| request.extensions.get::<Principal>().cloned())
///     .scope(|_| "the only tenant".to_owned())
///     .build()
/// # }
/// ```
///
/// Without a principal:
/// ```compile_fail,E0599
/// # use idem_client::Store;
/// # use idem_http::{ConfigError, IdempotencyLayer, Principal};
/// # fn example<S: Store>(store: S) -> Result<IdempotencyLayer<S>, ConfigError> {
/// IdempotencyLayer::builder(store)
///     .namespace("payments-production")
///     .scope(|_| "the only tenant".to_owned())
///     .build()
/// # }
/// ```
///
/// Without a scope:
/// ```compile_fail,E0599
/// # use idem_client::Store;
/// # use idem_http::{ConfigError, IdempotencyLayer, Principal};
/// # fn example<S: Store>(store: S) -> Result<IdempotencyLayer<S>, ConfigError> {
/// IdempotencyLayer::builder(store)
///     .namespace("payments-production")
///     .principal(|request| request.extensions.get::<Principal>().cloned())
///     .build()
/// # }
/// ```
#[must_use = "a builder does nothing before `build`"]
pub struct Builder<S, N, P, C> {
    store: S,
    namespace: N,
    principal: P,
    scope: C,
    settings: Settings,
}

impl<S, N, P, C> fmt::Debug for Builder<S, N, P, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").finish_non_exhaustive()
    }
}

/// What has to be said.
impl<S, N, P, C> Builder<S, N, P, C> {
    /// Names the deployment: 1 to 8192 bytes, the same on every node and after every release. Another namespace is
    /// another set of keys, so a change of it lets everything run again.
    pub fn namespace(self, name: impl Into<String>) -> Builder<S, Namespace, P, C> {
        Builder {
            store: self.store,
            namespace: Namespace(name.into()),
            principal: self.principal,
            scope: self.scope,
            settings: self.settings,
        }
    }

    /// Finds the authenticated subject, usually in the extensions, where the authentication outside of this layer left
    /// it. `None`, or an empty subject: 401. It runs before anything has begun, and a panic in it is one of the whole
    /// request: a panic handler outside answers it.
    pub fn principal<F>(self, find: F) -> Builder<S, N, PrincipalFound, C>
    where
        F: Fn(&Parts) -> Option<Principal> + Send + Sync + 'static,
    {
        Builder {
            store: self.store,
            namespace: self.namespace,
            principal: PrincipalFound(Arc::new(find)),
            scope: self.scope,
            settings: self.settings,
        }
    }

    /// Finds the tenant, from the authenticated subject or from configuration; never from a header that the caller
    /// writes. What else decides about the answer without being in the fingerprint (`Accept`, a version header) belongs
    /// here, too. At most 8192 bytes; longer or empty: 500, before anything runs. A panic in it is one of the whole request.
    pub fn scope<F>(self, find: F) -> Builder<S, N, P, ScopeFound>
    where
        F: Fn(&Parts) -> String + Send + Sync + 'static,
    {
        Builder {
            store: self.store,
            namespace: self.namespace,
            principal: self.principal,
            scope: ScopeFound(Arc::new(find)),
            settings: self.settings,
        }
    }

    /// How long an answer is remembered, counted from the first request: 1 ms to 7 days in whole milliseconds. Default:
    /// 24 hours. A failed attempt blocks its key for as long.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.settings.retention = retention;
        self
    }

    /// The longest request body, 1 byte to 1 MiB. Default: 64 KiB. Each request may hold this much memory.
    pub fn max_request_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_request_bytes = bytes;
        self
    }

    /// The longest response body, 1 byte to 1 MiB. Default: 64 KiB. While COMPLETE is under way an attempt holds its answer
    /// more than once, in what is stored of it and in what a client of the store has to send: reckon with four times this.
    pub fn max_response_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_response_bytes = bytes;
        self
    }

    /// How long the handler has for its whole answer, the body included, and the time included that an inner service takes
    /// until it is ready. Default: 30 seconds. Then it is dropped where it awaits, and its key stays pending.
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.settings.response_timeout = timeout;
        self
    }

    /// How many attempts may be under way at once. Each may outlive its client, so each takes its place before BEGIN and
    /// keeps it until its answer is stored. Beyond that: 503, and nothing was begun. 1 to 2^32 − 1 (2^29 − 1 where addresses
    /// have 32 bits). Default: 1024.
    pub fn max_detached(mut self, attempts: usize) -> Self {
        self.settings.max_detached = attempts;
        self
    }

    /// What `Retry-After` says beside a 409 for a request that is still under way, and beside a 503. Default: 1 second.
    pub fn retry_after_seconds(mut self, seconds: u32) -> Self {
        self.settings.retry_after_seconds = seconds;
        self
    }

    /// How the reuse of a key for another request is answered: 409, or 422.
    pub fn profile(mut self, profile: Profile) -> Self {
        self.settings.profile = profile;
        self
    }

    /// The header that marks a replay with `true`, or none. Default: `Idempotent-Replayed`. One that means something else
    /// already (what is stored, what frames an answer, cookies and the like) is refused.
    pub fn replay_header(mut self, name: Option<HeaderName>) -> Self {
        self.settings.replay_header = name;
        self
    }

    /// `WWW-Authenticate` of a 401 that this layer answers. Default: none, since authentication outside answers its own. Set
    /// it where requests of nobody come as far as this layer: HTTP asks for the header beside a 401.
    pub fn challenge(mut self, challenge: HeaderValue) -> Self {
        self.settings.challenge = Some(challenge);
        self
    }

    /// What the three problem types begin with, in characters of a URI; `missing-or-invalid`, `reused` and `in-progress` are put behind it.
    /// Default: `urn:idem:http:problem:`.
    pub fn problem_base(mut self, uri: impl Into<String>) -> Self {
        self.settings.problem_base = uri.into();
        self
    }

    /// Which statuses are stored. Default: all, so that a retry never runs what failed. A status that is not stored is
    /// sent as it is and its record is given back (ABORT), so that the next request with the key runs: say no only to
    /// statuses whose handlers have changed nothing.
    pub fn store_status<F>(mut self, stores: F) -> Self
    where
        F: Fn(StatusCode) -> bool + Send + Sync + 'static,
    {
        self.settings.stores = Arc::new(stores);
        self
    }

    /// Turns on one span (`idempotent_request`) and one counter (`idem_http_outcomes_total`), both with the outcome and
    /// nothing else. Default: off.
    pub fn instrument(mut self, on: bool) -> Self {
        self.settings.instrumented = on;
        self
    }
}

impl<S: Store> Builder<S, Namespace, PrincipalFound, ScopeFound> {
    /// Checks everything and makes the layer. Connects to nothing.
    ///
    /// # Errors
    /// The first value out of its range.
    pub fn build(self) -> Result<IdempotencyLayer<S>, ConfigError> {
        let policy = Policy::new(
            self.store,
            self.namespace.0,
            self.principal.0,
            self.scope.0,
            self.settings,
        )?;
        Ok(IdempotencyLayer {
            policy: Arc::new(policy),
        })
    }
}
