//! Tokens that name attempts.

use crate::error::{Error, ErrorKind};

/// Random bytes in a token: 128 bits.
const RANDOM_BYTES: usize = 16;

/// The owner of one attempt: 128 random bits of the operating system, as 32 hexadecimal digits.
///
/// **An owner names the attempt and never the worker.** Two attempts with one token cannot be told apart: the first one's
/// late COMPLETE or ABORT would hit the second one's record. So a token is made for each BEGIN, and never kept for another.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OwnerToken([u8; 2 * RANDOM_BYTES]);

impl OwnerToken {
    /// A new one.
    ///
    /// # Errors
    /// The operating system gave no random bytes.
    pub fn random() -> Result<OwnerToken, Error> {
        let mut random = [0; RANDOM_BYTES];
        getrandom::fill(&mut random).map_err(|error| {
            Error::new(
                ErrorKind::Randomness,
                format!("no random bytes for an owner's token: {error}"),
                false,
            )
        })?;
        let digit = |nibble: u8| match nibble {
            0..=9 => b'0' + nibble,
            _ => b'a' + nibble - 10,
        };
        let mut token = [0; 2 * RANDOM_BYTES];
        for (pair, byte) in token.chunks_exact_mut(2).zip(random) {
            pair[0] = digit(byte >> 4);
            pair[1] = digit(byte & 15);
        }
        Ok(OwnerToken(token))
    }

    /// Its 32 bytes, all of them ASCII.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for OwnerToken {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Not the token: whoever has it can complete the record.
impl std::fmt::Debug for OwnerToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OwnerToken(…)")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::OwnerToken;

    #[test]
    fn tokens_are_hexadecimal_and_differ() {
        let tokens: HashSet<OwnerToken> = (0..1000).map(|_| OwnerToken::random().unwrap()).collect();
        assert_eq!(tokens.len(), 1000);
        for token in tokens {
            assert_eq!(token.as_bytes().len(), 32);
            assert!(
                token
                    .as_bytes()
                    .iter()
                    .all(|digit| b"0123456789abcdef".contains(digit))
            );
            assert_eq!(format!("{token:?}"), "OwnerToken(…)");
        }
    }
}
