//! The command line, made from the rows of [`OPTIONS`]: parsing, help, completions and man page are one definition.

use std::io::Write;
use std::path::PathBuf;

use clap::{Arg, ArgAction, Command, value_parser};

use super::ConfigError;
use super::absent::ABSENT;
use super::options::Options;
use super::table::{Kind, OPTIONS};
use super::words::{Offering, words};

/// What can be generated with `--generate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generate {
    /// A completion script for this shell.
    Completions(clap_complete::Shell),
    /// The man page, in roff.
    Man,
}

/// The words of `--generate`, as they are typed.
const GENERATE: &[(&str, Generate)] = &[
    (
        "completions-bash",
        Generate::Completions(clap_complete::Shell::Bash),
    ),
    (
        "completions-elvish",
        Generate::Completions(clap_complete::Shell::Elvish),
    ),
    (
        "completions-fish",
        Generate::Completions(clap_complete::Shell::Fish),
    ),
    (
        "completions-powershell",
        Generate::Completions(clap_complete::Shell::PowerShell),
    ),
    (
        "completions-zsh",
        Generate::Completions(clap_complete::Shell::Zsh),
    ),
    ("man", Generate::Man),
];

/// The definition of the command line.
pub fn command() -> Command {
    let mut command = Command::new("idemd")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A durable idempotency server that speaks the Redis protocol")
        .after_help(after_help())
        .arg(
            Arg::new("config")
                .long("config")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("TOML file with options of the same names; a flag wins over the file [default: none]"),
        );
    for row in OPTIONS {
        let mut arg = Arg::new(row.name)
            .long(row.name)
            .value_name(row.value)
            .value_parser(Offering(words(row)))
            .allow_negative_numbers(true)
            .help(format!("{} [default: {}]", row.help, row.default));
        if row.kind == Kind::Switch {
            arg = arg
                .num_args(0..=1)
                .default_missing_value("yes")
                .require_equals(false);
        }
        command = command.arg(arg);
    }
    for (name, _) in ABSENT {
        // Known to the parser only to be refused with a sentence that says why; `num_args` takes whatever follows.
        command = command.arg(
            Arg::new(*name)
                .long(*name)
                .num_args(0..)
                .action(ArgAction::Append)
                .hide(true),
        );
    }
    command.arg(
        Arg::new("generate")
            .long("generate")
            .value_name("WHAT")
            .value_parser(clap::builder::PossibleValuesParser::new(
                GENERATE.iter().map(|(word, _)| *word),
            ))
            .help("Writes shell completions or the man page to stdout, and ends"),
    )
}

fn after_help() -> String {
    let fixed: Vec<&str> = OPTIONS
        .iter()
        .filter(|row| !row.at_run_time)
        .map(|row| row.name)
        .collect();
    format!(
        "Sizes are written as Redis writes them: 1000, 64kb, 16mb, 1gb. While the server runs, CONFIG SET changes every \
         option but {}; CONFIG REWRITE writes what was changed into the file of --config. Prints one line on stdout when \
         it is ready; everything else goes to stderr. Exit codes: 0 clean stop, 1 failure at run time, 2 usage or \
         configuration, 3 data directory refused by recovery, 4 data directory locked by another process.",
        fixed.join(", ")
    )
}

/// The parsed command line, not yet applied.
pub struct Flags {
    matches: clap::ArgMatches,
}

impl Flags {
    /// Parses `arguments`, the program's name first. Help and version come back as an error of clap's, which knows
    /// where it is to be printed.
    ///
    /// # Errors
    /// Unknown flags and missing values, in clap's words.
    pub fn parse<I, T>(arguments: I) -> Result<Flags, clap::Error>
    where
        I: IntoIterator<Item = T>,
        T: Into<std::ffi::OsString> + Clone,
    {
        Ok(Flags {
            matches: command().try_get_matches_from(arguments)?,
        })
    }

    /// What is to be generated instead of serving.
    pub fn generate(&self) -> Option<Generate> {
        let word = self.matches.get_one::<String>("generate")?;
        GENERATE
            .iter()
            .find(|(name, _)| name == word)
            .map(|(_, what)| *what)
    }

    /// The configuration file.
    pub fn config(&self) -> Option<&PathBuf> {
        self.matches.get_one::<PathBuf>("config")
    }

    /// Sets in `options` what the flags say.
    ///
    /// # Errors
    /// A value that is none, or an option that this version does not have.
    pub fn apply(&self, options: &mut Options) -> Result<(), ConfigError> {
        for (name, feature) in ABSENT {
            if self.matches.contains_id(name) {
                return Err(ConfigError::new(format!(
                    "--{name}: this version does not have {feature}; remove the option"
                )));
            }
        }
        for row in OPTIONS {
            if let Some(text) = self.matches.get_one::<String>(row.name) {
                (row.set)(options, text)
                    .map_err(|what| ConfigError::new(format!("--{}: {what}", row.name)))?;
            }
        }
        Ok(())
    }
}

/// Writes what `--generate` asked for.
///
/// # Errors
/// The output is closed.
pub fn generate(what: Generate, out: &mut dyn Write) -> std::io::Result<()> {
    let mut buffer = Vec::new();
    match what {
        Generate::Completions(shell) => clap_complete::generate(shell, &mut command(), "idemd", &mut buffer),
        Generate::Man => clap_mangen::Man::new(command()).render(&mut buffer)?,
    }
    out.write_all(&buffer)
}
