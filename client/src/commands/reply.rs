//! From answers to types, in RESP2 and RESP3.
//!
//! The texts of errors here name what was expected, and never what came: that may be a client's data.

use std::time::Duration;

use redis::{FromRedisValue, ParsingError, Value};

use super::Limit;
use crate::outcome::{Begin, Inspection, State};

impl FromRedisValue for Begin {
    fn from_redis_value(value: Value) -> Result<Begin, ParsingError> {
        let unexpected = || ParsingError::from("an answer of BEGIN was expected");
        let Value::Array(items) = value else {
            return Err(unexpected());
        };
        let mut items = items.into_iter();
        let word = items.next().and_then(into_bytes).ok_or_else(unexpected)?;
        match (word.as_slice(), items.next(), items.next()) {
            (b"acquired", None, None) => Ok(Begin::Acquired),
            (b"pending", None, None) => Ok(Begin::Pending),
            (b"conflict", None, None) => Ok(Begin::Conflict),
            (b"completed", Some(result), None) => {
                into_bytes(result).map(Begin::Completed).ok_or_else(unexpected)
            }
            _ => Err(unexpected()),
        }
    }
}

impl FromRedisValue for Inspection {
    /// Fields by name: a later server may add some.
    fn from_redis_value(value: Value) -> Result<Inspection, ParsingError> {
        let unexpected = || ParsingError::from("an answer of INSPECT was expected");
        let mut fields = into_pairs(value).ok_or_else(unexpected)?;
        let mut take = |name: &str| {
            let at = fields
                .iter()
                .position(|(key, _)| as_bytes(key) == Some(name.as_bytes()))?;
            Some(fields.swap_remove(at).1)
        };
        let inspection = (|| {
            Some(Inspection {
                state: match into_bytes(take("state")?)?.as_slice() {
                    b"pending" => State::Pending,
                    b"completed" => State::Completed,
                    _ => return None,
                },
                fingerprint: into_bytes(take("fingerprint")?)?,
                owner: into_bytes(take("owner")?)?,
                deadline_ms: into_count(&take("deadline_ms")?)?,
                ttl: Duration::from_millis(into_count(&take("ttl_ms")?)?),
                result_bytes: into_count(&take("result_bytes")?)?,
            })
        })();
        inspection.ok_or_else(unexpected)
    }
}

impl FromRedisValue for Limit {
    fn from_redis_value(value: Value) -> Result<Limit, ParsingError> {
        if let Value::Array(items) = &value
            && let [Value::Int(left), retry_ms] = items.as_slice()
            && let Some(retry_ms) = into_count(retry_ms)
        {
            return match u32::try_from(*left) {
                Ok(left) => Ok(Limit::Allowed { left }),
                Err(_) if *left == -1 => Ok(Limit::Refused {
                    retry_after: Duration::from_millis(retry_ms),
                }),
                Err(_) => Err("an answer of LIMIT holds an impossible number".into()),
            };
        }
        Err("an answer of LIMIT was expected".into())
    }
}

/// 1 or 0, of COMPLETE, ABORT and ONCE, and nothing else: to take another answer for one of them would be to promise what
/// the server did not.
pub(super) struct Flag(pub(super) bool);

impl FromRedisValue for Flag {
    fn from_redis_value(value: Value) -> Result<Flag, ParsingError> {
        match value {
            Value::Int(1) => Ok(Flag(true)),
            Value::Int(0) => Ok(Flag(false)),
            _ => Err("1 or 0 was expected".into()),
        }
    }
}

fn as_bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}

fn into_bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.into_bytes()),
        _ => None,
    }
}

