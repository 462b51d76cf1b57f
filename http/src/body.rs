//! Bodies, read into memory up to a limit.
//!
//! Nothing is kept in files, and nothing is passed on in pieces: a request is hashed before it is begun, and an answer is
//! stored before it is sent.
//!
//! Every frame costs a unit of the task's budget ([`consume_budget`]). A body whose frames are always there (empty ones
//! cost its sender nothing) would otherwise never let a timer be asked: no time-out, ours or an outer one, would hold.

use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, EXPECT};
use http::{HeaderMap, HeaderValue, Response, StatusCode, response};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::task::coop::consume_budget;

/// Where a body of unknown length begins to grow.
const FIRST_BYTES: usize = 4096;

/// How much of a refused request is read and thrown away. A client that is still writing does not read: without this it
/// would see a reset connection instead of the 413. Bounded, since whoever sends too much may send without end.
const DRAIN_BYTES_MAX: u64 = 16 * 1024 * 1024;
const DRAIN_TIME_MAX: Duration = Duration::from_secs(2);

/// Why a request's body cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestError {
    TooLarge,
    Length,
    Broken,
}

/// Why a handler's answer cannot be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseError {
    Informational,
    EventStream,
    Encoded,
    Trailers,
    TooLarge,
    /// The values that are stored are too long together.
    Headers,
    /// There are too many of them.
    HeaderValues,
    Broken,
}

/// Reads a request's body of at most `limit` bytes.
///
/// A length that is known, from the transport or from `Content-Length`, is allocated exactly, and the body has to have it.
/// Request trailers are dropped: they are no part of the fingerprint, so no handler may act on them.
pub(crate) async fn read_request<B: Body>(
    headers: &HeaderMap,
    body: B,
    limit: usize,
) -> Result<Bytes, RequestError> {
    let known = known_length(headers, &body)?;
    let mut body = pin!(body);
    let capacity = match known {
        Some(length) => match usize::try_from(length) {
            Ok(length) if length <= limit => length,
            _ => {
                // Not worth beginning when its end is out of reach. Who asked whether to send at all is told by the
                // answer; asking for the body would be the transport's "100 Continue".
                if length <= DRAIN_BYTES_MAX && !asks_before_sending(headers) {
                    drain(body).await;
                }
                return Err(RequestError::TooLarge);
            }
        },
        None => FIRST_BYTES.min(limit),
    };
    let mut bytes = Vec::with_capacity(capacity);
    while let Some(frame) = body.frame().await {
        consume_budget().await;
        let Ok(frame) = frame else {
            return Err(RequestError::Broken);
        };
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if data.remaining() > limit - bytes.len() {
            drop(data);
            drain(body).await;
            return Err(RequestError::TooLarge);
        }
        append(&mut bytes, data);
    }
    let length = u64::try_from(bytes.len()).expect("a length in memory fits 64 bits");
    match known {
        Some(known) if known != length => return Err(RequestError::Length),
        Some(_) => {}
        // hyper ends the body of an HTTP/2 stream that was reset with NO_ERROR as if it were whole, and it looks for a
        // reset only while the service is pending. So be pending once: a request of which only half came is dropped
        // here, before anything is begun. Where the length was known, half of it is noticed above.
        None => tokio::task::yield_now().await,
    }
    Ok(Bytes::from(bytes))
}

/// Whether the client waits for a word before it sends its body (`Expect: 100-continue`).
fn asks_before_sending(headers: &HeaderMap) -> bool {
    headers.get_all(EXPECT).iter().any(|value| {
        value
            .as_bytes()
            .trim_ascii()
            .eq_ignore_ascii_case(b"100-continue")
    })
}

/// What the transport and the headers say, which must not be two things. Of two lengths it would be a guess which one
/// somebody in front of this service has followed. Digits only: `+5` is a number for Rust and none for HTTP.
fn known_length<B: Body>(headers: &HeaderMap, body: &B) -> Result<Option<u64>, RequestError> {
    let exact = body.size_hint().exact();
    let mut known = exact;
    for header in headers.get_all(CONTENT_LENGTH) {
        let length = header
            .to_str()
            .ok()
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|text| text.parse::<u64>().ok())
            .ok_or(RequestError::Length)?;
        if known.is_some_and(|known| known != length) {
            return Err(RequestError::Length);
        }
        known = Some(length);
    }
    Ok(known)
}

async fn drain<B: Body>(mut body: Pin<&mut B>) {
    let read = async {
        let mut left = DRAIN_BYTES_MAX;
        while let Some(Ok(frame)) = body.frame().await {
            consume_budget().await;
            let bytes = frame.data_ref().map_or(0, |data| data.remaining());
            left = left.saturating_sub(u64::try_from(bytes).unwrap_or(u64::MAX));
            if left == 0 {
                return;
            }
        }
    };
    // Either the client has sent everything and reads the answer now, or it has had its chance.
    let _ = tokio::time::timeout(DRAIN_TIME_MAX, read).await;
}

fn append(bytes: &mut Vec<u8>, mut data: impl Buf) {
    bytes.reserve(data.remaining());
    while data.has_remaining() {
        let chunk = data.chunk();
        bytes.extend_from_slice(chunk);
        let read = chunk.len();
        data.advance(read);
    }
}

/// Reads a handler's answer of at most `limit` bytes, when it is one that can be sent again later.
pub(crate) async fn capture<B: Body>(
    answer: Response<B>,
    limit: usize,
) -> Result<(response::Parts, Bytes), ResponseError> {
    let (parts, body) = answer.into_parts();
    if parts.status.is_informational() {
        return Err(ResponseError::Informational);
    }
    if parts.headers.get_all(CONTENT_TYPE).iter().any(is_event_stream) {
        return Err(ResponseError::EventStream);
    }
    if is_encoded(&parts.headers) {
        return Err(ResponseError::Encoded);
    }
    if has_no_body(parts.status) {
        return Ok((parts, Bytes::new()));
    }
    let hint = body.size_hint();
    let limit_bytes = u64::try_from(limit).unwrap_or(u64::MAX);
    if hint.lower() > limit_bytes {
        return Err(ResponseError::TooLarge);
    }
    let capacity = hint.exact().and_then(|length| usize::try_from(length).ok());
    let mut bytes = Vec::with_capacity(capacity.unwrap_or_else(|| FIRST_BYTES.min(limit)));
    let mut body = pin!(body);
    while let Some(frame) = body.frame().await {
        consume_budget().await;
        let Ok(frame) = frame else {
            return Err(ResponseError::Broken);
        };
        let Ok(data) = frame.into_data() else {
            return Err(ResponseError::Trailers);
        };
        if data.remaining() > limit - bytes.len() {
            return Err(ResponseError::TooLarge);
        }
        append(&mut bytes, data);
    }
    Ok((parts, Bytes::from(bytes)))
}

/// Statuses that come without a body, whatever a handler put there.
pub(crate) fn has_no_body(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED
    )
}

fn is_event_stream(value: &HeaderValue) -> bool {
    let name = value
        .as_bytes()
        .split(|byte| *byte == b';')
        .next()
        .unwrap_or_default();
    name.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
}

/// Whether the bytes mean something only together with a header that is not stored. A compression layer inside does not
/// get that far: the handler's request says nothing about encodings.
fn is_encoded(headers: &HeaderMap) -> bool {
    headers.contains_key(CONTENT_RANGE)
        || headers
            .get_all(CONTENT_ENCODING)
            .iter()
            .any(|value| !value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity"))
}
