//! Rows: what the data may take, and who goes when it is too much.

use idem_engine::EvictionPolicy;

use super::{Kind, OptionRow};
use crate::config::values::{set_number, set_size, set_switch, set_word, spell_switch};

pub(super) const MAXMEMORY: OptionRow = OptionRow {
    name: "maxmemory",
    value: "SIZE",
    default: "0",
    help: "Most memory that the data may take; 0 = no limit. Clients' buffers do not count",
    kind: Kind::Size,
    at_run_time: true,
    set: |options, text| set_size(&mut options.maxmemory, text, 0, 1 << 50),
    get: |options| options.maxmemory.to_string(),
};

pub(super) const MAXMEMORY_POLICY: OptionRow = OptionRow {
    name: "maxmemory-policy",
    value: "POLICY",
    default: "noeviction",
    help: "What is done at maxmemory: noeviction (what would write is refused), or keys are evicted: volatile-ttl, \
           allkeys-lru, volatile-lru, allkeys-random, volatile-random",
    kind: Kind::Text,
    at_run_time: true,
    set: |options, text| set_word(&mut options.maxmemory_policy, text, &EvictionPolicy::ALL),
    get: |options| options.maxmemory_policy.name().to_owned(),
};

pub(super) const MAXMEMORY_SAMPLES: OptionRow = OptionRow {
    name: "maxmemory-samples",
    value: "COUNT",
    default: "5",
    help: "How many keys are compared for each that is evicted (1 to 64)",
    kind: Kind::Number,
    at_run_time: true,
    set: |options, text| set_number(&mut options.maxmemory_samples, text, 1, 64),
    get: |options| options.maxmemory_samples.to_string(),
};

pub(super) const IDEM_EVICTABLE: OptionRow = OptionRow {
    name: "idem-evictable",
    value: "YES|NO",
    default: "no",
    help: "Let IDEM records be evicted like other keys; an operation whose record went can be acquired again",
    kind: Kind::Switch,
    at_run_time: true,
    set: |options, text| set_switch(&mut options.idem_evictable, text),
    get: |options| spell_switch(options.idem_evictable),
};
