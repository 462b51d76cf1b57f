//! Case files: text to steps.

use super::pattern::Pattern;
use super::text::Reader;

/// One file of cases.
#[derive(Clone, Debug)]
pub struct CaseFile {
    /// Its name, for messages.
    pub name: String,
    /// Its cases, in order.
    pub cases: Vec<Case>,
}

/// One case: it begins on empty databases.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it shows.
    pub title: String,
    /// Line of its title, from 1.
    pub line: usize,
    /// Where it is played.
    pub scope: Scope,
    /// What is done, each with its line.
    pub steps: Vec<(usize, Step)>,
}

/// Where a case is played. The reasons are for people; a mark without one is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Against everything.
    Everywhere,
    /// `ours-only REASON`: Redis has no such command, or idemd differs on purpose.
    OursOnly(String),
    /// `redis>=7.2 REASON`: a Redis of an older version answers otherwise.
    RedisFrom((u32, u32), String),
}

impl Scope {
    /// A mark, when the line is one.
    fn parse(line: &str) -> Option<Result<Scope, String>> {
        let (word, reason) = line.split_once(' ').unwrap_or((line, ""));
        let reason = reason.trim().to_owned();
        let scope = if word == "ours-only" {
            Scope::OursOnly(reason.clone())
        } else {
            let version = word.strip_prefix("redis>=")?;
            let numbers = version
                .split_once('.')
                .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
            match numbers {
                Some(numbers) => Scope::RedisFrom(numbers, reason.clone()),
                None => return Some(Err(format!("`{version}` is no version"))),
            }
        };
        Some(if reason.is_empty() {
            Err(format!("`{word}` needs a reason"))
        } else {
            Ok(scope)
        })
    }
}

/// One line of a case.
#[derive(Clone, Debug)]
pub enum Step {
    /// `> COMMAND …` or `name> COMMAND …`: sent without waiting.
    Send {
        /// Which connection; `a` when the line does not say.
        connection: String,
        /// The command.
        args: Vec<Vec<u8>>,
    },
    /// `< pattern` or `name< pattern`: the connection's next reply.
    Expect {
        /// Which connection.
        connection: String,
        /// What the reply looks like.
        pattern: Pattern,
        /// The pattern as the file has it.
        text: String,
    },
    /// `<< pattern` or `name<< pattern`: what comes next on the connection and answers no command: a message, or one more
    /// reply to a command that has several.
    Message {
        /// Which connection.
        connection: String,
        /// What it looks like.
        pattern: Pattern,
        /// The pattern as the file has it.
        text: String,
    },
    /// `until-ended KEY`: asks EXISTS until the key's deadline has come.
    UntilEnded(Vec<u8>),
    /// `restart`: the target crashes and comes back; connections are lost.
    Restart,
}

/// Reads a file. The error names file and line.
pub fn parse(name: &str, text: &str) -> Result<CaseFile, String> {
    let mut file = CaseFile {
        name: name.to_owned(),
        cases: Vec::new(),
    };
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(title) = line.strip_prefix("== ") {
            file.cases.push(Case {
                title: title.trim().to_owned(),
                line: number,
                scope: Scope::Everywhere,
                steps: Vec::new(),
            });
            continue;
        }
        let at = |error: String| format!("{name}:{number}: {error}");
        let case = file
            .cases
            .last_mut()
            .ok_or_else(|| at("no `== title` before it".to_owned()))?;
        match Scope::parse(line) {
            Some(scope) if case.steps.is_empty() && case.scope == Scope::Everywhere => {
                case.scope = scope.map_err(at)?;
            }
            Some(_) => return Err(at("one mark a case, right under its title".to_owned())),
            None => case.steps.push((number, parse_step(line).map_err(at)?)),
        }
    }
    for case in &file.cases {
        check_replies(case).map_err(|error| format!("{name}:{}: {error}", case.line))?;
    }
    Ok(file)
}

