//! Goal: every command of `docs/runbook.md` does what the page says that it does.
//!
//! Method: each fenced `console` block is run, and what it prints is compared with what stands there.
//!
//! * `$ walctl …` is a command; `cp` may stand there, too, where an answer needs it. The lines below it are
//!   its stdout, then its stderr; `? 4` as the last of them is its exit code, which is 0 otherwise.
//! * `[..]` stands for any text within a line, `...` alone for any lines.
//! * Absolute paths are those of a reader's machine, and lie below a temporary directory here.
//! * `<!-- log: rot, clean at /backup/idemd -->` before a block says which of the kept directories (`golden/logs`) stand
//!   for `/var/lib/idemd` and for other paths. Without it a block goes on with what the block before it left.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::golden;

/// What a comment that names no other place stands for.
const DATA: &str = "/var/lib/idemd";
/// Somebody reads it at night.
const LINES_MAX: usize = 340;

#[test]
fn every_command_of_the_runbook_prints_what_it_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/runbook.md");
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.lines().count() <= LINES_MAX, "the page is too long");
    let blocks = parse(&text).unwrap_or_else(|error| panic!("{error}"));
    assert!(blocks.len() > 10, "only {} blocks were found", blocks.len());
    let mut failures = Vec::new();
    let mut machine = Machine::new();
    for block in &blocks {
        if let Err(failure) = run(block, &mut machine) {
            failures.push(failure);
        }
    }
    assert!(failures.is_empty(), "docs/runbook.md\n{}", failures.join("\n"));
}

/// A fenced block: what stands before it for directories, and its commands.
#[derive(Debug)]
struct Block {
    logs: Option<Vec<(String, String)>>,
    commands: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    /// Number of its line.
    line: usize,
    words: Vec<String>,
    expected: Vec<String>,
    code: i32,
}

fn parse(text: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut logs = None;
    let mut open: Option<Block> = None;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let Some(block) = &mut open else {
            if let Some(comment) = line.strip_prefix("<!-- log: ") {
                let names = comment.strip_suffix(" -->");
                logs = Some(parse_logs(
                    names.ok_or(format!("line {number}: an open comment"))?,
                ));
            } else if line == "```console" {
                open = Some(Block {
                    logs: logs.take(),
                    commands: Vec::new(),
                });
            } else if line.starts_with("```") {
                return Err(format!("line {number}: a block that nothing tests"));
            }
            continue;
        };
        if line == "```" {
            if block.commands.is_empty() {
                return Err(format!("line {number}: a block without a command"));
            }
            blocks.extend(open.take());
        } else if let Some(command) = line.strip_prefix("$ ") {
            block.commands.push(Step {
                line: number,
                words: split(command),
                expected: Vec::new(),
                code: 0,
            });
        } else {
            let step = block.commands.last_mut();
            let step = step.ok_or(format!("line {number}: output without a command"))?;
            match line.strip_prefix("? ") {
                Some(code) => step.code = code.parse().map_err(|_| format!("line {number}: no exit code"))?,
                None => step.expected.push(line.to_owned()),
            }
        }
    }
    match open {
        Some(_) => Err("a block is not closed".to_owned()),
        None => Ok(blocks),
    }
}

fn parse_logs(names: &str) -> Vec<(String, String)> {
    let pairs = names
        .split(", ")
        .map(|name| name.split_once(" at ").unwrap_or((name, DATA)));
    pairs
        .map(|(name, path)| (name.to_owned(), path.to_owned()))
        .collect()
}

