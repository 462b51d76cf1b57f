//! What running something once needs of a store: three commands.
//!
//! The executor and the HTTP layer know nothing else, so a test of an application can put
//! [`MemoryStore`](crate::MemoryStore) in place of a server. Both pass the same suite of cases.
//!
//! Invariants of every implementation
//! * A call sends its command once. Where the answer is lost the error says that it may have run, and nobody sends it again.
//! * An error of BEGIN means that the work must not be done.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::outcome::Begin;

/// A store of idempotency records. Cheap to clone: clones are the same store. It is not `dyn`-compatible; an application
/// that chooses between two at run time makes an `enum` of them.
pub trait Store: Clone + Send + Sync + 'static {
    /// `IDEM key BEGIN fingerprint owner ttl`. Fingerprint and owner have 1 to 128 bytes, `ttl` 1 ms to 7 days.
    fn begin(
        &self,
        key: &[u8],
        fingerprint: &[u8],
        owner: &[u8],
        ttl: Duration,
    ) -> impl Future<Output = Result<Begin, Error>> + Send;

    /// `IDEM key COMPLETE fingerprint owner result`. True when the result is stored now; false when the record is gone,
    /// another's, or holds another result.
    fn complete(
        &self,
        key: &[u8],
        fingerprint: &[u8],
        owner: &[u8],
        result: &[u8],
    ) -> impl Future<Output = Result<bool, Error>> + Send;

    /// `IDEM key ABORT fingerprint owner`. True when the pending record was this owner's and is gone now.
    fn abort(
        &self,
        key: &[u8],
        fingerprint: &[u8],
        owner: &[u8],
    ) -> impl Future<Output = Result<bool, Error>> + Send;
}

/// A store that is shared anyway.
impl<S: Store> Store for Arc<S> {
    async fn begin(
        &self,
        key: &[u8],
        fingerprint: &[u8],
        owner: &[u8],
        ttl: Duration,
    ) -> Result<Begin, Error> {
        S::begin(self, key, fingerprint, owner, ttl).await
    }

    async fn complete(
        &self,
        key: &[u8],
        fingerprint: &[u8],
        owner: &[u8],
        result: &[u8],
    ) -> Result<bool, Error> {
        S::complete(self, key, fingerprint, owner, result).await
    }

    async fn abort(&self, key: &[u8], fingerprint: &[u8], owner: &[u8]) -> Result<bool, Error> {
        S::abort(self, key, fingerprint, owner).await
    }
}
