//! A handler's answer as bytes in the store.
//!
//! ```text
//! version  u8            1
//! status   u16
//! headers  u8            how many
//!   each:  u8            1 Content-Type, 2 Content-Language, 3 ETag, 4 Last-Modified; in this order
//!          u16           length of the value
//!          bytes         the value
//! body     u32           its length
//!          bytes         and nothing behind it
//! ```
//! Numbers are big-endian. Golden bytes pin this: records of one release are read by the next. Another layout gets another
//! version, and a version that is not known is an error and never a reason to run the handler again.
//!
//! Deliberately absent: every other header. `Set-Cookie` and challenges would log in whoever repeats a request, caching and
//! security headers belong to the time at which they are sent, and `Location` is not on the contract's list. Layers outside
//! add theirs to a replay as to any answer.

use bytes::{Buf, Bytes};
use http::header::{
    self, CONNECTION, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_TYPE, ETAG, LAST_MODIFIED, TRAILER,
    TRANSFER_ENCODING,
};
use http::{HeaderName, HeaderValue, Response, StatusCode, response};
use http_body_util::Full;

use crate::body::{ResponseError, has_no_body};
use crate::policy::{BODY_BYTES_MAX, FIELD_BYTES_MAX};

const VERSION: u8 = 1;

/// The headers that are kept, by their number minus one.
const KEPT: [HeaderName; 4] = [CONTENT_TYPE, CONTENT_LANGUAGE, ETAG, LAST_MODIFIED];

/// Headers that mean something already, besides those that are kept. A marker of such a name would say `true` where a
/// client reads a length, a cookie or a date, and would be taken off the first answer.
const TAKEN: [HeaderName; 40] = [
    header::ACCEPT_RANGES,
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
    header::ACCESS_CONTROL_EXPOSE_HEADERS,
    header::AGE,
    header::ALLOW,
    header::CACHE_CONTROL,
    header::CONNECTION,
    header::CONTENT_DISPOSITION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_LOCATION,
    header::CONTENT_RANGE,
    header::CONTENT_SECURITY_POLICY,
    header::DATE,
    header::EXPIRES,
    header::LINK,
    header::LOCATION,
    header::PRAGMA,
    header::PROXY_AUTHENTICATE,
    header::REFERRER_POLICY,
    header::REFRESH,
    header::RETRY_AFTER,
    header::SERVER,
    header::SET_COOKIE,
    header::STRICT_TRANSPORT_SECURITY,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::VARY,
    header::VIA,
    header::WARNING,
    header::WWW_AUTHENTICATE,
    header::X_CONTENT_TYPE_OPTIONS,
    header::X_FRAME_OPTIONS,
    header::X_XSS_PROTECTION,
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Whether a replay can be marked with this header.
pub(crate) fn can_mark(name: &HeaderName) -> bool {
    !KEPT.contains(name) && !TAKEN.contains(name)
}

/// Why stored bytes are no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EnvelopeError {
    /// Another program wrote it, which may be a newer one of ours.
    Version(u8),
    Malformed,
}

/// What of an answer outlives its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredResponse {
    status: StatusCode,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
}

