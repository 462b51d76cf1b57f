//! Random logs, with reclaiming and maintenance at random moments, give what the model gives; replaying a range again
//! changes nothing.

use idem_protocol::UnixMs;
use proptest::prelude::*;

use super::keyspaces;
use super::model::{Model, content, live_at};
use super::operations::{Logged, cases, log, span};
use crate::digest::digest;
use crate::keyspace::Keyspace;

/// What may happen between two records.
#[derive(Clone, Debug)]
enum Between {
    Nothing,
    /// Reclaim up to so long before now, so many entries a call.
    Reclaim(u64, usize),
    Maintain(usize),
}

fn between() -> impl Strategy<Value = Between> {
    let lag = prop_oneof![Just(0), span()];
    prop_oneof![
        2 => Just(Between::Nothing),
        2 => (lag, 1_usize..20).prop_map(|(lag, budget)| Between::Reclaim(lag, budget)),
        1 => (0_usize..20).prop_map(Between::Maintain),
    ]
}

/// Reclaims everything up to a time, and takes out of the model what went. Nothing may go before its deadline, and
/// nothing may stay that ended a quarter of a second ago.
fn reclaim(keyspace: &mut Keyspace, model: &mut Model, up_to: u64, budget: usize) {
    while keyspace.reclaim(UnixMs::new(up_to), budget).more {}
    assert!(!keyspace.due(UnixMs::new(up_to)));
    let left = content(keyspace);
    model.content.retain(|key, (deadline, _)| {
        let stays = left.contains_key(key);
        assert!(
            stays || (*deadline != 0 && *deadline <= up_to),
            "{key:?} went before its deadline {deadline}"
        );
        assert!(
            !stays || *deadline == 0 || deadline.saturating_add(255) > up_to,
            "{key:?} stayed after {deadline}"
        );
        stays
    });
}

fn check(keyspace: &Keyspace, model: &Model) {
    keyspace.check();
    assert_eq!(content(keyspace), model.content);
    for db in 0..3 {
        assert_eq!(keyspace.len(db), model.len(db));
        assert_eq!(keyspace.expires(db), model.expires(db));
    }
    assert_eq!(keyspace.idem_records(), model.idem_records());
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn content_counts_and_digest(log in log(60), between in prop::collection::vec(between(), 60)) {
        let mut digests = Vec::new();
        for mut keyspace in keyspaces() {
            let mut model = Model::default();
            for (logged, between) in log.iter().zip(&between) {
                logged.apply(&mut keyspace);
                model.apply(logged);
                match between {
                    Between::Nothing => {}
                    Between::Reclaim(lag, budget) => {
                        reclaim(&mut keyspace, &mut model, logged.time.saturating_sub(*lag), *budget);
                    }
                    Between::Maintain(budget) => _ = keyspace.maintain(UnixMs::new(logged.time), *budget),
                }
                check(&keyspace, &model);
            }
            let now = UnixMs::new(log.last().map_or(0, |logged| logged.time));
            digests.push(digest(&keyspace, now));
        }
        prop_assert!(digests.iter().all(|digest| *digest == digests[0]));
    }

    #[test]
    fn replaying_a_range_again_changes_nothing(log in log(60), from in 0_usize..60, reclaims in any::<bool>()) {
        for mut keyspace in keyspaces() {
            let apply = |keyspace: &mut Keyspace, log: &[Logged]| {
                for logged in log {
                    logged.apply(keyspace);
                    if reclaims {
                        keyspace.reclaim(UnixMs::new(logged.time), 100);
                        keyspace.maintain(UnixMs::new(logged.time), 100);
                    }
                }
            };
            apply(&mut keyspace, &log);
            let now = UnixMs::new(log.last().map_or(0, |logged| logged.time));
            let once = (live_at(content(&keyspace), now), digest(&keyspace, now));
            for _ in 0..2 {
                apply(&mut keyspace, &log[from.min(log.len())..]);
                keyspace.check();
                prop_assert_eq!(&live_at(content(&keyspace), now), &once.0);
                prop_assert_eq!(digest(&keyspace, now), once.1);
            }
        }
    }
}
