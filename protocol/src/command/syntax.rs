//! The notation of a command's arguments, and its translation for `COMMAND DOCS`.
//!
//! One line a person can read is the only thing written down; the nested argument list that client libraries and
//! `redis-cli` get is made from it.
//!
//! ```text
//! name          an argument; its name also gives its type (`key`, `seconds`, `pattern` …)
//! WORD          a fixed word; in front of an argument, inside brackets, it belongs to that argument
//! [ a ]         may be left out                < a | b >   one of them, also inside [ ]
//! a [a ...]     a, once or more often          [a ...]     a, any number of times
//! ```

use crate::resp::encode::Reply;

/// One argument, or a group of them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Item {
    node: Node,
    /// The fixed word in front of it.
    word: Option<&'static str>,
    optional: bool,
    multiple: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    Argument(&'static str),
    Word(&'static str),
    Block(Vec<Item>),
    OneOf(Vec<Item>),
}

impl Item {
    fn new(node: Node) -> Item {
        Item {
            node,
            word: None,
            optional: false,
            multiple: false,
        }
    }
}

/// The value of `arguments` in a `COMMAND DOCS` entry; `None` when the command has no arguments.
pub fn arguments_reply(syntax: &'static str) -> Option<Reply<'static>> {
    let items = parse(syntax)?;
    if items.is_empty() {
        None
    } else {
        Some(list(&items))
    }
}

/// Whether the text keeps to the notation: every bracket closed, no stray sign.
pub fn is_well_formed(syntax: &'static str) -> bool {
    parse(syntax).is_some()
}

fn parse(syntax: &'static str) -> Option<Vec<Item>> {
    let mut parser = Parser { rest: syntax };
    let (items, repeated) = parser.sequence()?;
    (parser.next().is_none() && !repeated).then_some(items)
}

struct Parser {
    rest: &'static str,
}

impl Parser {
    fn peek(&self) -> Option<&'static str> {
        let text = self.rest.trim_start();
        let end = match text.chars().next()? {
            '[' | ']' | '<' | '>' | '|' => 1,
            _ => text.find([' ', '[', ']', '<', '>', '|']).unwrap_or(text.len()),
        };
        text.get(..end)
    }

    fn next(&mut self) -> Option<&'static str> {
        let token = self.peek()?;
        self.rest = self.rest.trim_start().get(token.len()..)?;
        Some(token)
    }

    /// Items up to a closing bracket, a bar or the end; and whether `...` stood behind them.
    fn sequence(&mut self) -> Option<(Vec<Item>, bool)> {
        let mut items: Vec<Item> = Vec::new();
        loop {
            match self.peek() {
                None | Some("]" | ">" | "|") => return Some((items, false)),
                Some("...") => {
                    self.next();
                    return Some((items, true));
                }
                Some(open @ ("[" | "<")) => {
                    self.next();
                    self.group(open, &mut items)?;
                }
                Some(word) => {
                    self.next();
                    let fixed = word.chars().all(|character| !character.is_ascii_lowercase());
                    items.push(Item::new(if fixed {
                        Node::Word(word)
                    } else {
                        Node::Argument(word)
                    }));
                }
            }
        }
    }

    /// The inside of a bracket, joined to the `items` before it.
    fn group(&mut self, open: &str, items: &mut Vec<Item>) -> Option<()> {
        let (first, repeated) = self.sequence()?;
        let mut alternatives = vec![join(first.clone())?];
        while self.peek() == Some("|") {
            self.next();
            let (next, more) = self.sequence()?;
            if more || repeated {
                return None;
            }
            alternatives.push(join(next)?);
        }
        let close = if open == "[" { "]" } else { ">" };
        if self.next() != Some(close) {
            return None;
        }
        let mut item = match alternatives.len() {
            1 => alternatives.pop()?,
            _ => Item::new(Node::OneOf(alternatives)),
        };
        item.multiple |= repeated;
        if repeated && items.ends_with(&first) {
            // `field value [field value ...]`: what stood before the bracket is the first time.
            items.truncate(items.len() - first.len());
        } else {
            item.optional |= open == "[";
        }
        items.push(item);
        Some(())
    }
}

/// Makes one item of a sequence; a fixed word in front becomes part of what follows it.
fn join(mut items: Vec<Item>) -> Option<Item> {
    let leading = match items.first() {
        Some(Item {
            node: Node::Word(word),
            ..
        }) => Some(*word),
        Some(_) => None,
        None => return None,
    };
    if items.len() == 1 {
        return items.pop();
    }
    if leading.is_some() {
        items.remove(0);
    }
    let mut item = match items.len() {
        1 => items.pop()?,
        _ => Item::new(Node::Block(items)),
    };
    // `EX [seconds]` would lose where the brackets stood; no command has that.
    if leading.is_some() && (item.optional || item.word.is_some()) {
        return None;
    }
    item.word = item.word.or(leading);
    Some(item)
}

fn list(items: &[Item]) -> Reply<'static> {
    Reply::Array(items.iter().map(describe).collect())
}

/// One argument as Redis 7.2 lays it out.
fn describe(item: &Item) -> Reply<'static> {
    let mut entries = Vec::new();
    let mut put = |name: &'static str, value| entries.push((Reply::text(name), value));
    match &item.node {
        Node::Argument(name) => {
            put("name", Reply::text(name));
            put("type", Reply::text(type_of(name)));
            put("display_text", Reply::text(name));
            if type_of(name) == "key" {
                put("key_spec_index", Reply::Int(0));
            }
        }
        Node::Word(word) => {
            let name = || Reply::Owned(word.to_ascii_lowercase().into_bytes());
            put("name", name());
            put("type", Reply::text("pure-token"));
            put("display_text", name());
            put("token", Reply::text(word));
        }
        Node::Block(_) | Node::OneOf(_) => {
            let kind = if matches!(item.node, Node::Block(_)) {
                "block"
            } else {
                "oneof"
            };
            let name = item.word.map_or_else(|| kind.to_owned(), str::to_ascii_lowercase);
            put("name", Reply::Owned(name.into_bytes()));
            put("type", Reply::text(kind));
        }
    }
    if let Some(word) = item.word {
        put("token", Reply::text(word));
    }
    let flags = [(item.optional, "optional"), (item.multiple, "multiple")];
    let flags: Vec<_> = flags
        .into_iter()
        .filter(|(set, _)| *set)
        .map(|(_, name)| Reply::Simple(name))
        .collect();
    if !flags.is_empty() {
        put("flags", Reply::Set(flags));
    }
    if let Node::Block(inner) | Node::OneOf(inner) = &item.node {
        put("arguments", list(inner));
    }
    Reply::Map(entries)
}

fn type_of(name: &str) -> &'static str {
    match name {
        "key" => "key",
        "pattern" => "pattern",
        "unix-time-seconds" | "unix-time-milliseconds" => "unix-time",
        "seconds" | "milliseconds" | "timeout" | "maxage" | "ttl-ms" | "window-ms" | "max" | "cost"
        | "cursor" | "count" | "client-id" | "slot" | "start-slot" | "end-slot" | "increment" | "index"
        | "protover" => "integer",
        _ => "string",
    }
}
