//! Options that are known by name and not there: `docs/operations.md` names them, their features belong to later versions.
//!
//! They are refused with a sentence, at the start and by CONFIG SET, wherever they are given. An option that is accepted
//! and ignored would be a promise that nobody keeps.

/// Options of the operators' page that this version has not, each with what it would belong to.
pub const ABSENT: &[(&str, &str)] = &[
    ("replicaof", "replication"),
    ("force-replicaof", "replication"),
    ("sync-replicas", "replication"),
    ("sync-replicas-timeout-ms", "replication"),
    ("promotion-timeout-ms", "replication"),
    ("min-replicas-to-write", "replication"),
    ("min-replicas-max-lag", "replication"),
    ("replica-priority", "replication"),
    ("replica-announce-ip", "replication"),
    ("replica-announce-port", "replication"),
    ("replica-serve-stale-data", "replication"),
    ("replica-read-max-lag-ms", "replication"),
    ("primaryuser", "replication"),
    ("primaryauth", "replication"),
    ("wal-pin-bytes", "replication"),
    ("users-file", "users"),
    ("requirepass", "users"),
    ("aclfile", "users"),
    ("tls-port", "TLS"),
    ("tls-cert-file", "TLS"),
    ("tls-key-file", "TLS"),
    ("tls-ca-cert-file", "TLS"),
    ("tls-auth-clients", "TLS"),
    ("tls-replication", "TLS"),
    ("metrics-port", "a metrics port"),
];

/// What the option `name` would belong to, when this version has not got it.
pub fn absent(name: &str) -> Option<&'static str> {
    ABSENT
        .iter()
        .find(|(absent, _)| *absent == name)
        .map(|(_, feature)| *feature)
}