fn into_count(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

/// A map, or what stands for one in RESP2.
fn into_pairs(value: Value) -> Option<Vec<(Value, Value)>> {
    match value {
        Value::Map(pairs) => Some(pairs),
        Value::Array(items) if items.len().is_multiple_of(2) => {
            let mut items = items.into_iter();
            let pairs = std::iter::from_fn(|| Some((items.next()?, items.next()?)));
            Some(pairs.collect())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use redis::{FromRedisValue, Value, parse_redis_value};

    use crate::{Begin, Inspection, Limit, State};

    fn read<T: FromRedisValue>(wire: &str) -> Option<T> {
        let value: Value = parse_redis_value(wire.as_bytes()).unwrap();
        T::from_redis_value(value).ok()
    }

    #[test]
    fn answers_of_begin() {
        for (wire, expected) in [
            ("*1\r\n$8\r\nacquired\r\n", Some(Begin::Acquired)),
            ("*1\r\n$7\r\npending\r\n", Some(Begin::Pending)),
            ("*1\r\n$8\r\nconflict\r\n", Some(Begin::Conflict)),
            (
                "*2\r\n$9\r\ncompleted\r\n$0\r\n\r\n",
                Some(Begin::Completed(Vec::new())),
            ),
            (
                "*2\r\n$9\r\ncompleted\r\n$2\r\n\r\n\r\n",
                Some(Begin::Completed(b"\r\n".to_vec())),
            ),
            ("*1\r\n$9\r\ncompleted\r\n", None),
            ("*2\r\n$9\r\ncompleted\r\n$-1\r\n", None),
            ("*2\r\n$8\r\nacquired\r\n$1\r\nx\r\n", None),
            ("*1\r\n$8\r\nACQUIRED\r\n", None),
            ("*0\r\n", None),
            ("$8\r\nacquired\r\n", None),
            ("$-1\r\n", None),
            ("+OK\r\n", None),
            (":1\r\n", None),
        ] {
            assert_eq!(read::<Begin>(wire), expected, "{wire}");
        }
    }

    #[test]
    fn answers_of_inspect() {
        let fields = |head: &str| {
            format!(
                "{head}+state\r\n$7\r\npending\r\n+fingerprint\r\n$2\r\nfp\r\n+owner\r\n$1\r\no\r\n+deadline_ms\r\n\
                 :1000\r\n+ttl_ms\r\n:7\r\n+result_bytes\r\n:0\r\n"
            )
        };
        let expected = Inspection {
            state: State::Pending,
            fingerprint: b"fp".to_vec(),
            owner: b"o".to_vec(),
            deadline_ms: 1000,
            ttl: Duration::from_millis(7),
            result_bytes: 0,
        };
        for head in ["*12\r\n", "%6\r\n"] {
            assert_eq!(read(&fields(head)), Some(Some(expected.clone())), "{head}");
        }
        let longer = fields("%7\r\n") + "+something_new\r\n:5\r\n";
        assert_eq!(read(&longer), Some(Some(expected)), "a later server says more");
        for null in ["$-1\r\n", "*-1\r\n", "_\r\n"] {
            assert_eq!(read::<Option<Inspection>>(null), Some(None), "{null}");
        }
        let without_one = "%1\r\n+state\r\n$7\r\npending\r\n";
        assert_eq!(read::<Option<Inspection>>(without_one), None);
    }

    #[test]
    fn answers_of_limit() {
        let ms = Duration::from_millis;
        for (wire, expected) in [
            ("*2\r\n:4\r\n:0\r\n", Some(Limit::Allowed { left: 4 })),
            ("*2\r\n:0\r\n:0\r\n", Some(Limit::Allowed { left: 0 })),
            (
                "*2\r\n:-1\r\n:250\r\n",
                Some(Limit::Refused { retry_after: ms(250) }),
            ),
            ("*2\r\n:-2\r\n:250\r\n", None),
            ("*2\r\n:-1\r\n:-5\r\n", None),
            (":4\r\n", None),
            ("$-1\r\n", None),
        ] {
            assert_eq!(read::<Limit>(wire), expected, "{wire}");
        }
    }

    #[test]
    fn flags_are_one_or_zero() {
        for (wire, expected) in [
            (":1\r\n", Some(true)),
            (":0\r\n", Some(false)),
            (":2\r\n", None),
            (":-1\r\n", None),
            ("+OK\r\n", None),
            ("+1\r\n", None),
            ("$1\r\n1\r\n", None),
            ("#t\r\n", None),
            ("$-1\r\n", None),
            ("*-1\r\n", None),
            ("_\r\n", None),
            ("*0\r\n", None),
        ] {
            let flag = read::<super::Flag>(wire).map(|super::Flag(is_one)| is_one);
            assert_eq!(flag, expected, "{wire}");
        }
    }

    #[test]
    fn an_error_about_an_answer_does_not_show_it() {
        let value = parse_redis_value(b"*1\r\n$6\r\nsecret\r\n").unwrap();
        let error = Begin::from_redis_value(value).unwrap_err();
        assert!(!error.to_string().contains("secret"));
    }
}
