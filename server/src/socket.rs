//! What the server does to a client's socket, beside reading: sending, refusing, closing.
//!
//! [`send`] is the only function that writes to one, and it is given a [`Replies`]: nothing that the barrier has not released
//! can leave.

use std::io;
use std::time::Duration;

use idem_protocol::lsn::Lsn;
use idem_protocol::resp::Protocol;
use idem_protocol::resp::encode::{Reply, encode};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::places::Socket;
use crate::replies::Replies;

/// How long a connection that is being closed after an error still takes (and drops) what its client sends. Without
/// it the kernel would reset the connection, and the client might never read why.
const LINGER: Duration = Duration::from_millis(500);

/// Bytes dropped while lingering.
const LINGER_BYTES_MAX: usize = 4 << 20;

/// Gives the socket what is released, as much as it takes; how many bytes that were. Nothing else in the server writes
/// to a client's socket.
pub fn send(stream: &TcpStream, replies: &mut Replies) -> io::Result<usize> {
    let mut sent = 0;
    while !replies.sendable().is_empty() {
        match stream.try_write(replies.sendable()) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                replies.sent(count);
                sent += count;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

/// A reply that reveals nothing of its own; it still leaves behind those before it.
pub fn append(replies: &mut Replies, protocol: Protocol, reply: &Reply<'_>) {
    encode(reply, protocol, replies.buffer());
    replies.mark(Lsn::ZERO);
}

/// An error reply: `ERR`, then the text.
pub fn append_error(replies: &mut Replies, protocol: Protocol, text: &str) {
    append(replies, protocol, &Reply::Error(format!("ERR {text}").into()));
}

/// Tells a client that there is no room for it, and closes.
pub async fn refuse(socket: Socket) {
    let mut replies = Replies::default();
    append_error(&mut replies, Protocol::Resp2, "max number of clients reached");
    replies.release(Lsn::ZERO);
    if socket.stream.writable().await.is_ok() && send(&socket.stream, &mut replies).is_ok() {
        linger(socket).await;
    }
}

/// Closes the sending side, then drops what still arrives until the peer closes too, for a short while.
pub async fn linger(mut socket: Socket) {
    let stream = &mut socket.stream;
    let drain = async {
        stream.shutdown().await?;
        let mut dropped = 0;
        let mut scratch = [0_u8; 4096];
        while dropped < LINGER_BYTES_MAX {
            stream.readable().await?;
            match stream.try_read(&mut scratch) {
                Ok(0) => break,
                Ok(count) => dropped += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    };
    // Whatever goes wrong here, the connection is over.
    let _ = tokio::time::timeout(LINGER, drain).await;
}
