//! The `Idempotency-Key` of a request, and the key under which the store knows it.
//!
//! A storage key is a hash: nothing readable of the caller, the tenant or the key is in it. That hides them from whoever
//! sees key names; it is not encryption, and a guessable key of a known caller can be found by trying.

use http::HeaderMap;

use crate::fingerprint::FieldHash;
use crate::policy::Principal;

/// The request header.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// What every key of this layer in a store begins with; reserve it for the layer. The braces are a hash tag: a cluster
/// places a key by the 64 digits in them.
pub const STORAGE_PREFIX: &str = "idem:http:v1:";

const KEY_BYTES_MAX: usize = 128;

/// Why there is no usable key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyError {
    Missing,
    Repeated,
    Empty,
    Invalid,
}

/// Reads the one key of a request: 1 to 128 printable ASCII characters without blanks, bare or as a quoted string of
/// structured fields (RFC 9651), which is the same key.
pub(crate) fn parse(headers: &HeaderMap) -> Result<String, KeyError> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let value = values.next().ok_or(KeyError::Missing)?;
    if values.next().is_some() {
        return Err(KeyError::Repeated);
    }
    let bytes = value.as_bytes();
    let key = match bytes.strip_prefix(b"\"") {
        Some(rest) => unquote(rest)?,
        None => bytes.to_vec(),
    };
    if key.is_empty() {
        return Err(KeyError::Empty);
    }
    if key.len() > KEY_BYTES_MAX || !key.iter().all(u8::is_ascii_graphic) {
        return Err(KeyError::Invalid);
    }
    String::from_utf8(key).map_err(|_| KeyError::Invalid)
}

/// What stands before the closing quote, which has to be the last byte. Only `\"` and `\\` are escapes.
fn unquote(rest: &[u8]) -> Result<Vec<u8>, KeyError> {
    let mut key = Vec::with_capacity(rest.len().min(KEY_BYTES_MAX));
    let mut bytes = rest.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'"' if bytes.as_slice().is_empty() => return Ok(key),
            b'"' => return Err(KeyError::Invalid),
            b'\\' => match bytes.next() {
                Some(&escaped @ (b'"' | b'\\')) => key.push(escaped),
                _ => return Err(KeyError::Invalid),
            },
            other => key.push(other),
        }
    }
    Err(KeyError::Invalid)
}

/// The key in the store of one request: `idem:http:v1:{<64 hexadecimal digits>}`. For support, which has a caller's key in
/// hand and wants to ask the server about it (`IDEM key INSPECT`). `key` is what the client sent, without the quotes of a
/// quoted one.
pub fn storage_key(namespace: &str, principal: &Principal, scope: &str, key: &str) -> String {
    let digest = FieldHash::new()
        .field(namespace.as_bytes())
        .principal(principal)
        .field(scope.as_bytes())
        .field(key.as_bytes())
        .hex();
    format!("{STORAGE_PREFIX}{{{digest}}}")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn check(values: &[&[u8]], expected: Result<&str, KeyError>) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IDEMPOTENCY_KEY, HeaderValue::from_bytes(value).unwrap());
        }
        let parsed = parse(&headers);
        assert_eq!(parsed.as_deref().map_err(|error| *error), expected, "{values:?}");
    }

    #[test]
    fn keys_that_count() {
        let longest = "k".repeat(128);
        let quoted_longest = format!("\"{longest}\"");
        for (value, expected) in [
            ("a", "a"),
            (
                "8e03978e-40d5-43e8-bc93-6894a57f9324",
                "8e03978e-40d5-43e8-bc93-6894a57f9324",
            ),
            ("\"8e03\"", "8e03"),
            (r#""a\"b\\c""#, r#"a"b\c"#),
            // A quote that does not come first is a character like any other.
            ("a\"b", "a\"b"),
            ("a\\b", "a\\b"),
            ("!~", "!~"),
            ("a,b;c=d", "a,b;c=d"),
            (longest.as_str(), longest.as_str()),
            (quoted_longest.as_str(), longest.as_str()),
        ] {
            check(&[value.as_bytes()], Ok(expected));
        }
    }

    #[test]
    fn keys_that_do_not() {
        let long = "k".repeat(129);
        let very_long = "k".repeat(10_000);
        check(&[], Err(KeyError::Missing));
        check(&[b"a", b"a"], Err(KeyError::Repeated));
        check(&[b"a", b"b"], Err(KeyError::Repeated));
        check(&[b"", b"a"], Err(KeyError::Repeated));
        check(&[b""], Err(KeyError::Empty));
        check(&[b"\"\""], Err(KeyError::Empty));
        for value in [
            long.as_bytes(),
            very_long.as_bytes(),
            format!("\"{long}\"").as_bytes(),
            b"a b",
            b" ",
            b"a, b",
            b"\"a b\"",
            b"a\tb",
            b"\"",
            b"\"a",
            b"\"a\"b",
            b"\"a\";q=1",
            b"\"a\" ",
            br#""a\""#,
            br#""a\b""#,
            b"\xc3\xa9",
            b"\"\xff\"",
        ] {
            check(&[value], Err(KeyError::Invalid));
        }
    }

    /// From `testdata/vectors.py`, which builds the bytes by itself.
    #[test]
    fn golden_storage_keys() {
        let ada = Principal::new("Bearer", "https://issuer.example", "ada");
        let nobody = Principal::new("", "", "x");
        for (key, expected) in [
            (
                storage_key("shop", &ada, "acme", "8e03978e"),
                include_str!("../testdata/storage-key-full.txt"),
            ),
            (
                storage_key("n", &nobody, "\u{e9}", "\"\\"),
                include_str!("../testdata/storage-key-bytes.txt"),
            ),
        ] {
            assert_eq!(key, expected.trim_end());
        }
    }

    /// The parts are kept apart by their lengths, not by a character that one of them could hold.
    #[test]
    fn parts_that_change_places_are_other_keys() {
        let principal = |subject: &str| Principal::new("Bearer", "i", subject);
        let keys = [
            storage_key("a:b", &principal("s"), "c", "k"),
            storage_key("a", &principal("s"), "b:c", "k"),
            storage_key("a", &principal("b:s"), "c", "k"),
            storage_key("c", &principal("s"), "a:b", "k"),
            storage_key("a:b", &principal("c"), "s", "k"),
            storage_key("a:b", &principal("s"), "ck", ""),
            storage_key("a:b", &Principal::new("i", "Bearer", "s"), "c", "k"),
        ];
        let distinct: std::collections::HashSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
    }
}
