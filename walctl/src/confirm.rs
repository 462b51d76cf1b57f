//! Asking before something is written: on a terminal a question, elsewhere `--yes`.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::exit::Failure;

/// Refuses before any work what could not be confirmed after it: without a terminal nobody can answer.
pub(crate) fn check(yes: bool) -> Result<(), Failure> {
    if yes || is_terminal() {
        return Ok(());
    }
    Err(Failure::usage(
        "without a terminal to ask on, --yes is needed; --dry-run shows what would be done",
    ))
}

/// Asks, unless `yes` answers already. Anything but a yes is a no.
pub(crate) fn ask(yes: bool, question: &str) -> Result<bool, Failure> {
    if yes {
        return Ok(true);
    }
    check(yes)?;
    let mut answer = String::new();
    let mut stderr = io::stderr();
    write!(stderr, "{question} [y/N] ")
        .and_then(|()| stderr.flush())
        .and_then(|()| io::stdin().lock().read_line(&mut answer))
        .map_err(Failure::io("the answer"))?;
    Ok(is_yes(&answer))
}

fn is_terminal() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

fn is_yes(answer: &str) -> bool {
    let answer = answer.trim();
    answer.eq_ignore_ascii_case("y") || answer.eq_ignore_ascii_case("yes")
}

#[cfg(test)]
mod tests {
    use super::is_yes;

    #[test]
    fn only_a_yes_is_one() {
        for (answer, expected) in [
            ("y\n", true),
            ("YES\r\n", true),
            ("\n", false),
            ("", false),
            ("n\n", false),
            ("yes please\n", false),
        ] {
            assert_eq!(is_yes(answer), expected, "{answer:?}");
        }
    }
}
