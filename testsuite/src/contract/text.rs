//! Words of a case: bare, or quoted and perhaps repeated.

use idem_protocol::escape::unescape;

/// A place in a line that is being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Reader { rest: text.trim() }
    }

    pub(super) fn at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// All that is left.
    pub(super) fn rest(&mut self) -> &'a str {
        std::mem::take(&mut self.rest)
    }

    /// Takes `token` when it comes next.
    pub(super) fn take(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    /// Takes characters as long as `belongs` says so, and the blanks behind them.
    pub(super) fn while_in(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        word
    }

    /// `"bytes"` or `"bytes"*N`: the bytes inside in the escapes of every tool, a quote as `\x22`.
    pub(super) fn quoted(&mut self) -> Result<Vec<u8>, String> {
        let inner = self
            .rest
            .strip_prefix('"')
            .ok_or_else(|| format!("a quote is missing at `{}`", self.rest))?;
        let (text, rest) = inner
            .split_once('"')
            .ok_or_else(|| format!("no closing quote in `{inner}`"))?;
        let bytes = unescape(text).map_err(|error| error.to_string())?;
        self.rest = rest;
        if !rest.starts_with('*') {
            self.rest = rest.trim_start();
            return Ok(bytes);
        }
        self.rest = &rest[1..];
        let count: usize = self
            .while_in(|c| c.is_ascii_digit())
            .parse()
            .map_err(|_| "no count behind `*`")?;
        Ok(bytes.repeat(count))
    }

    /// One argument: quoted, or the characters up to the next blank (with escapes too).
    pub(super) fn argument(&mut self) -> Result<Vec<u8>, String> {
        if self.rest.starts_with('"') {
            return self.quoted();
        }
        unescape(self.while_in(|c| !c.is_whitespace())).map_err(|error| error.to_string())
    }
}
