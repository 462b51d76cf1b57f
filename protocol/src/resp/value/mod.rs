//! Bytes to replies: the owned tree and the push decoder that clients and tests use.

mod decoder;

pub use decoder::{ReplyDecoder, ReplyLimits};

/// One reply of either version of RESP.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `+…`
    Simple(String),
    /// `-…` or `!…`: the whole text, code first.
    Error(String),
    /// `:…`
    Int(i64),
    /// `$…`
    Bulk(Vec<u8>),
    /// `$-1`, `*-1` or `_`.
    Null,
    /// `*…`
    Array(Vec<Value>),
    /// `%…`, in the order of the wire.
    Map(Vec<(Value, Value)>),
    /// `~…`, in the order of the wire.
    Set(Vec<Value>),
    /// `>…`
    Push(Vec<Value>),
    /// `,…`
    Double(f64),
    /// `#…`
    Bool(bool),
    /// `(…`: the digits as they came.
    BigNumber(String),
    /// `=…`
    Verbatim {
        /// Three bytes, such as `txt`.
        format: String,
        /// The text behind the colon.
        text: String,
    },
}

impl Value {
    /// The bytes of any kind of string, an error's text excepted.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Bulk(bytes) => Some(bytes),
            Value::Simple(text) | Value::Verbatim { text, .. } => Some(text.as_bytes()),
            _ => None,
        }
    }

    /// An integer's value.
    pub fn as_int(&self) -> Option<i64> {
        if let Value::Int(value) = self {
            Some(*value)
        } else {
            None
        }
    }

    /// An error's whole text.
    pub fn as_error(&self) -> Option<&str> {
        if let Value::Error(text) = self {
            Some(text)
        } else {
            None
        }
    }

    /// The elements of an array, set or push message.
    pub fn as_items(&self) -> Option<&[Value]> {
        match self {
            Value::Array(items) | Value::Set(items) | Value::Push(items) => Some(items),
            _ => None,
        }
    }

    /// The value under `key` in a map, or in the flat array that RESP2 has instead.
    pub fn entry(&self, key: &[u8]) -> Option<&Value> {
        match self {
            Value::Map(pairs) => pairs
                .iter()
                .find(|(name, _)| name.as_bytes() == Some(key))
                .map(|(_, v)| v),
            Value::Array(items) => items.chunks_exact(2).find_map(|pair| {
                if pair[0].as_bytes() == Some(key) {
                    Some(&pair[1])
                } else {
                    None
                }
            }),
            _ => None,
        }
    }
}
