//! Answers of the layer's own, as problem documents (RFC 9457).
//!
//! Three have a type, because a client decides by it what to do: mend the key, choose another key, or come back later.
//! The rest say with their status all that there is to decide (`about:blank`). No document repeats anything of the request.

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;

use crate::body::{RequestError, ResponseError};
use crate::key::KeyError;
use crate::policy::Settings;
use crate::stored_response::EnvelopeError;

/// The methods that the layer takes, as `Allow` lists them.
const METHODS: &str = "POST, PUT, PATCH, DELETE";

/// Everything that the layer answers without a handler's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The layer is inside of itself.
    Twice,
    Method,
    Unauthenticated,
    /// The configured extractor gave something that cannot be used, by its name.
    Unusable(&'static str),
    Key(KeyError),
    /// A field of the request is too long, by its name.
    FieldTooLong(&'static str),
    RepeatedContentType,
    Body(RequestError),
    Crowded,
    /// BEGIN had no usable answer, or could not be sent.
    StoreUnavailable,
    Pending,
    Reused,
    Stored(EnvelopeError),
    /// The handler ran; its answer cannot be kept.
    Answer(ResponseError),
    Timeout,
    Panicked,
    /// The runtime is going away.
    Interrupted,
    /// COMPLETE had no usable answer.
    CompletionUnclear,
    /// COMPLETE was answered with 0.
    CompletionRefused,
}

impl Problem {
    pub(crate) fn response(self, settings: &Settings) -> Response<Full<Bytes>> {
        let status = self.status(settings);
        let type_uri = match self.type_suffix() {
            Some(suffix) => format!("{}{suffix}", settings.problem_base),
            None => "about:blank".to_owned(),
        };
        // None of the parts has a character that JSON would escape: the base was checked, the rest stands below.
        let title = self.title(status);
        let body = format!(
            "{{\"type\":\"{type_uri}\",\"title\":\"{title}\",\"status\":{},\"detail\":\"{}\"}}",
            status.as_u16(),
            self.detail()
        );
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        match self {
            Problem::Method => {
                headers.insert(ALLOW, HeaderValue::from_static(METHODS));
            }
            Problem::Unauthenticated => {
                if let Some(challenge) = &settings.challenge {
                    headers.insert(WWW_AUTHENTICATE, challenge.clone());
                }
            }
            Problem::Pending | Problem::Crowded | Problem::StoreUnavailable | Problem::CompletionUnclear => {
                headers.insert(RETRY_AFTER, HeaderValue::from(settings.retry_after_seconds));
            }
            _ => {}
        }
        response
    }

    fn status(self, settings: &Settings) -> StatusCode {
        match self {
            Problem::Method => StatusCode::METHOD_NOT_ALLOWED,
            Problem::Unauthenticated => StatusCode::UNAUTHORIZED,
            Problem::Key(_) | Problem::FieldTooLong(_) | Problem::RepeatedContentType => {
                StatusCode::BAD_REQUEST
            }
            Problem::Body(RequestError::TooLarge) => StatusCode::PAYLOAD_TOO_LARGE,
            Problem::Body(RequestError::Length | RequestError::Broken) => StatusCode::BAD_REQUEST,
            Problem::Crowded
            | Problem::StoreUnavailable
            | Problem::CompletionUnclear
            | Problem::Interrupted => StatusCode::SERVICE_UNAVAILABLE,
            Problem::Pending => StatusCode::CONFLICT,
            Problem::Reused => settings.profile.reused(),
            Problem::Twice
            | Problem::Unusable(_)
            | Problem::Stored(_)
            | Problem::Answer(_)
            | Problem::Timeout
            | Problem::Panicked
            | Problem::CompletionRefused => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn type_suffix(self) -> Option<&'static str> {
        match self {
            Problem::Key(_) => Some("missing-or-invalid"),
            Problem::Reused => Some("reused"),
            Problem::Pending => Some("in-progress"),
            _ => None,
        }
    }

    /// Of a type of our own what it is; of `about:blank` the status's words, as RFC 9457 asks.
    fn title(self, status: StatusCode) -> &'static str {
        match self {
            Problem::Key(_) => "Idempotency-Key is missing or invalid",
            Problem::Reused => "Idempotency-Key was used for another request",
            Problem::Pending => "A request with this Idempotency-Key is in progress",
            _ => status.canonical_reason().unwrap_or("Error"),
        }
    }

    fn detail(self) -> &'static str {
        match self {
            Problem::Method => "This resource takes POST, PUT, PATCH and DELETE.",
            Problem::Twice => {
                "This resource is behind two idempotency layers, one inside of the other. This is a mistake in the service."
            }
            Problem::Unauthenticated => "The request has no authenticated subject.",
            Problem::Unusable("scope") => {
                "The scope of this request is empty or too long. This is a mistake in the service."
            }
            Problem::Unusable(_) => {
                "The subject of this request is too long. This is a mistake in the service."
            }
            Problem::Key(KeyError::Missing) => "Send one Idempotency-Key header.",
            Problem::Key(KeyError::Repeated) => "There is more than one Idempotency-Key header.",
            Problem::Key(KeyError::Empty) => "The Idempotency-Key is empty.",
            Problem::Key(KeyError::Invalid) => {
                "An Idempotency-Key is 1 to 128 printable ASCII characters without blanks, bare or in quotes."
            }
            Problem::FieldTooLong("path") => "The path is longer than 8192 bytes.",
            Problem::FieldTooLong("query") => "The query is longer than 8192 bytes.",
            Problem::FieldTooLong(_) => "The Content-Type is longer than 8192 bytes.",
            Problem::RepeatedContentType => "There is more than one Content-Type header.",
            Problem::Body(RequestError::TooLarge) => "The request body is over the limit. Nothing was begun.",
            Problem::Body(RequestError::Length) => {
                "The request body is not as long as announced. Nothing was begun."
            }
            Problem::Body(RequestError::Broken) => "The request body ended early. Nothing was begun.",
            Problem::Crowded => "Too many requests are under way. Nothing was begun.",
            Problem::StoreUnavailable => "The idempotency store cannot be used now. The handler did not run.",
            Problem::Pending => {
                "It is still running, or it failed and its key is kept. Come back with the same key and request."
            }
            Problem::Reused => {
                "Method, address, content type or body differ from the first request with this key."
            }
            Problem::Stored(EnvelopeError::Version(_)) => {
                "The stored answer was written by another version. The handler did not run."
            }
            Problem::Stored(EnvelopeError::Malformed) => {
                "The stored answer cannot be read. The handler did not run."
            }
            Problem::Answer(ResponseError::Informational) => {
                "The handler ran and switched protocols or sent an interim status, which cannot be replayed."
            }
            Problem::Answer(ResponseError::EventStream) => {
                "The handler ran and answered with text/event-stream, which cannot be replayed."
            }
            Problem::Answer(ResponseError::Encoded) => {
                "The handler ran and answered with a Content-Encoding or Content-Range, which is not stored."
            }
            Problem::Answer(ResponseError::Trailers) => {
                "The handler ran and answered with trailers, which cannot be replayed."
            }
            Problem::Answer(ResponseError::TooLarge) => {
                "The handler ran and its response body is over the limit."
            }
            Problem::Answer(ResponseError::Headers) => {
                "The handler ran and the headers of its response that are stored are over 8192 bytes."
            }
            Problem::Answer(ResponseError::HeaderValues) => {
                "The handler ran and its response has more than 255 values of headers that are stored."
            }
            Problem::Answer(ResponseError::Broken) => {
                "The handler ran and its response body ended in an error."
            }
            Problem::Timeout => "The handler did not answer within the response timeout.",
            Problem::Panicked => "The handler panicked.",
            Problem::Interrupted => "The service is shutting down.",
            Problem::CompletionUnclear => {
                "The handler ran, and it is unclear whether its answer was stored. The same key tells later."
            }
            Problem::CompletionRefused => {
                "The handler ran, and its answer could not be stored: its record is gone."
            }
        }
    }
}
