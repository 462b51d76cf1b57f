//! Shell completions and man pages, made of the command line's own definition; for packagers.

use std::io::{self, Write};

use clap::CommandFactory;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::exit::{Exit, Failure};
use crate::output::{self, Out};

/// What can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generate {
    /// A completion script.
    Completions(Shell),
    /// The man page of the program, or of one of its commands.
    Page(Option<&'static str>),
}

/// The words, as they are typed.
const WORDS: &[(&str, Generate)] = &[
    ("completions-bash", Generate::Completions(Shell::Bash)),
    ("completions-elvish", Generate::Completions(Shell::Elvish)),
    ("completions-fish", Generate::Completions(Shell::Fish)),
    ("completions-powershell", Generate::Completions(Shell::PowerShell)),
    ("completions-zsh", Generate::Completions(Shell::Zsh)),
    ("man", Generate::Page(None)),
    ("man-verify", Generate::Page(Some("verify"))),
    ("man-dump", Generate::Page(Some("dump"))),
    ("man-history", Generate::Page(Some("history"))),
    ("man-stat", Generate::Page(Some("stat"))),
    ("man-snapshot", Generate::Page(Some("snapshot"))),
    ("man-replay", Generate::Page(Some("replay"))),
    ("man-restore", Generate::Page(Some("restore"))),
    ("man-diff", Generate::Page(Some("diff"))),
    ("man-archive", Generate::Page(Some("archive"))),
    ("man-repair", Generate::Page(Some("repair"))),
];

impl Generate {
    /// Takes the words above and nothing else.
    pub(crate) fn parser() -> impl TypedValueParser<Value = Generate> {
        PossibleValuesParser::new(WORDS.iter().map(|(word, _)| *word)).map(|word| {
            let known = WORDS.iter().find(|(known, _)| *known == word);
            known.expect("only words of the list pass the parser").1
        })
    }
}

/// Writes it to `out`.
pub(crate) fn write(what: Generate, out: &mut Out) -> Result<Exit, Failure> {
    output::printed(render(what).and_then(|text| {
        out.write_all(&text)?;
        out.flush()
    }))?;
    Ok(Exit::Clean)
}

fn render(what: Generate) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut command = Cli::command();
    command.build();
    match what {
        Generate::Completions(shell) => clap_complete::generate(shell, &mut command, "walctl", &mut text),
        Generate::Page(None) => clap_mangen::Man::new(command).render(&mut text)?,
        Generate::Page(Some(name)) => {
            let page = command
                .find_subcommand(name)
                .ok_or(io::ErrorKind::NotFound)?
                .clone();
            clap_mangen::Man::new(page).render(&mut text)?;
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_on_the_list_can_be_made_and_every_command_has_a_page() {
        for (word, what) in WORDS {
            assert!(!render(*what).unwrap().is_empty(), "{word}");
        }
        for command in Cli::command().get_subcommands() {
            let page = format!("man-{}", command.get_name());
            assert!(WORDS.iter().any(|(word, _)| *word == page), "{page}");
        }
    }
}
