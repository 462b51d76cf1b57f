//! A naive rebuild of a state, from nothing but the lines that `walctl dump` prints.

use idem_engine::Keyspace;
use idem_protocol::escape::unescape;
use idem_protocol::idem::{IdemRecord, IdemState};
use idem_protocol::wal::{DeleteReason, Pairs, Record, Strings};
use idem_protocol::{Deadline, UnixMs};
use serde_json::Value as Json;

/// Applies the record of a line of `dump --json --values`.
pub fn apply_line(keyspace: &mut Keyspace, line: &Json) {
    let bytes = |value: &Json| unescape(value.as_str().unwrap_or_default()).unwrap();
    let list = |value: &Json| value.as_array().cloned().unwrap_or_default();
    let key = bytes(&line["key"]);
    let value = bytes(&line["value"]);
    let (fingerprint, owner, result) = (
        bytes(&line["fingerprint"]),
        bytes(&line["owner"]),
        bytes(&line["result"]),
    );
    let deadline = line["deadline_ms"].as_u64().map_or(Deadline::NONE, Deadline::at);
    let pairs: Vec<(Vec<u8>, Vec<u8>)> = list(&line["value"])
        .iter()
        .map(|pair| (bytes(&pair[0]), bytes(&pair[1])))
        .collect();
    let pairs: Vec<(&[u8], &[u8])> = pairs
        .iter()
        .map(|(field, value)| (&field[..], &value[..]))
        .collect();
    let fields: Vec<Vec<u8>> = list(&line["value"]).iter().map(bytes).collect();
    let fields: Vec<&[u8]> = fields.iter().map(|field| &field[..]).collect();
    let record = match line["name"].as_str().unwrap() {
        "StringPut" => Record::StringPut {
            key: &key,
            deadline,
            value: &value,
        },
        "Delete" => Record::Delete {
            reason: DeleteReason::Command,
            key: &key,
        },
        "DeadlinePut" => Record::DeadlinePut { key: &key, deadline },
        "HashPut" => Record::HashPut {
            key: &key,
            deadline,
            fields: Pairs::from(&pairs[..]),
        },
        "HashDelete" => Record::HashDelete {
            key: &key,
            fields: Strings::from(&fields[..]),
        },
        "FlushDb" => Record::FlushDb,
        "FlushAll" => Record::FlushAll,
        "IdempotencyPut" => Record::IdempotencyPut {
            key: &key,
            deadline,
            record: IdemRecord {
                state: match line["state"].as_str().unwrap() {
                    "pending" => IdemState::Pending,
                    "completed" => IdemState::Completed,
                    _ => IdemState::Aborted,
                },
                fingerprint: &fingerprint,
                owner: &owner,
                result: &result,
            },
        },
        "EpochStart" | "Members" | "Clock" => return,
        other => panic!("{other} is no kind of record that is printed"),
    };
    let db = line["db"].as_u64().unwrap_or_default();
    let time = UnixMs::new(line["time_ms"].as_u64().unwrap());
    keyspace.apply(time, u8::try_from(db).unwrap(), &record);
}
