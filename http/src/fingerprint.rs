//! What exactly is asked for, as 64 hexadecimal digits.
//!
//! Every field enters the hash behind its length, so that no two different requests are the same bytes: `("a:b", "c")` is
//! not `("a", "b:c")`. The order and the encoding of the fields are stored in every record that is pending or completed
//! somewhere: changing either makes all of them conflicts. Golden vectors hold them.
//!
//! Deliberately absent: all other headers (`Accept`, versions, preconditions). What of them decides about the answer is
//! for the scope. The host, too: the namespace says which deployment it is.

use http::Uri;
use sha2::{Digest, Sha256};

use crate::policy::{FIELD_BYTES_MAX, Principal};

/// SHA-256 over fields that are each delimited by their length: 8 bytes, big-endian. A field that is not there is eight
/// bytes `ff`, which no length is: an absent query is not an empty one.
pub(crate) struct FieldHash(Sha256);

impl FieldHash {
    pub(crate) fn new() -> FieldHash {
        FieldHash(Sha256::new())
    }

    #[must_use]
    pub(crate) fn field(mut self, bytes: &[u8]) -> FieldHash {
        let length = u64::try_from(bytes.len()).expect("a length in memory fits 64 bits");
        self.0.update(length.to_be_bytes());
        self.0.update(bytes);
        self
    }

    #[must_use]
    pub(crate) fn optional(mut self, bytes: Option<&[u8]>) -> FieldHash {
        match bytes {
            Some(bytes) => self.field(bytes),
            None => {
                self.0.update([0xff; 8]);
                self
            }
        }
    }

    #[must_use]
    pub(crate) fn principal(self, principal: &Principal) -> FieldHash {
        self.field(principal.authentication_type.as_bytes())
            .field(principal.issuer.as_bytes())
            .field(principal.subject.as_bytes())
    }

    pub(crate) fn hex(self) -> String {
        hex(&self.0.finalize())
    }
}

/// Lower-case hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// The parts of a fingerprint.
pub(crate) struct Fingerprint<'a> {
    pub(crate) method: &'a str,
    /// As the client sent it: not decoded, a nested router's prefix included.
    pub(crate) path: &'a str,
    /// As the client sent it: not decoded, in its order. `None`: there is no question mark.
    pub(crate) query: Option<&'a str>,
    pub(crate) content_type: Option<&'a [u8]>,
    pub(crate) body: &'a [u8],
    pub(crate) namespace: &'a str,
    pub(crate) principal: &'a Principal,
    pub(crate) scope: &'a str,
}

impl Fingerprint<'_> {
    pub(crate) fn hex(&self) -> String {
        FieldHash::new()
            .field(self.method.as_bytes())
            .field(self.path.as_bytes())
            .optional(self.query.map(str::as_bytes))
            .optional(self.content_type)
            .field(self.body)
            .field(self.namespace.as_bytes())
            .principal(self.principal)
            .field(self.scope.as_bytes())
            .hex()
    }
}

/// The address that the client sent. A nested router of axum's takes its prefix off the URI; what it was before stands in
/// an extension.
pub(crate) fn original_uri(parts: &http::request::Parts) -> &Uri {
    #[cfg(feature = "axum")]
    if let Some(original) = parts.extensions.get::<axum::extract::OriginalUri>() {
        return &original.0;
    }
    &parts.uri
}

/// The first request field that is too long to be hashed, by its name.
pub(crate) fn too_long(uri: &Uri, content_type: Option<&[u8]>) -> Option<&'static str> {
    if uri.path().len() > FIELD_BYTES_MAX {
        Some("path")
    } else if uri.query().is_some_and(|query| query.len() > FIELD_BYTES_MAX) {
        Some("query")
    } else if content_type.is_some_and(|value| value.len() > FIELD_BYTES_MAX) {
        Some("Content-Type")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ada() -> Principal {
        Principal::new("Bearer", "https://issuer.example", "ada")
    }

    fn base(principal: &Principal) -> Fingerprint<'_> {
        Fingerprint {
            method: "POST",
            path: "/payments",
            query: Some("dry=1"),
            content_type: Some(b"application/json"),
            body: br#"{"amount":5}"#,
            namespace: "shop",
            principal,
            scope: "acme",
        }
    }

    /// From `testdata/vectors.py`, which builds the bytes by itself.
    #[test]
    fn golden_fingerprints() {
        let ada = ada();
        let nobody = Principal::new("", "", "x");
        for (request, expected) in [
            (base(&ada), include_str!("../testdata/fingerprint-full.hex")),
            (
                Fingerprint {
                    query: None,
                    content_type: None,
                    body: b"",
                    ..base(&ada)
                },
                include_str!("../testdata/fingerprint-bare.hex"),
            ),
            (
                Fingerprint {
                    method: "DELETE",
                    path: "/a%2Fb/",
                    query: Some(""),
                    content_type: Some(b""),
                    body: &[0, 255, 13, 10],
                    namespace: "n",
                    principal: &nobody,
                    scope: "\u{e9}",
                },
                include_str!("../testdata/fingerprint-bytes.hex"),
            ),
        ] {
            assert_eq!(request.hex(), expected.trim_end());
        }
    }

    /// Each field counts, and moving bytes from one to the next does, too.
    #[test]
    fn no_two_different_requests_have_one_fingerprint() {
        let ada = ada();
        let shifted = Principal::new("Bearer", "https://issuer.exampl", "eada");
        let eve = Principal::new("Bearer", "https://issuer.example", "eve");
        let mut seen = std::collections::HashSet::new();
        for request in [
            base(&ada),
            Fingerprint {
                method: "PUT",
                ..base(&ada)
            },
            Fingerprint {
                path: "/payments/",
                ..base(&ada)
            },
            Fingerprint {
                path: "/payments/1/cancel",
                ..base(&ada)
            },
            Fingerprint {
                path: "/pay%6Dents",
                ..base(&ada)
            },
            Fingerprint {
                query: None,
                ..base(&ada)
            },
            Fingerprint {
                query: Some(""),
                ..base(&ada)
            },
            Fingerprint {
                query: Some("dry=1&a=2"),
                ..base(&ada)
            },
            Fingerprint {
                query: Some("a=2&dry=1"),
                ..base(&ada)
            },
            Fingerprint {
                content_type: None,
                ..base(&ada)
            },
            Fingerprint {
                content_type: Some(b""),
                ..base(&ada)
            },
            Fingerprint {
                content_type: Some(b"application/json; charset=utf-8"),
                ..base(&ada)
            },
            Fingerprint {
                body: b"",
                ..base(&ada)
            },
            Fingerprint {
                body: br#"{"amount":5} "#,
                ..base(&ada)
            },
            Fingerprint {
                namespace: "shop2",
                ..base(&ada)
            },
            Fingerprint {
                scope: "acme2",
                ..base(&ada)
            },
            Fingerprint {
                namespace: "acme",
                scope: "shop",
                ..base(&ada)
            },
            Fingerprint {
                path: "/payment",
                query: Some("sdry=1"),
                ..base(&ada)
            },
            base(&shifted),
            base(&eve),
        ] {
            assert!(seen.insert(request.hex()), "{} {}", request.method, request.path);
        }
    }
}
