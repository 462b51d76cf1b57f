//! What a reply has to look like.

use idem_protocol::escape::escape;
use idem_protocol::resp::value::Value;

use super::text::Reader;

/// A pattern for one reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// `any`
    Any,
    /// `nil`: the null of either protocol.
    Null,
    /// `+text`: exactly this simple string.
    Simple(String),
    /// `-CODE text…more`: an error that begins with the first piece and has the others in this order.
    Error(Vec<String>),
    /// `!CODE text`: exactly this error.
    WholeError(String),
    /// `:5` or `:1..10`, both ends included.
    Int(i64, i64),
    /// `"bytes"`
    Bulk(Vec<u8>),
    /// `="text"`: text for people; in RESP2 a bulk string.
    Verbatim(Vec<u8>),
    /// `[a, b]`
    Array(Vec<Pattern>),
    /// `>[a, b]`: a push message; in RESP2 an array.
    Push(Vec<Pattern>),
    /// `~[a, b]`: an array of these in any order, or a set.
    AnyOrder(Vec<Pattern>),
    /// `{k: v, …}`: a map in this order; in RESP2 a flat array.
    Map(Vec<(Pattern, Pattern)>),
    /// `~{k: v, …}`: a map in any order; in RESP2 a flat array.
    MapAnyOrder(Vec<(Pattern, Pattern)>),
}

