//! What exactly is asked for.

/// What no fingerprint sends.
const NONE: &[u8] = b"-";

/// The fingerprint of a call: 1 to 128 bytes that are compared and never interpreted, or none.
///
/// Made from a reference to anything that is bytes (`&str`, `&[u8; 32]`, `&String`, the digest of a hash), or `None`.
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

impl<'a, T: AsRef<[u8]> + ?Sized> From<&'a T> for Fingerprint<'a> {
    fn from(bytes: &'a T) -> Self {
        Fingerprint(bytes.as_ref())
    }
}

impl<'a> From<Option<&'a [u8]>> for Fingerprint<'a> {
    fn from(bytes: Option<&'a [u8]>) -> Self {
        Fingerprint(bytes.unwrap_or(NONE))
    }
}
