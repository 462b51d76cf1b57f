//! At most one caller is told `acquired` for one key and one lifetime.
//!
//! The oracle of a single writer cannot see this: each writer's own keys can be right while two writers are both told
//! that a shared key is theirs. The keys watched here are begun by everybody, never aborted, and live longer than the
//! test; their whole life is *absent → pending → completed*, and nobody may ever be told an earlier stage after
//! somebody was told a later one, across any number of crashes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// A stage of a watched key, as a reply revealed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// `acquired`, to this owner.
    Acquired(String),
    /// `pending`
    Pending,
    /// `completed` with this result, or COMPLETE answered 1.
    Completed(Vec<u8>),
}

/// What was told about each watched key.
#[derive(Debug, Default)]
pub struct Watch(Mutex<HashMap<String, Stage>>);

/// The latest that anybody knows about a key. Taken before asking, compared after the answer: what somebody else is told
/// in between binds only questions asked later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stage {
    /// Who was told `acquired`.
    pub owner: Option<String>,
    /// Whether anybody was told that the key is begun.
    pub begun: bool,
    /// The result that anybody was told.
    pub result: Option<Vec<u8>>,
}

impl Watch {
    /// What binds a question asked now.
    pub fn before(&self, key: &str) -> Stage {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(key)
            .cloned()
            .unwrap_or_default()
    }

    /// Takes an answer to a question that was asked when `before` was known. The error is the violation.
    pub fn told(&self, key: &str, before: &Stage, told: Told) -> Result<(), String> {
        let mut stages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stage = stages.entry(key.to_owned()).or_default();
        match told {
            Told::Acquired(owner) => {
                if let Some(first) = &stage.owner {
                    return Err(format!("{key} was acquired by {first}, and again by {owner}"));
                }
                if before.begun {
                    return Err(format!(
                        "{key} was told to be begun, and then acquired by {owner}"
                    ));
                }
                stage.owner = Some(owner);
            }
            Told::Pending => {
                if before.result.is_some() {
                    return Err(format!("{key} was told to be completed, and then pending"));
                }
            }
            Told::Completed(result) => {
                if let Some(first) = stage.result.as_ref().filter(|first| **first != result) {
                    return Err(format!("{key} has two results: {first:?} and {result:?}"));
                }
                stage.result = Some(result);
            }
        }
        stage.begun = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Stage, Told, Watch};

    fn check(told: &[(bool, Told)], violation: Option<&str>) {
        let watch = Watch::default();
        let outcome = told.iter().try_for_each(|(late, told)| {
            // A question asked before anything was known binds nothing.
            let before = if *late {
                watch.before("k")
            } else {
                Stage::default()
            };
            watch.told("k", &before, told.clone())
        });
        match (outcome, violation) {
            (Ok(()), None) => {}
            (Err(found), Some(expected)) => assert!(found.contains(expected), "{found}"),
            (found, expected) => panic!("{found:?} instead of {expected:?} for {told:?}"),
        }
    }

    #[test]
    fn violations_are_found_and_overlaps_are_none() {
        let acquired = |owner: &str| Told::Acquired(owner.into());
        let completed = |result: &[u8]| Told::Completed(result.into());
        check(
            &[
                (true, acquired("a")),
                (true, Told::Pending),
                (true, completed(b"r")),
            ],
            None,
        );
        check(&[(true, Told::Pending), (false, acquired("a"))], None);
        check(&[(true, completed(b"r")), (false, Told::Pending)], None);
        check(
            &[(true, acquired("a")), (false, acquired("b"))],
            Some("acquired by a"),
        );
        check(
            &[(true, Told::Pending), (true, acquired("b"))],
            Some("told to be begun"),
        );
        check(
            &[(true, completed(b"r")), (true, Told::Pending)],
            Some("then pending"),
        );
        check(
            &[(true, completed(b"r")), (false, completed(b"s"))],
            Some("two results"),
        );
    }
}
