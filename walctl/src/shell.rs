//! Words of a POSIX shell, for commands that are shown or written down to be run as they are.

use std::path::Path;

/// One word, whatever is in it.
pub(crate) fn quoted(bytes: &[u8]) -> Vec<u8> {
    let mut word = vec![b'\''];
    for byte in bytes {
        match byte {
            b'\'' => word.extend_from_slice(b"'\\''"),
            byte => word.push(*byte),
        }
    }
    word.push(b'\'');
    word
}

/// A path as a word, quoted only where it has to be. Bytes that are no text are lost: it is for people to read.
pub(crate) fn word(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.into_owned();
    }
    String::from_utf8_lossy(&quoted(text.as_bytes())).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_shell_are_quoted() {
        for (bytes, expected) in [
            (&b"plain"[..], &b"'plain'"[..]),
            (b"a b$(c)", b"'a b$(c)'"),
            (b"it's", b"'it'\\''s'"),
        ] {
            assert_eq!(quoted(bytes), expected);
        }
    }

    #[test]
    fn a_plain_path_is_a_word_as_it_is() {
        for (path, expected) in [
            ("/var/lib/idemd-1", "/var/lib/idemd-1"),
            ("/it's here", "'/it'\\''s here'"),
            ("", "''"),
        ] {
            assert_eq!(word(Path::new(path)), expected);
        }
    }
}
