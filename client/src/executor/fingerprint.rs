//! What exactly is asked for.

/// What no fingerprint sends.
const NONE: &[u8] = b"-";

/// The fingerprint of a call: 1 to 128 bytes that are compared and never interpreted, or none.
///
/// Made from `&str`, `&[u8]`, `&[u8; N]`, `&String`, `&Vec<u8>`, or `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint<'a>(&'a [u8]);

impl Fingerprint<'static> {
    /// The key alone identifies the work. Sends the one byte `-`.
    pub const NONE: Fingerprint<'static> = Fingerprint(NONE);
}

impl<'a> Fingerprint<'a> {
    /// The bytes that are sent.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }
}

impl<'a> From<&'a [u8]> for Fingerprint<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Fingerprint(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Fingerprint<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Fingerprint(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for Fingerprint<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Fingerprint(bytes)
    }
}

impl<'a> From<&'a str> for Fingerprint<'a> {
    fn from(text: &'a str) -> Self {
        Fingerprint(text.as_bytes())
    }
}

impl<'a> From<&'a String> for Fingerprint<'a> {
    fn from(text: &'a String) -> Self {
        Fingerprint(text.as_bytes())
    }
}

impl<'a> From<Option<&'a [u8]>> for Fingerprint<'a> {
    fn from(bytes: Option<&'a [u8]>) -> Self {
        Fingerprint(bytes.unwrap_or(NONE))
    }
}
