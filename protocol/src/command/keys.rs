//! The keys of a concrete command: for slot checks, ACL key patterns and `COMMAND GETKEYS`.

use super::spec::{CommandSpec, KeySpec};
use crate::resp::Args;

/// The key arguments of `args`, by the command's row and its subcommand's. Nothing is checked: of arguments that are too few, what is there.
/// Allocates nothing.
pub fn keys<'a>(spec: &CommandSpec, args: Args<'a>) -> Keys<'a> {
    let sub = spec.subcommand_word(args).and_then(|word| spec.subcommand(word));
    let KeySpec {
        first, last, step, ..
    } = *spec.keys_of(sub);
    let first = usize::from(first);
    // One behind the last key.
    let end = match usize::try_from(last) {
        Ok(last) => args.len().min(last + 1),
        Err(_) => (args.len() + 1).saturating_sub(usize::from(last.unsigned_abs())),
    };
    // Argument 0 is the name: a first key there means that there are none.
    let next = if first == 0 { end } else { first };
    Keys {
        args,
        next,
        end,
        step: usize::from(step).max(1),
    }
}

/// See [`keys`].
#[derive(Debug, Clone)]
pub struct Keys<'a> {
    args: Args<'a>,
    next: usize,
    end: usize,
    step: usize,
}

impl<'a> Iterator for Keys<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.next >= self.end {
            return None;
        }
        let key = self.args.get(self.next);
        self.next += self.step;
        key
    }
}
