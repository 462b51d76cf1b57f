//! HTTP requests that run once.
#![forbid(unsafe_code)]
