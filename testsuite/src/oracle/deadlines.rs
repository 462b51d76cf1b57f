//! The deadlines of IDEM records: told once, the same for ever.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// How far the server's clock may be from this process's, both on one machine, and how long a reply may lie around.
const SLACK_MS: u64 = 20_000;

/// What is known about the deadline of each BEGIN, by its owner: an owner names one attempt.
#[derive(Debug, Default)]
pub struct Deadlines(Mutex<HashMap<Vec<u8>, Known>>);

#[derive(Debug)]
struct Known {
    /// `now + ttl` when the BEGIN was sent, by our clock.
    about_ms: u64,
    /// What a reply said.
    told_ms: Option<u64>,
}

impl Deadlines {
    /// A BEGIN is about to be sent.
    pub fn begin(&self, owner: &[u8], ttl_ms: u64) {
        let known = Known {
            about_ms: now_ms() + ttl_ms,
            told_ms: None,
        };
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(owner.to_vec(), known);
    }

    /// A reply told the deadline of the record that `owner` began. The error is the violation.
    pub fn told(&self, owner: &[u8], deadline_ms: i64) -> Result<(), String> {
        let name = String::from_utf8_lossy(owner);
        let found =
            u64::try_from(deadline_ms).map_err(|_| format!("{name} has the deadline {deadline_ms}"))?;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all
            .get_mut(owner)
            .ok_or_else(|| format!("nobody began as {name}"))?;
        match known.told_ms {
            Some(told) if told != found => Err(format!(
                "the deadline of {name} was told to be {told}, now it is {found}"
            )),
            Some(_) => Ok(()),
            None if found.abs_diff(known.about_ms) > SLACK_MS => Err(format!(
                "the deadline of {name} is {found}, about {} was asked for",
                known.about_ms
            )),
            None => {
                known.told_ms = Some(found);
                Ok(())
            }
        }
    }
}

/// Unix milliseconds of this process.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("the clock is after 1970");
    u64::try_from(since.as_millis()).expect("milliseconds since 1970 fit 64 bits")
}

#[cfg(test)]
mod tests {
    use super::{Deadlines, now_ms};

    #[test]
    fn the_first_telling_binds() {
        let deadlines = Deadlines::default();
        deadlines.begin(b"o", 3_600_000);
        let told = i64::try_from(now_ms()).unwrap() + 3_600_000;
        assert!(
            deadlines.told(b"o", told + 60_000).is_err(),
            "a minute beside what was asked for"
        );
        deadlines.told(b"o", told).unwrap();
        deadlines.told(b"o", told).unwrap();
        assert!(deadlines.told(b"o", told + 1).is_err());
        assert!(deadlines.told(b"o", -1).is_err());
        assert!(deadlines.told(b"p", told).is_err());
    }
}