impl StoredResponse {
    /// Takes from an answer what is kept of it. The headers may be 255 values of 8192 bytes together.
    pub(crate) fn of(parts: &response::Parts, body: Bytes) -> Result<StoredResponse, ResponseError> {
        let mut headers = Vec::new();
        let mut bytes = 0;
        for name in KEPT {
            for value in parts.headers.get_all(&name) {
                bytes += value.len();
                headers.push((name.clone(), value.clone()));
            }
        }
        if headers.len() > usize::from(u8::MAX) {
            return Err(ResponseError::HeaderValues);
        }
        if bytes > FIELD_BYTES_MAX {
            return Err(ResponseError::Headers);
        }
        Ok(StoredResponse {
            status: parts.status,
            headers,
            body,
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let values: usize = self.headers.iter().map(|(_, value)| 3 + value.len()).sum();
        let mut bytes = Vec::with_capacity(8 + values + self.body.len());
        bytes.push(VERSION);
        bytes.extend(self.status.as_u16().to_be_bytes());
        bytes.push(u8::try_from(self.headers.len()).expect("`of` and `decode` let at most 255 through"));
        for (name, value) in &self.headers {
            let number = (1..).zip(&KEPT).find(|(_, kept)| *kept == name);
            bytes.push(number.expect("only kept headers are in it").0);
            let length = u16::try_from(value.len()).expect("a value has at most 8192 bytes");
            bytes.extend(length.to_be_bytes());
            bytes.extend(value.as_bytes());
        }
        let length = u32::try_from(self.body.len()).expect("a body has at most 1 MiB");
        bytes.extend(length.to_be_bytes());
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// The bytes to store, and the body as a piece of them: while COMPLETE is under way there is one copy of it here.
    pub(crate) fn into_envelope(self) -> (Bytes, Bytes) {
        let envelope = Bytes::from(self.encode());
        let body = envelope.slice(envelope.len() - self.body.len()..);
        (envelope, body)
    }

    /// Reads what [`encode`](Self::encode) writes and nothing else. The body is not copied.
    pub(crate) fn decode(stored: Vec<u8>) -> Result<StoredResponse, EnvelopeError> {
        let mut bytes = Bytes::from(stored);
        let version = bytes.try_get_u8().map_err(malformed)?;
        if version != VERSION {
            return Err(EnvelopeError::Version(version));
        }
        let status = bytes.try_get_u16().map_err(malformed)?;
        let status = StatusCode::from_u16(status).map_err(malformed)?;
        if status.is_informational() {
            return Err(EnvelopeError::Malformed);
        }
        let count = bytes.try_get_u8().map_err(malformed)?;
        let mut headers = Vec::new();
        let (mut last, mut together) = (1, 0);
        for _ in 0..count {
            let number = bytes.try_get_u8().map_err(malformed)?;
            let name = number
                .checked_sub(1)
                .and_then(|index| KEPT.get(usize::from(index)))
                .filter(|_| number >= last)
                .ok_or(EnvelopeError::Malformed)?;
            last = number;
            let length = usize::from(bytes.try_get_u16().map_err(malformed)?);
            together += length;
            if length > bytes.len() || together > FIELD_BYTES_MAX {
                return Err(EnvelopeError::Malformed);
            }
            let value = HeaderValue::from_maybe_shared(bytes.split_to(length)).map_err(malformed)?;
            headers.push((name.clone(), value));
        }
        let length = bytes.try_get_u32().map_err(malformed)?;
        if usize::try_from(length) != Ok(bytes.len()) || bytes.len() > BODY_BYTES_MAX {
            return Err(EnvelopeError::Malformed);
        }
        // Nobody stores that. Sent as it is, its body could be read as the beginning of the next answer.
        if has_no_body(status) && !bytes.is_empty() {
            return Err(EnvelopeError::Malformed);
        }
        Ok(StoredResponse {
            status,
            headers,
            body: bytes,
        })
    }

    /// The answer to a repeated request. `marker` is the header that says so.
    pub(crate) fn into_replay(self, marker: Option<&HeaderName>) -> Response<Full<Bytes>> {
        let (mut parts, ()) = Response::new(()).into_parts();
        parts.status = self.status;
        for (name, value) in self.headers {
            parts.headers.append(name, value);
        }
        if let Some(marker) = marker {
            parts.headers.insert(marker, HeaderValue::from_static("true"));
        }
        framed(parts, self.body)
    }
}

fn malformed<E>(_: E) -> EnvelopeError {
    EnvelopeError::Malformed
}

/// The handler's own answer, once it is stored. Only what says how it was framed is made anew: it was collected from
/// pieces that are no more.
pub(crate) fn first_answer(
    mut parts: response::Parts,
    body: Bytes,
    marker: Option<&HeaderName>,
) -> Response<Full<Bytes>> {
    let closes = parts.headers.get_all(CONNECTION).iter().any(says_close);
    for name in [CONTENT_LENGTH, TRANSFER_ENCODING, TRAILER, CONNECTION] {
        parts.headers.remove(name);
    }
    // Not framing but a wish: the handler wants this connection to end.
    if closes {
        parts
            .headers
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
    // Whoever reads the marker relies on its absence, too.
    if let Some(marker) = marker {
        parts.headers.remove(marker);
    }
    framed(parts, body)
}

fn says_close(value: &HeaderValue) -> bool {
    let mut options = value.as_bytes().split(|byte| *byte == b',');
    options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
}

fn framed(mut parts: response::Parts, body: Bytes) -> Response<Full<Bytes>> {
    if !has_no_body(parts.status) {
        parts
            .headers
            .insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    Response::from_parts(parts, Full::new(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(HeaderName, &str)], body: &[u8]) -> StoredResponse {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(name, *value);
        }
        let (parts, ()) = response.body(()).unwrap().into_parts();
        StoredResponse::of(&parts, Bytes::copy_from_slice(body)).unwrap()
    }

    fn from_hex(text: &str) -> Vec<u8> {
        let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
        let pairs = digits
            .chunks(2)
            .map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap());
        pairs.collect()
    }

    fn samples() -> Vec<(StoredResponse, &'static str)> {
        vec![
            (
                answer(
                    201,
                    &[
                        (ETAG, "\"1\""),
                        (CONTENT_TYPE, "application/json"),
                        (LAST_MODIFIED, "Wed, 21 Oct 2015 07:28:00 GMT"),
                        (http::header::SET_COOKIE, "session=secret"),
                        (http::header::LOCATION, "/payments/1"),
                        (CONTENT_LANGUAGE, "en"),
                        (CONTENT_LANGUAGE, "de"),
                        (CONTENT_LENGTH, "7"),
                    ],
                    br#"{"a":1}"#,
                ),
                include_str!("../testdata/envelope-full.hex"),
            ),
            (
                answer(204, &[], b""),
                include_str!("../testdata/envelope-empty.hex"),
            ),
            (
                answer(
                    599,
                    &[(CONTENT_TYPE, "text/csv; charset=iso-8859-1")],
                    &[0, 255, 13, 10],
                ),
                include_str!("../testdata/envelope-bytes.hex"),
            ),
        ]
    }

    /// From `testdata/vectors.py`, which builds the bytes by itself.
    #[test]
    fn golden_envelopes() {
        for (stored, golden) in samples() {
            let golden = from_hex(golden);
            assert_eq!(stored.encode(), golden);
            assert_eq!(StoredResponse::decode(golden), Ok(stored));
        }
    }

    /// Every cut, and every byte changed to every other value, is refused or is the encoding of what was read.
    #[test]
    fn no_bytes_are_read_as_something_else() {
        for (stored, _) in samples() {
            let bytes = stored.encode();
            for end in 0..bytes.len() {
                assert!(
                    StoredResponse::decode(bytes[..end].to_vec()).is_err(),
                    "cut at {end}"
                );
            }
            let mut longer = bytes.clone();
            longer.push(0);
            assert_eq!(StoredResponse::decode(longer), Err(EnvelopeError::Malformed));
            for at in 0..bytes.len() {
                for value in 0..=u8::MAX {
                    let mut changed = bytes.clone();
                    changed[at] = value;
                    match StoredResponse::decode(changed.clone()) {
                        Ok(read) => assert_eq!(read.encode(), changed),
                        Err(EnvelopeError::Version(version)) => assert_eq!((at, version), (0, value)),
                        Err(EnvelopeError::Malformed) => {}
                    }
                }
            }
        }
    }

    #[test]
    fn stored_headers_have_8192_bytes_together() {
        let of = |etag: usize, language: usize| {
            let response = Response::builder()
                .header(ETAG, "e".repeat(etag))
                .header(CONTENT_LANGUAGE, "l".repeat(language));
            let (parts, ()) = response.body(()).unwrap().into_parts();
            StoredResponse::of(&parts, Bytes::new())
        };
        let longest = of(8190, 2).unwrap();
        assert_eq!(StoredResponse::decode(longest.encode()), Ok(longest));
        assert_eq!(of(8191, 2), Err(ResponseError::Headers));
    }

    #[test]
    fn stored_headers_are_255_values() {
        let of = |values: usize| {
            let mut response = Response::builder();
            for _ in 0..values {
                response = response.header(CONTENT_LANGUAGE, "");
            }
            let (parts, ()) = response.body(()).unwrap().into_parts();
            StoredResponse::of(&parts, Bytes::new())
        };
        let most = of(255).unwrap();
        assert_eq!(StoredResponse::decode(most.encode()), Ok(most));
        assert_eq!(of(256), Err(ResponseError::HeaderValues));
    }

    #[test]
    fn statuses_without_a_body_have_none_in_the_store() {
        for status in 200..=999 {
            let read = StoredResponse::decode(answer(status, &[], b"x").encode());
            let expected = matches!(status, 204 | 205 | 304).then_some(EnvelopeError::Malformed);
            assert_eq!(read.err(), expected, "{status}");
        }
    }

    #[test]
    fn the_answer_is_a_piece_of_what_is_stored() {
        for (stored, golden) in samples() {
            let expected = stored.body.clone();
            let (envelope, body) = stored.into_envelope();
            assert_eq!((envelope.as_ref(), &body), (&from_hex(golden)[..], &expected));
            assert!(body.is_empty() || envelope.as_ptr_range().end == body.as_ptr_range().end);
        }
    }

    #[test]
    fn a_replay_has_the_length_of_its_body_and_no_other_framing() {
        let replay = answer(200, &[(CONTENT_LENGTH, "99")], b"abc").into_replay(None);
        assert_eq!(replay.headers()[CONTENT_LENGTH], "3");
        let replay = answer(304, &[(CONTENT_LENGTH, "99")], b"").into_replay(None);
        assert!(replay.headers().is_empty());
    }
}