impl Pattern {
    /// Reads a pattern that takes the whole text.
    pub(super) fn parse(text: &str) -> Result<Pattern, String> {
        let mut reader = Reader::new(text);
        let pattern = Pattern::read(&mut reader)?;
        if reader.at_end() {
            Ok(pattern)
        } else {
            Err(format!("`{}` is too much", reader.rest()))
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Pattern, String> {
        if reader.take("any") {
            return Ok(Pattern::Any);
        }
        if reader.take("nil") {
            return Ok(Pattern::Null);
        }
        if reader.take("+") {
            return Ok(Pattern::Simple(
                reader.while_in(|c| !",]}".contains(c)).trim_end().to_owned(),
            ));
        }
        if reader.take("-") {
            return Ok(Pattern::Error(
                reader.rest().split('…').map(str::to_owned).collect(),
            ));
        }
        if reader.take("!") {
            return Ok(Pattern::WholeError(reader.rest().to_owned()));
        }
        if reader.take("=") {
            return Ok(Pattern::Verbatim(reader.quoted()?));
        }
        if reader.take(">") {
            return match Pattern::read(reader)? {
                Pattern::Array(items) => Ok(Pattern::Push(items)),
                _ => Err("a push message is written as an array".to_owned()),
            };
        }
        if reader.take("~") {
            return match Pattern::read(reader)? {
                Pattern::Array(items) => Ok(Pattern::AnyOrder(items)),
                Pattern::Map(pairs) => Ok(Pattern::MapAnyOrder(pairs)),
                _ => Err("only an array or a map has an order to leave open".to_owned()),
            };
        }
        if reader.take(":") {
            let word = reader.while_in(|c| c.is_ascii_digit() || c == '-' || c == '.');
            let (low, high) = word.split_once("..").unwrap_or((word, word));
            let number = |text: &str| text.parse().map_err(|_| format!("`{word}` is no range"));
            return Ok(Pattern::Int(number(low)?, number(high)?));
        }
        if reader.take("[") {
            let mut items = Vec::new();
            if reader.take("]") {
                return Ok(Pattern::Array(items));
            }
            loop {
                items.push(Pattern::read_item(reader)?);
                if reader.take("]") {
                    return Ok(Pattern::Array(items));
                }
                if !reader.take(",") {
                    return Err("`,` or `]` is missing".to_owned());
                }
            }
        }
        if reader.take("{") {
            return Pattern::read_map(reader);
        }
        Ok(Pattern::Bulk(reader.quoted()?))
    }

    /// One item of an array: an error ends with the item here, and not with the line.
    fn read_item(reader: &mut Reader<'_>) -> Result<Pattern, String> {
        let is_whole = reader.take("!");
        if !is_whole && !reader.take("-") {
            return Pattern::read(reader);
        }
        let text = reader.while_in(|c| !",]".contains(c)).trim_end();
        Ok(if is_whole {
            Pattern::WholeError(text.to_owned())
        } else {
            Pattern::Error(text.split('…').map(str::to_owned).collect())
        })
    }

    fn read_map(reader: &mut Reader<'_>) -> Result<Pattern, String> {
        let mut pairs = Vec::new();
        loop {
            if reader.take("}") {
                return Ok(Pattern::Map(pairs));
            }
            let key = Pattern::read(reader)?;
            if !reader.take(":") {
                return Err("`:` is missing behind a key".to_owned());
            }
            pairs.push((key, Pattern::read(reader)?));
            reader.take(",");
        }
    }

    /// Whether a reply fits.
    pub fn matches(&self, value: &Value) -> bool {
        match (self, value) {
            (Pattern::Any, _) | (Pattern::Null, Value::Null) => true,
            (Pattern::Simple(expected), Value::Simple(found)) => expected == found,
            (Pattern::Int(low, high), Value::Int(found)) => (low..=high).contains(&found),
            (Pattern::Bulk(expected) | Pattern::Verbatim(expected), Value::Bulk(found)) => expected == found,
            (Pattern::Verbatim(expected), Value::Verbatim { text, .. }) => expected == text.as_bytes(),
            (Pattern::Error(pieces), Value::Error(found)) => has_pieces(found, pieces),
            (Pattern::WholeError(expected), Value::Error(found)) => expected == found,
            (Pattern::Array(patterns), Value::Array(values)) => all_match(patterns.iter(), values),
            (Pattern::Push(patterns), Value::Push(values) | Value::Array(values)) => {
                all_match(patterns.iter(), values)
            }
            (Pattern::AnyOrder(patterns), Value::Array(values) | Value::Set(values)) => {
                match_once(patterns, values, Pattern::matches)
            }
            (Pattern::Map(pairs), Value::Array(values)) => {
                all_match(pairs.iter().flat_map(|(key, value)| [key, value]), values)
            }
            (Pattern::Map(pairs), Value::Map(found)) => {
                pairs.len() == found.len()
                    && pairs
                        .iter()
                        .zip(found)
                        .all(|((k, v), (fk, fv))| k.matches(fk) && v.matches(fv))
            }
            (Pattern::MapAnyOrder(pairs), Value::Array(values)) if values.len().is_multiple_of(2) => {
                let found: Vec<&[Value]> = values.chunks_exact(2).collect();
                match_once(pairs, &found, |(k, v), pair| {
                    k.matches(&pair[0]) && v.matches(&pair[1])
                })
            }
            (Pattern::MapAnyOrder(pairs), Value::Map(found)) => {
                match_once(pairs, found, |(k, v), (fk, fv)| k.matches(fk) && v.matches(fv))
            }
            _ => false,
        }
    }
}

/// Each pattern takes the first value that fits and that none before it took. That is exact while no two patterns fit
/// one value, as with constants; a case that needs more has to say the order.
fn match_once<P, V>(patterns: &[P], values: &[V], fits: impl Fn(&P, &V) -> bool) -> bool {
    let mut left: Vec<&V> = values.iter().collect();
    patterns.len() == values.len()
        && patterns.iter().all(|pattern| {
            let at = left.iter().position(|value| fits(pattern, value));
            at.map(|at| left.swap_remove(at)).is_some()
        })
}

fn all_match<'a>(patterns: impl Iterator<Item = &'a Pattern>, values: &[Value]) -> bool {
    let patterns: Vec<&Pattern> = patterns.collect();
    patterns.len() == values.len()
        && patterns
            .iter()
            .zip(values)
            .all(|(pattern, value)| pattern.matches(value))
}

fn has_pieces(text: &str, pieces: &[String]) -> bool {
    let mut rest = text;
    for (index, piece) in pieces.iter().enumerate() {
        let at = if index == 0 {
            rest.starts_with(piece).then_some(0)
        } else {
            rest.find(piece)
        };
        match at {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    true
}

/// A reply as a case would write it, shortened so that a megabyte does not fill the screen.
pub(super) fn show(value: &Value) -> String {
    const SHOWN_BYTES: usize = 200;
    match value {
        Value::Bulk(bytes) if bytes.len() > SHOWN_BYTES => {
            format!("\"{}…\" ({} bytes)", escape(&bytes[..SHOWN_BYTES]), bytes.len())
        }
        Value::Bulk(bytes) => format!("\"{}\"", escape(bytes)),
        Value::Simple(text) => format!("+{text}"),
        Value::Error(text) => format!("-{text}"),
        Value::Int(number) => format!(":{number}"),
        Value::Null => "nil".to_owned(),
        Value::Array(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(", ")),
        Value::Map(pairs) => {
            let pairs: Vec<String> = pairs
                .iter()
                .map(|(k, v)| format!("{}: {}", show(k), show(v)))
                .collect();
            format!("{{{}}}", pairs.join(", "))
        }
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use idem_protocol::resp::value::Value;

    use super::Pattern;

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.into())
    }

    #[test]
    fn patterns_match_what_they_say_and_nothing_else() {
        let pair = || Value::Array(vec![bulk("completed"), bulk("r")]);
        for (pattern, value, expected) in [
            ("any", Value::Null, true),
            ("nil", Value::Null, true),
            ("nil", Value::Int(0), false),
            ("+OK", Value::Simple("OK".into()), true),
            ("+OK", bulk("OK"), false),
            (":1", Value::Int(1), true),
            (":1..3", Value::Int(3), true),
            (":1..3", Value::Int(4), false),
            (":-2", Value::Int(-2), true),
            ("-ERR", Value::Error("ERR what".into()), true),
            (
                "-ERR …128…",
                Value::Error("ERR owner is not 1 to 128 bytes".into()),
                true,
            ),
            (
                "-ERR …129",
                Value::Error("ERR owner is not 1 to 128 bytes".into()),
                false,
            ),
            ("-RR", Value::Error("ERR".into()), false),
            ("!ERR what", Value::Error("ERR what".into()), true),
            ("!ERR", Value::Error("ERR what".into()), false),
            ("~[\"r\", \"completed\"]", pair(), true),
            ("~[\"r\", \"r\"]", pair(), false),
            ("~[\"r\"]", pair(), false),
            (
                "~{\"b\": :2, \"a\": :1}",
                Value::Map(vec![(bulk("a"), Value::Int(1)), (bulk("b"), Value::Int(2))]),
                true,
            ),
            (
                "~{\"b\": :2, \"a\": :1}",
                Value::Array(vec![bulk("a"), Value::Int(1), bulk("b"), Value::Int(2)]),
                true,
            ),
            (
                "~{\"b\": :1, \"a\": :2}",
                Value::Map(vec![(bulk("a"), Value::Int(1)), (bulk("b"), Value::Int(2))]),
                false,
            ),
            ("\"a\\x00\"", Value::Bulk(b"a\0".to_vec()), true),
            ("\"ab\"*2", bulk("abab"), true),
            ("[\"completed\", \"r\"]", pair(), true),
            ("[\"completed\"]", pair(), false),
            ("[]", Value::Array(vec![]), true),
            (
                "[[:1], :2]",
                Value::Array(vec![Value::Array(vec![Value::Int(1)]), Value::Int(2)]),
                true,
            ),
            ("{\"completed\": \"r\"}", pair(), true),
            (
                "{\"completed\": any}",
                Value::Map(vec![(bulk("completed"), Value::Int(7))]),
                true,
            ),
            (
                "{\"completed\": :8}",
                Value::Map(vec![(bulk("completed"), Value::Int(7))]),
                false,
            ),
        ] {
            let parsed = Pattern::parse(pattern).unwrap_or_else(|error| panic!("`{pattern}`: {error}"));
            assert_eq!(parsed.matches(&value), expected, "`{pattern}` and {value:?}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in [
            "",
            "\"a",
            "[\"a\"",
            "{\"a\" \"b\"}",
            ":x",
            "nil nil",
            "\"a\"*",
            "\"\\q\"",
            "~nil",
        ] {
            assert!(Pattern::parse(text).is_err(), "`{text}`");
        }
    }
}
