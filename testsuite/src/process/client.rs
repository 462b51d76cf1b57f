//! A blocking client that hides nothing: what was sent, what came back, and how a connection ended.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use idem_protocol::resp::ProtocolError;
use idem_protocol::resp::value::{ReplyDecoder, Value};

/// How long a reply may take before a test gives up. Generous: a busy machine must not fail a test.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(20);

/// Why there is no reply. Whatever was asked is then unknown, never "not done".
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server closed the connection; also when it was killed.
    #[error("the connection was closed")]
    Closed,
    /// Nothing came within the timeout.
    #[error("no reply within the timeout")]
    Timeout,
    /// The socket failed in another way.
    #[error("the socket failed: {0}")]
    Io(#[source] io::Error),
    /// The bytes that came are no reply.
    #[error("malformed reply: {0}")]
    Protocol(ProtocolError),
}

/// One connection.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    decoder: ReplyDecoder,
    timeout: Duration,
}

impl Client {
    /// Connects, with [`REPLY_TIMEOUT`].
    pub fn connect(address: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect_timeout(&address, REPLY_TIMEOUT)?;
        stream.set_nodelay(true)?;
        Ok(Client {
            stream,
            decoder: ReplyDecoder::new(),
            timeout: REPLY_TIMEOUT,
        })
    }

    /// How long [`Client::receive`] waits from now on.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Sends one command and waits for its reply.
    pub fn call(&mut self, args: &[&[u8]]) -> Result<Value, ClientError> {
        self.send(args)?;
        self.receive()
    }

    /// A command of words without blanks in them; the test ends when there is no reply.
    pub fn ask(&mut self, words: &str) -> Value {
        let args: Vec<&[u8]> = words.split_ascii_whitespace().map(str::as_bytes).collect();
        self.call(&args)
            .unwrap_or_else(|error| panic!("`{words}`: {error}"))
    }

    /// Sends one command without waiting.
    pub fn send(&mut self, args: &[&[u8]]) -> Result<(), ClientError> {
        self.send_raw(&encode_command(args))
    }

    /// Sends any bytes.
    pub fn send_raw(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.stream.write_all(bytes).map_err(classify)
    }

    /// The next reply.
    pub fn receive(&mut self) -> Result<Value, ClientError> {
        let end = Instant::now() + self.timeout;
        let mut buffer = [0; 64 << 10];
        loop {
            if let Some(value) = self.decoder.next().map_err(ClientError::Protocol)? {
                return Ok(value);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ClientError::Timeout);
            }
            self.stream
                .set_read_timeout(Some(left))
                .map_err(ClientError::Io)?;
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(ClientError::Closed),
                Ok(count) => self.decoder.push(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(classify(error)),
            }
        }
    }

    /// Says that nothing more will be sent; replies can still come.
    pub fn finish_sending(&mut self) -> Result<(), ClientError> {
        self.stream.shutdown(Shutdown::Write).map_err(ClientError::Io)
    }
}

/// The bytes of one command as every client library sends them.
pub fn encode_command(args: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    out
}

fn classify(error: io::Error) -> ClientError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ClientError::Timeout,
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted => {
            ClientError::Closed
        }
        _ => ClientError::Io(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::Duration;

    use idem_protocol::resp::value::Value;

    use super::{Client, ClientError};

    /// A peer that takes `request` and answers `reply`, then closes.
    fn check(
        request: &[&[u8]],
        on_the_wire: &'static [u8],
        reply: &'static [u8],
    ) -> Vec<Result<Value, ClientError>> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let peer = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut found = vec![0; on_the_wire.len()];
            stream.read_exact(&mut found).unwrap();
            assert_eq!(found, on_the_wire);
            for byte in reply {
                stream.write_all(&[*byte]).unwrap();
            }
        });
        let mut client = Client::connect(address).unwrap();
        client.send(request).unwrap();
        let replies = (0..2).map(|_| client.receive()).collect();
        peer.join().unwrap();
        replies
    }

    #[test]
    fn a_reply_in_pieces_and_then_the_end() {
        let replies = check(
            &[b"GET", b"\r\n"],
            b"*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\n",
            b"$1\r\na\r\n",
        );
        assert!(matches!(&replies[0], Ok(Value::Bulk(bytes)) if bytes == b"a"));
        assert!(matches!(&replies[1], Err(ClientError::Closed)));
    }

    #[test]
    fn silence_is_a_timeout() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let mut client = Client::connect(listener.local_addr().unwrap()).unwrap();
        client.set_timeout(Duration::from_millis(20));
        assert!(matches!(client.receive(), Err(ClientError::Timeout)));
    }
}