fn parse_step(line: &str) -> Result<Step, String> {
    if line == "restart" {
        return Ok(Step::Restart);
    }
    if let Some(key) = line.strip_prefix("until-ended ") {
        return Ok(Step::UntilEnded(Reader::new(key).argument()?));
    }
    let end = line
        .find(|c: char| !c.is_ascii_alphanumeric())
        .unwrap_or(line.len());
    let (connection, rest) = line.split_at(end);
    let connection = if connection.is_empty() { "a" } else { connection }.to_owned();
    if let Some(command) = rest.strip_prefix('>') {
        let mut reader = Reader::new(command);
        let mut args = Vec::new();
        while !reader.at_end() {
            args.push(reader.argument()?);
        }
        return if args.is_empty() {
            Err("no command".to_owned())
        } else {
            Ok(Step::Send { connection, args })
        };
    }
    if let Some(pattern) = rest.strip_prefix("<<") {
        return Ok(Step::Message {
            connection,
            pattern: Pattern::parse(pattern)?,
            text: pattern.trim().to_owned(),
        });
    }
    if let Some(pattern) = rest.strip_prefix('<') {
        return Ok(Step::Expect {
            connection,
            pattern: Pattern::parse(pattern)?,
            text: pattern.trim().to_owned(),
        });
    }
    Err(format!("`{line}` is no step"))
}

/// A forgotten reply would make every later line look at the wrong one.
fn check_replies(case: &Case) -> Result<(), String> {
    let mut waiting = std::collections::BTreeMap::new();
    for (line, step) in &case.steps {
        match step {
            Step::Send { connection, .. } => *waiting.entry(connection.clone()).or_insert(0) += 1,
            Step::Expect { connection, .. } => match waiting.get_mut(connection) {
                Some(count) if *count > 0 => *count -= 1,
                _ => return Err(format!("line {line} expects a reply to nothing")),
            },
            Step::UntilEnded(_) | Step::Restart if waiting.values().any(|count| *count > 0) => {
                return Err(format!("replies are still missing at line {line}"));
            }
            Step::UntilEnded(_) | Step::Restart | Step::Message { .. } => {}
        }
    }
    if waiting.values().any(|count| *count > 0) {
        Err("replies are missing at the end".to_owned())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Scope, Step, parse};

    #[test]
    fn a_file_becomes_steps_with_their_lines() {
        let text = "# about\n== one\n> PING\nb> ECHO \"a b\"\n< +PONG\nb< \"a b\"\n\n== two\nuntil-ended k\nrestart\n";
        let file = parse("x.case", text).unwrap();
        assert_eq!(file.cases.len(), 2);
        assert_eq!(file.cases[0].steps.len(), 4);
        let (line, Step::Send { connection, args }) = &file.cases[0].steps[1] else {
            panic!("a command is sent")
        };
        assert_eq!(
            (*line, connection.as_str(), args[1].as_slice()),
            (4, "b", b"a b".as_slice())
        );
    }

    #[test]
    fn a_mark_says_where_a_case_is_played_and_why() {
        let text = "== a\nours-only no such command\n> PING\n< any\n== b\nredis>=7.2 new\n== c\n";
        let scopes: Vec<Scope> = parse("x.case", text)
            .unwrap()
            .cases
            .into_iter()
            .map(|case| case.scope)
            .collect();
        let expected = [
            Scope::OursOnly("no such command".to_owned()),
            Scope::RedisFrom((7, 2), "new".to_owned()),
            Scope::Everywhere,
        ];
        assert_eq!(scopes, expected);
    }

    #[test]
    fn mistakes_are_found_with_their_line() {
        for (text, expected) in [
            ("> PING", "x.case:1: no `== title`"),
            ("== a\nPING", "x.case:2: `PING` is no step"),
            ("== a\nours-only", "x.case:2: `ours-only` needs a reason"),
            ("== a\nredis>=7.2", "needs a reason"),
            ("== a\nredis>=new things", "`new` is no version"),
            ("== a\n> PING\n< any\nours-only late", "under its title"),
            ("== a\nours-only x\nours-only y", "one mark"),
            ("== a\n> PING", "replies are missing"),
            ("== a\n< +OK", "a reply to nothing"),
            ("== a\n> PING\nrestart\n< any", "still missing"),
            ("== a\n>", "no command"),
            ("== a\n> PING \"", "no closing quote"),
        ] {
            let error = parse("x.case", text).unwrap_err();
            assert!(error.contains(expected), "`{text}`: {error}");
        }
    }
}
