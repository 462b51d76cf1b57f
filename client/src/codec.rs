//! How values become the bytes of a result.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why a value could not be turned into bytes, or bytes into a value.
pub type CodecError = Box<dyn std::error::Error + Send + Sync>;

/// Values to bytes and back. What one version of an application stores, the next one has to read for as long as the
/// retention is: a format that bears new fields is worth more here than a short one.
pub trait Codec: Clone + Send + Sync + 'static {
    /// The bytes of a value, at most 4 MiB.
    fn encode<T: Serialize>(&self, value: &T) -> Result<Vec<u8>, CodecError>;

    /// The value of bytes.
    fn decode<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, CodecError>;
}

/// JSON, as `serde_json` writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Json;

impl Codec for Json {
    fn encode<T: Serialize>(&self, value: &T) -> Result<Vec<u8>, CodecError> {
        Ok(serde_json::to_vec(value)?)
    }

    fn decode<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, CodecError> {
        Ok(serde_json::from_slice(bytes)?)
    }
}
