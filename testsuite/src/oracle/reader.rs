//! A client that only reads what writers write. What it is told binds, although it never wrote anything.

use idem_protocol::idem::IdemRecord;
use idem_protocol::resp::value::Value;

use super::Oracle;
use super::writer::{some_key, token_seq};
use crate::process::{Client, ClientError};
use crate::rng::Rng;

/// A reader of all writers' keys.
#[derive(Debug)]
pub struct Reader {
    rng: Rng,
    writers: usize,
    /// Replies that told an operation.
    pub told: u64,
}

impl Reader {
    /// For a run with so many writers.
    pub fn new(writers: usize, rng: Rng) -> Reader {
        Reader {
            rng,
            writers,
            told: 0,
        }
    }

    /// Reads until the connection breaks. The error is a violation.
    pub fn work(&mut self, client: &mut Client, oracle: &Oracle) -> Result<(), String> {
        loop {
            let key = some_key(self.writers, &mut self.rng);
            match client.call(&[b"GET", key.as_bytes()]) {
                Ok(Value::Null) => {}
                Ok(Value::Bulk(bytes)) => {
                    let (writer, seq) =
                        told_by(&bytes).ok_or_else(|| format!("{key} holds what nobody wrote"))?;
                    oracle.tell(writer, seq);
                    self.told += 1;
                }
                Ok(other) => return Err(format!("GET {key} answered {other:?}")),
                Err(ClientError::Closed | ClientError::Io(_)) => return Ok(()),
                Err(error) => return Err(format!("reader: {error}")),
            }
        }
    }
}

/// The newest operation that a stored value reveals: of a record, its completion, or else its beginning.
fn told_by(bytes: &[u8]) -> Option<(usize, u64)> {
    match IdemRecord::decode_stored(bytes) {
        Ok(record) => token_seq(record.result).or_else(|| token_seq(record.owner)),
        Err(_) => token_seq(bytes),
    }
}
