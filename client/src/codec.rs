//! How values become the bytes of a result.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

/// Why a value could not be turned into bytes, or bytes into a value.
pub type CodecError = Box<dyn std::error::Error + Send + Sync>;

/// Values to bytes and back. What one version of an application stores, the next one has to read for as long as the
/// retention is: a format that bears new fields is worth more here than a short one. What an error says may end in a log:
/// it should not hold the value.
pub trait Codec: Clone + Send + Sync + 'static {
    /// The bytes of a value, at most 4 MiB. They are decoded once before they are stored.
    ///
    /// # Errors
    /// The value has no bytes in this format.
    fn encode<T: Serialize>(&self, value: &T) -> Result<Vec<u8>, CodecError>;

    /// The value of bytes.
    ///
    /// # Errors
    /// The bytes are no value of this type.
    fn decode<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, CodecError>;
}

/// JSON, as `serde_json` writes it. Numbers come back as they were, except what JSON has no words for: NaN and infinities
/// become `null`, and so `None` where a field is optional; `Some(())` becomes `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Json;

/// Why bytes are no value, without the bytes: `serde_json` would quote what it found, which is a stored value.
#[derive(Debug, thiserror::Error)]
#[error("the JSON does not fit the type, at line {line}, column {column} ({problem})")]
struct Unfit {
    problem: &'static str,
    line: usize,
    column: usize,
}

impl Codec for Json {
    fn encode<T: Serialize>(&self, value: &T) -> Result<Vec<u8>, CodecError> {
        Ok(serde_json::to_vec(value)?)
    }

    fn decode<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, CodecError> {
        serde_json::from_slice(bytes).map_err(|error| {
            let unfit = Unfit {
                problem: match error.classify() {
                    Category::Data => "other data",
                    Category::Eof => "it ends early",
                    Category::Syntax | Category::Io => "no JSON",
                },
                line: error.line(),
                column: error.column(),
            };
            unfit.into()
        })
    }
}
