//! After the restart: every operation of the ledger is looked up, and has to be what its clients were told.

use idem_protocol::resp::value::Value;

use super::client::{Client, shown};
use super::stream::{Ledger, Operation, Told};
use super::{TTL_MS, bulks};
use crate::failure::Failure;

/// How far the server's clock (the wall clock at its start, then a steady one) may be from the demo's.
const CLOCK_MARGIN_MS: u64 = 1000;

/// What the lookups gave.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Proof {
    /// Acknowledged transitions that are there.
    pub(super) verified: u64,
    /// Unknown ones that were carried out.
    pub(super) unknown_done: u64,
}

/// Looks at every operation. The first that is not as it should be is the failure.
pub(super) fn check(client: &mut Client, ledger: &Ledger) -> Result<Proof, Failure> {
    let mut proof = Proof::default();
    for operation in &ledger.0 {
        let found = client.call(&["IDEM", &operation.name, "INSPECT"])?;
        let wrong = |what: String| Failure::new(format!("{}: {what}", operation.name));
        let state = match &found {
            Value::Null if operation.begin == Told::Acknowledged => {
                return Err(wrong("it was acknowledged and is lost".to_owned()));
            }
            Value::Null => continue,
            found => record(operation, found).map_err(wrong)?,
        };
        let completed = state == "completed";
        for (told, done) in [(operation.begin, true), (operation.complete, completed)] {
            match told {
                Told::Acknowledged if done => proof.verified += 1,
                Told::Acknowledged => {
                    return Err(wrong(format!(
                        "its completion was acknowledged, and it is {state}"
                    )));
                }
                Told::Unknown => proof.unknown_done += u64::from(done),
                Told::Nothing if done => return Err(wrong("it was completed by nobody".to_owned())),
                Told::Nothing => {}
            }
        }
        if completed {
            // A duplicate by another worker: the replay has the stored bytes.
            let replay = client.call(&[
                "IDEM",
                &operation.name,
                "BEGIN",
                &operation.fingerprint(),
                "somebody-else",
                "1000",
            ])?;
            if replay != bulks(&["completed", &operation.result()]) {
                return Err(wrong(format!("its replay is {}", shown(&replay))));
            }
        }
    }
    Ok(proof)
}

/// Compares what INSPECT says with what was sent; returns the state.
fn record(operation: &Operation, found: &Value) -> Result<String, String> {
    let text = |field: &str| {
        let value = found.entry(field.as_bytes()).and_then(Value::as_bytes);
        value
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .ok_or_else(|| format!("INSPECT has no {field}: {}", shown(found)))
    };
    for (field, sent) in [
        ("fingerprint", operation.fingerprint()),
        ("owner", operation.owner()),
    ] {
        let stored = text(field)?;
        if stored != sent {
            return Err(format!("its {field} is {stored} instead of {sent}"));
        }
    }
    let deadline = found
        .entry(b"deadline_ms")
        .and_then(Value::as_int)
        .ok_or("it has no deadline")?;
    if let Some(known) = operation.deadline_ms
        && known != deadline
    {
        return Err(format!(
            "its deadline is {deadline} and was {known} before the crash"
        ));
    }
    let (sent, answered) = operation.between_ms;
    let earliest = (sent + TTL_MS).saturating_sub(CLOCK_MARGIN_MS);
    let latest = answered.saturating_add(TTL_MS).saturating_add(CLOCK_MARGIN_MS);
    if !u64::try_from(deadline).is_ok_and(|ms| (earliest..=latest).contains(&ms)) {
        return Err(format!(
            "its deadline {deadline} is not between {earliest} and {latest}"
        ));
    }
    text("state")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation() -> Operation {
        Operation {
            name: "k".to_owned(),
            begin: Told::Acknowledged,
            complete: Told::Nothing,
            between_ms: (1_000_000, 1_000_005),
            deadline_ms: None,
        }
    }

    fn found(owner: &str, deadline: i64) -> Value {
        let bulk = |text: &str| Value::Bulk(text.as_bytes().to_vec());
        Value::Array(vec![
            bulk("state"),
            bulk("pending"),
            bulk("fingerprint"),
            bulk("request-k"),
            bulk("owner"),
            bulk(owner),
            bulk("deadline_ms"),
            Value::Int(deadline),
        ])
    }

    #[test]
    fn a_wrong_owner_and_a_wrong_deadline_are_noticed() {
        let exact = Operation {
            deadline_ms: Some(1_600_003),
            ..operation()
        };
        for (operation, owner, deadline, right) in [
            (operation(), "attempt-k", 1_600_003, true),
            (operation(), "attempt-j", 1_600_003, false),
            (operation(), "attempt-k", 0, false),
            (operation(), "attempt-k", 1_598_999, false),
            (operation(), "attempt-k", 1_601_006, false),
            (exact.clone(), "attempt-k", 1_600_003, true),
            (exact, "attempt-k", 1_600_004, false),
        ] {
            let checked = record(&operation, &found(owner, deadline));
            assert_eq!(checked.is_ok(), right, "{owner} {deadline}: {checked:?}");
        }
        assert!(record(&operation(), &Value::Array(Vec::new())).is_err());
    }
}
