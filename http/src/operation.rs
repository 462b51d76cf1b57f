//! The key that a handler gives to other systems.
//!
//! The layer lets a handler begin once; it cannot undo what a handler did before it died. After the retention, or once an
//! operator has settled a pending record, the same request may begin again. A payment provider that is given the same
//! key both times then does the second one no harm. A key made up by the handler (a new UUID for each run) protects
//! nothing.

use std::fmt;
use std::sync::Arc;

use crate::fingerprint::FieldHash;

/// In the extensions of every request that reaches a handler behind the layer: names the operation towards other systems.
///
/// The same for each attempt at one request, whatever becomes of the attempts; another one for another caller, key or
/// content.
///
/// ```
/// # async fn charge(_: String) {}
/// # #[cfg(feature = "axum")]
/// async fn create(axum::Extension(operation): axum::Extension<idem_http::OperationKey>) {
///     charge(operation.derive("bank: charge")).await;
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct OperationKey(Arc<Parts>);

#[derive(PartialEq, Eq, Hash)]
struct Parts {
    storage_key: String,
    fingerprint: String,
}

impl OperationKey {
    pub(crate) fn new(storage_key: String, fingerprint: String) -> OperationKey {
        OperationKey(Arc::new(Parts {
            storage_key,
            fingerprint,
        }))
    }

    /// The key of the record in the store: for a handler's own log, so that support finds the record.
    pub fn storage_key(&self) -> &str {
        &self.0.storage_key
    }

    pub(crate) fn fingerprint(&self) -> &str {
        &self.0.fingerprint
    }

    /// The key for one call of another system: 64 lower-case hexadecimal digits, SHA-256 over storage key, fingerprint and
    /// `purpose`. Say another purpose for each call that the handler makes, and never change one while requests can still
    /// be repeated. Nothing of the caller can be read from it.
    pub fn derive(&self, purpose: &str) -> String {
        FieldHash::new()
            .field(self.0.storage_key.as_bytes())
            .field(self.0.fingerprint.as_bytes())
            .field(purpose.as_bytes())
            .hex()
    }
}

/// The storage key only: a fingerprint could be tried against known requests.
impl fmt::Debug for OperationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OperationKey").field(&self.0.storage_key).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(storage_key: &str, fingerprint: &str) -> OperationKey {
        OperationKey::new(storage_key.to_owned(), fingerprint.to_owned())
    }

    /// From `testdata/vectors.py`, which builds the bytes by itself: other systems keep these for as long as they like.
    #[test]
    fn golden_derived_key() {
        let derived = key("idem:http:v1:{00}", "ff").derive("bank: charge");
        assert_eq!(derived, include_str!("../testdata/derived-key.txt").trim_end());
    }

    #[test]
    fn each_part_makes_another_key() {
        let keys = [
            key("a", "b").derive("c"),
            key("ab", "").derive("c"),
            key("a", "").derive("bc"),
            key("a", "b").derive(""),
            key("a", "bc").derive(""),
            key("", "ab").derive("c"),
        ];
        let distinct: std::collections::HashSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
    }

    #[test]
    fn a_log_line_does_not_show_the_fingerprint() {
        assert_eq!(
            format!("{:?}", key("stored", "secret")),
            r#"OperationKey("stored")"#
        );
    }
}