/// Words as a shell makes them of blanks and single quotes.
fn split(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (index, part) in command.split('\'').enumerate() {
        if index % 2 == 1 {
            words.last_mut().unwrap().push_str(part);
            continue;
        }
        for (index, piece) in part.split(' ').enumerate() {
            if index > 0 {
                words.push(String::new());
            }
            words.last_mut().unwrap().push_str(piece);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The reader's machine: absolute paths lie below `root`.
struct Machine {
    directory: tempfile::TempDir,
}

impl Machine {
    fn new() -> Machine {
        Machine {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, absolute: &str) -> PathBuf {
        self.directory.path().join(absolute.trim_start_matches('/'))
    }

    fn run(&self, step: &Step) -> Result<(Vec<String>, i32), String> {
        let (program, arguments) = step.words.split_first().ok_or("no command")?;
        let program = match program.as_str() {
            "walctl" => env!("CARGO_BIN_EXE_walctl"),
            "cp" => program,
            other => return Err(format!("{other} is not run here")),
        };
        let arguments = arguments.iter().map(|word| match word.starts_with('/') {
            true => self.path(word).into_os_string(),
            false => word.into(),
        });
        let mut command = Command::new(program);
        command.args(arguments).env_remove("NO_COLOR");
        let output = golden::output_in_time(command);
        let text = support::stdout(&output) + &support::stderr(&output);
        let text = text.replace(self.directory.path().to_str().unwrap(), "");
        let lines = text.lines().map(|line| line.trim_end().to_owned());
        Ok((lines.collect(), support::code(&output)))
    }
}

fn run(block: &Block, machine: &mut Machine) -> Result<(), String> {
    if let Some(logs) = &block.logs {
        *machine = Machine::new();
        for (name, path) in logs {
            let path = machine.path(path);
            golden::copy(name, &path);
        }
    }
    for step in &block.commands {
        let command = format!("line {}: {}", step.line, step.words.join(" "));
        let (found, code) = machine.run(step).map_err(|error| format!("{command}: {error}"))?;
        if !matches(&step.expected, &found) {
            return Err(format!("{command}\n{}", difference(&step.expected, &found)));
        }
        if code != step.code {
            return Err(format!("{command}: exit code {code} instead of {}", step.code));
        }
    }
    Ok(())
}

/// Whether the lines are the expected ones.
fn matches(expected: &[String], found: &[String]) -> bool {
    match expected.split_first() {
        None => found.is_empty(),
        Some((line, rest)) if line == "..." => (0..=found.len()).any(|from| matches(rest, &found[from..])),
        Some((line, rest)) => found
            .split_first()
            .is_some_and(|(first, others)| is_line(line, first) && matches(rest, others)),
    }
}

fn is_line(pattern: &str, line: &str) -> bool {
    match pattern.split_once("[..]") {
        None => pattern == line,
        Some((start, rest)) => line.strip_prefix(start).is_some_and(|line| {
            let ends = line.char_indices().map(|(at, _)| at).chain([line.len()]);
            ends.into_iter().any(|at| is_line(rest, &line[at..]))
        }),
    }
}

/// What is there and not expected (`+`), and the other way round (`-`).
fn difference(expected: &[String], found: &[String]) -> String {
    // Length of the longest common part behind each pair of positions.
    let mut common = vec![vec![0; found.len() + 1]; expected.len() + 1];
    for a in (0..expected.len()).rev() {
        for b in (0..found.len()).rev() {
            common[a][b] = if is_line(&expected[a], &found[b]) {
                common[a + 1][b + 1] + 1
            } else {
                common[a + 1][b].max(common[a][b + 1])
            };
        }
    }
    let (mut a, mut b, mut lines) = (0, 0, String::new());
    while a < expected.len() || b < found.len() {
        let (sign, line) = if a < expected.len() && b < found.len() && is_line(&expected[a], &found[b]) {
            (a, b) = (a + 1, b + 1);
            (' ', &found[b - 1])
        } else if b == found.len() || (a < expected.len() && common[a + 1][b] >= common[a][b + 1]) {
            a += 1;
            ('-', &expected[a - 1])
        } else {
            b += 1;
            ('+', &found[b - 1])
        };
        lines.push_str(&format!("  {sign} {line}\n"));
    }
    lines
}

// The harness must be able to fail.

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

#[test]
fn patterns_take_what_they_stand_for_and_nothing_else() {
    for (expected, found, is_same) in [
        ("", "", true),
        ("a", "a", true),
        ("a", "b", false),
        ("a", "a\nb", false),
        ("a\nb", "a", false),
        ("lsn [..], [..] records", "lsn 7, 12 records", true),
        ("lsn [..]", "lsn ", true),
        ("[..]ä", "ää", true),
        ("lsn [..] records", "lsn 7 record", false),
        ("...", "", true),
        ("...\nb", "a\na\nb", true),
        ("...\nb", "a\nb\na", false),
        ("a\n...\nc", "a\nb\nb\nc", true),
        ("a\n...\nc", "b\nc", false),
    ] {
        let (expected, found) = (lines(expected), lines(found));
        assert_eq!(matches(&expected, &found), is_same, "{expected:?} and {found:?}");
    }
    let shown = difference(&lines("a\nb\nc"), &lines("a\nx\nc"));
    assert_eq!(shown, "    a\n  - b\n  + x\n    c\n");
}

#[test]
fn a_page_that_is_wrong_fails() {
    let check = |text: &str| {
        let blocks = parse(text)?;
        let mut machine = Machine::new();
        blocks.iter().try_for_each(|block| run(block, &mut machine))
    };
    let verify = "<!-- log: killed -->\n```console\n$ walctl verify /var/lib/idemd\n";
    let good = format!("{verify}CLEAN (row B)[..]\n...\n```\n");
    assert_eq!(check(&good), Ok(()));
    for (text, words) in [
        ("```console\n```\n".to_owned(), "without a command"),
        ("```console\nCLEAN\n```\n".to_owned(), "output without a command"),
        ("```\n$ walctl --version\n```\n".to_owned(), "nothing tests"),
        ("```console\n$ walctl --version\n".to_owned(), "not closed"),
        ("```console\n$ rm -r /\n```\n".to_owned(), "rm is not run here"),
        (
            format!("{verify}CLEAN (row A)[..]\n...\n```\n"),
            "- CLEAN (row A)",
        ),
        (
            format!("{verify}CLEAN (row B)[..]\n...\n? 4\n```\n"),
            "exit code 0 instead of 4",
        ),
    ] {
        let error = check(&text).unwrap_err();
        assert!(error.contains(words), "{text}: {error}");
    }
}
