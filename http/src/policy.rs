//! What a layer was told to do, checked once.
//!
//! Invariants
//! * A [`Policy`] exists only with every bound checked: nothing is left to be refused when a request comes.
//! * The namespace is neither empty nor longer than a field may be. Principal and scope come from requests and are
//!   checked with each of them.

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode};
use tokio::sync::Semaphore;

use crate::stored_response::can_mark;

/// The longest field that is hashed into a storage key or a fingerprint, and the longest stored headers together.
pub const FIELD_BYTES_MAX: usize = 8192;

/// The largest limit for a request or a response: 1 MiB. Both are held in memory whole.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;

/// The longest retention, as the server has it.
pub const RETENTION_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The most places there can be: [`IdempotencyLayer::idle`](crate::IdempotencyLayer::idle) asks for all of them at once,
/// in 32 bits.
const PLACES_MAX: usize = if Semaphore::MAX_PERMITS < u32::MAX as usize {
    Semaphore::MAX_PERMITS
} else {
    u32::MAX as usize
};

/// Who is asking, as the authentication before this layer found out.
///
/// All three are part of the storage key: the same subject under another issuer is somebody else, and so is a person who
/// came with a certificate instead of a token. Never fill it from what the caller merely claims.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal {
    pub(crate) authentication_type: String,
    pub(crate) issuer: String,
    pub(crate) subject: String,
}

impl Principal {
    /// How somebody was authenticated (`Bearer`, `mtls`), by whom (an issuer's URL; may be empty), and who it is. Each at
    /// most [`FIELD_BYTES_MAX`] bytes, or the request is answered with 500; an empty subject is nobody, 401.
    pub fn new(
        authentication_type: impl Into<String>,
        issuer: impl Into<String>,
        subject: impl Into<String>,
    ) -> Principal {
        Principal {
            authentication_type: authentication_type.into(),
            issuer: issuer.into(),
            subject: subject.into(),
        }
    }

    /// How this principal was authenticated.
    pub fn authentication_type(&self) -> &str {
        &self.authentication_type
    }

    /// Who vouches for the subject.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Who it is.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    pub(crate) fn fits(&self) -> bool {
        [&self.authentication_type, &self.issuer, &self.subject]
            .iter()
            .all(|field| field.len() <= FIELD_BYTES_MAX)
    }
}

/// How a key that was used for another request is answered. Nothing else depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// 409.
    #[default]
    Standard,
    /// 422, as draft-ietf-httpapi-idempotency-key-header has it.
    Ietf,
}

impl Profile {
    pub(crate) fn reused(self) -> StatusCode {
        match self {
            Profile::Standard => StatusCode::CONFLICT,
            Profile::Ietf => StatusCode::UNPROCESSABLE_ENTITY,
        }
    }
}

/// A configuration that cannot work. Found when the layer is built, never by a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The namespace tells deployments apart that share a store.
    #[error("the namespace has {bytes} bytes; it needs 1 to {FIELD_BYTES_MAX}")]
    Namespace {
        /// Its length.
        bytes: usize,
    },
    /// Out of range, or not in whole milliseconds: a server would round it or refuse it.
    #[error("a retention of {0:?} is not 1 ms to 7 days in whole milliseconds")]
    Retention(Duration),
    /// The limit of request bodies.
    #[error("a request limit of {0} bytes is not 1 to {BODY_BYTES_MAX}")]
    MaxRequestBytes(usize),
    /// The limit of response bodies.
    #[error("a response limit of {0} bytes is not 1 to {BODY_BYTES_MAX}")]
    MaxResponseBytes(usize),
    /// Without any time no handler could answer.
    #[error("the response timeout is zero")]
    ResponseTimeout,
    /// Without a place no handler could run.
    #[error("max_detached is {0}; it needs 1 to {PLACES_MAX}")]
    MaxDetached(usize),
    /// It is stored, frames the answer, or means something else to whoever reads it.
    #[error("`{0}` cannot mark a replay: it means something else")]
    ReplayHeader(HeaderName),
    /// It is written into JSON as it is.
    #[error("the base of the problem types may hold only characters of a URI")]
    ProblemBase,
}

