//! One connection, and commands and replies as `redis-cli` shows them.

use std::io::{Read, Write};
use std::net::TcpStream;

use idem_protocol::escape::escape;
use idem_protocol::resp::value::{ReplyDecoder, Value};

use super::PATIENCE;
use crate::failure::Failure;

/// A blocking connection with one command at a time.
pub(super) struct Client {
    stream: TcpStream,
    decoder: ReplyDecoder,
    address: String,
}

impl Client {
    pub(super) fn connect(address: &str) -> Result<Client, Failure> {
        let failed = || Failure::io(format!("connecting to {address}"));
        let stream = TcpStream::connect(address).map_err(failed())?;
        stream.set_nodelay(true).map_err(failed())?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed())?;
        Ok(Client {
            stream,
            decoder: ReplyDecoder::new(),
            address: address.to_owned(),
        })
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Sends a command and waits for its reply. After an error nobody knows whether the command was carried out.
    pub(super) fn call(&mut self, args: &[&str]) -> Result<Value, Failure> {
        let lost = || Failure::io("the connection");
        self.stream.write_all(&command(args)).map_err(lost())?;
        let mut buffer = [0; 4096];
        loop {
            if let Some(reply) = self
                .decoder
                .next()
                .map_err(|error| Failure::new(error.to_string()))?
            {
                return Ok(reply);
            }
            match self.stream.read(&mut buffer).map_err(lost())? {
                0 => return Err(Failure::new("the connection was closed")),
                read => self.decoder.push(&buffer[..read]),
            }
        }
    }
}

/// The bytes of a command: an array of bulk strings.
fn command(args: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n{arg}\r\n", arg.len()).as_bytes());
    }
    bytes
}

/// A command as it would be typed: quotes where a shell's reader needs them.
pub(super) fn typed(args: &[&str]) -> String {
    let words = args.iter().map(|arg| {
        if arg.contains(['"', ' ', '\\']) {
            format!("'{arg}'")
        } else {
            (*arg).to_owned()
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A reply as `redis-cli` prints it.
pub(super) fn shown(reply: &Value) -> String {
    match reply {
        Value::Int(number) => format!("(integer) {number}"),
        Value::Null => "(nil)".to_owned(),
        Value::Error(text) => format!("(error) {text}"),
        Value::Simple(text) => text.clone(),
        Value::Array(items) => {
            let lines = items
                .iter()
                .enumerate()
                .map(|(index, item)| format!("{}) {}", index + 1, shown(item)));
            lines.collect::<Vec<_>>().join("\n")
        }
        other => match other.as_bytes() {
            Some(bytes) => format!("\"{}\"", escape(bytes).replace('"', "\\\"")),
            None => format!("{other:?}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_replies_look_as_they_do_elsewhere() {
        assert_eq!(
            command(&["GET", "ä"]),
            "*2\r\n$3\r\nGET\r\n$2\r\nä\r\n".as_bytes()
        );
        assert_eq!(typed(&["SET", "k", r#"{"a": 1}"#]), r#"SET k '{"a": 1}'"#);
        for (reply, expected) in [
            (Value::Int(1), "(integer) 1"),
            (Value::Null, "(nil)"),
            (Value::Error("ERR no".into()), "(error) ERR no"),
            (Value::Bulk(b"a\"b\x00".to_vec()), r#""a\"b\x00""#),
            (
                Value::Array(vec![Value::Bulk(b"completed".to_vec()), Value::Bulk(Vec::new())]),
                "1) \"completed\"\n2) \"\"",
            ),
        ] {
            assert_eq!(shown(&reply), expected);
        }
    }
}
