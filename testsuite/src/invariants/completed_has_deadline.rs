//! An IDEM record never exists without its deadline: not in the log, not after a crash, not in a reply.
//!
//! Durability alone does not give this. A build that writes the value first and its deadline in a second record loses
//! nothing that it acknowledged, and still a crash between the two leaves a completion that never ends.

use idem_protocol::resp::value::Value as Reply;
use serde_json::Value;

use crate::process::Client;

/// Looks at the lines of `walctl dump --json`: whatever gives a key an IDEM record is one record of opcode 53 with a
/// deadline. `is_idem_key` names the keys that only IDEM wrote to.
pub fn in_log(lines: &[Value], is_idem_key: impl Fn(&str) -> bool) -> Vec<String> {
    let mut violations = Vec::new();
    for line in lines {
        let Some(key) = line["key"].as_str().filter(|key| is_idem_key(key)) else {
            continue;
        };
        let (opcode, deadline) = (line["opcode"].as_u64(), line["deadline_ms"].as_u64());
        if opcode != Some(53) || deadline.unwrap_or(0) == 0 {
            violations.push(format!(
                "{key} at lsn {}: opcode {opcode:?}, deadline {deadline:?}",
                line["lsn"]
            ));
        }
    }
    violations
}

/// Asks a running server about keys that only IDEM wrote to: each is absent, or has a deadline.
pub fn in_server(client: &mut Client, keys: &[String]) -> Vec<String> {
    let mut violations = Vec::new();
    for key in keys {
        let record = client.ask(&format!("IDEM {key} INSPECT"));
        let deadline = record.entry(b"deadline_ms").and_then(Reply::as_int).unwrap_or(0);
        if record != Reply::Null && deadline <= 0 {
            violations.push(format!("{key} has no deadline: {record:?}"));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::in_log;

    #[test]
    fn a_value_without_its_deadline_is_found() {
        let honest = json!({"lsn": 0, "opcode": 53, "key": "k", "deadline_ms": 5});
        let epoch = json!({"lsn": 1, "opcode": 48});
        let other = json!({"lsn": 2, "opcode": 1, "key": "other"});
        let value = json!({"lsn": 3, "opcode": 1, "key": "k"});
        let deadline = json!({"lsn": 4, "opcode": 3, "key": "k", "deadline_ms": 5});
        let of_key = |key: &str| key == "k";
        assert!(in_log(&[honest.clone(), epoch, other], of_key).is_empty());
        assert_eq!(in_log(&[honest, value, deadline], of_key).len(), 2);
    }
}