/// Finds who is asking.
pub(crate) type PrincipalOf = Arc<dyn Fn(&Parts) -> Option<Principal> + Send + Sync>;
/// Finds the tenant.
pub(crate) type ScopeOf = Arc<dyn Fn(&Parts) -> String + Send + Sync>;
/// Says which statuses are kept.
pub(crate) type Stores = Arc<dyn Fn(StatusCode) -> bool + Send + Sync>;

/// What has a default. Checked by [`Settings::check`].
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) retention: Duration,
    pub(crate) max_request_bytes: usize,
    pub(crate) max_response_bytes: usize,
    pub(crate) response_timeout: Duration,
    pub(crate) max_detached: usize,
    pub(crate) retry_after_seconds: u32,
    pub(crate) profile: Profile,
    pub(crate) replay_header: Option<HeaderName>,
    pub(crate) challenge: Option<HeaderValue>,
    pub(crate) problem_base: String,
    pub(crate) stores: Stores,
    pub(crate) instrumented: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            retention: Duration::from_secs(24 * 60 * 60),
            max_request_bytes: 64 * 1024,
            max_response_bytes: 64 * 1024,
            response_timeout: Duration::from_secs(30),
            max_detached: 1024,
            retry_after_seconds: 1,
            profile: Profile::Standard,
            replay_header: Some(HeaderName::from_static("idempotent-replayed")),
            challenge: None,
            problem_base: "urn:idem:http:problem:".to_owned(),
            stores: Arc::new(|_| true),
            instrumented: false,
        }
    }
}

impl Settings {
    fn check(&self) -> Result<(), ConfigError> {
        let whole = self.retention.subsec_nanos().is_multiple_of(1_000_000);
        if self.retention.is_zero() || self.retention > RETENTION_MAX || !whole {
            return Err(ConfigError::Retention(self.retention));
        }
        if !(1..=BODY_BYTES_MAX).contains(&self.max_request_bytes) {
            return Err(ConfigError::MaxRequestBytes(self.max_request_bytes));
        }
        if !(1..=BODY_BYTES_MAX).contains(&self.max_response_bytes) {
            return Err(ConfigError::MaxResponseBytes(self.max_response_bytes));
        }
        if self.response_timeout.is_zero() {
            return Err(ConfigError::ResponseTimeout);
        }
        if !(1..=PLACES_MAX).contains(&self.max_detached) {
            return Err(ConfigError::MaxDetached(self.max_detached));
        }
        if let Some(name) = self.replay_header.as_ref().filter(|name| !can_mark(name)) {
            return Err(ConfigError::ReplayHeader(name.clone()));
        }
        let of_uri = |byte: u8| byte.is_ascii_graphic() && !br#""<>\^`{|}"#.contains(&byte);
        if !self.problem_base.bytes().all(of_uri) {
            return Err(ConfigError::ProblemBase);
        }
        Ok(())
    }
}

/// A whole configuration, checked; shared by all services that one layer makes.
pub(crate) struct Policy<S> {
    pub(crate) store: S,
    pub(crate) namespace: String,
    pub(crate) principal: PrincipalOf,
    pub(crate) scope: ScopeOf,
    pub(crate) settings: Settings,
    /// One place for each attempt that may outlive its client.
    pub(crate) places: Arc<Semaphore>,
}

impl<S> Policy<S> {
    pub(crate) fn new(
        store: S,
        namespace: String,
        principal: PrincipalOf,
        scope: ScopeOf,
        settings: Settings,
    ) -> Result<Policy<S>, ConfigError> {
        if !(1..=FIELD_BYTES_MAX).contains(&namespace.len()) {
            return Err(ConfigError::Namespace {
                bytes: namespace.len(),
            });
        }
        settings.check()?;
        let places = Arc::new(Semaphore::new(settings.max_detached));
        Ok(Policy {
            store,
            namespace,
            principal,
            scope,
            settings,
            places,
        })
    }

    /// Waits until nothing is under way: until all places are ours at once.
    pub(crate) async fn idle(&self) {
        let all = u32::try_from(self.settings.max_detached).expect("checked: at most PLACES_MAX");
        // The places are never closed. All of them go back at once.
        drop(self.places.acquire_many(all).await);
    }
}
