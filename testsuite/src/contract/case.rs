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
    /// What is done, each with its line.
    pub steps: Vec<(usize, Step)>,
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
                steps: Vec::new(),
            });
            continue;
        }
        let step = parse_step(line).map_err(|error| format!("{name}:{number}: {error}"))?;
        let case = file
            .cases
            .last_mut()
            .ok_or_else(|| format!("{name}:{number}: no `== title` before it"))?;
        case.steps.push((number, step));
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
            Step::UntilEnded(_) | Step::Restart => {}
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
    use super::{Step, parse};

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
    fn mistakes_are_found_with_their_line() {
        for (text, expected) in [
            ("> PING", "x.case:1: no `== title`"),
            ("== a\nPING", "x.case:2: `PING` is no step"),
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
