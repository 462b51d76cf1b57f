//! Accepting connections.
//!
//! The socket is bound early at the start (a port in use must be noticed before anything on disk changes), and listens
//! only when the server is ready: until then a client is refused by the kernel and not kept waiting through a recovery.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpStream};

use crate::conn;
use crate::core::Shard;
use crate::peer::Endpoint;
use crate::socket;

/// Connections that the kernel keeps for us between two accepts.
const BACKLOG: i32 = 1024;

/// After an error of `accept` (no more file descriptors, as a rule) nothing is accepted for so long: without the pause
/// the loop would spin, because the waiting connection stays.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// A silent peer is asked after so long whether it is still there.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(300);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(100);

/// A socket that has the address and does not listen yet.
pub struct Bound(Socket);

/// Takes the address.
///
/// # Errors
/// The port is in use, the address is not this machine's, the port is privileged.
pub fn bind(address: SocketAddr) -> io::Result<Bound> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Without it a restart would fail for a minute on the sockets of the last run; a listening socket of another
    // process is still respected.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(Bound(socket))
}

impl Bound {
    /// The address, with the port that port 0 has become.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0
            .local_addr()?
            .as_socket()
            .ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    /// Begins to listen; needs a runtime.
    ///
    /// # Errors
    /// Another socket with the same address listens already.
    pub fn listen(self) -> io::Result<TcpListener> {
        self.0.listen(BACKLOG)?;
        TcpListener::from_std(self.0.into())
    }
}

/// Accepts until the shard stops.
pub async fn accept(shard: Rc<Shard>, listener: TcpListener) {
    let mut complained_at = None;
    loop {
        let accepted = tokio::select! {
            biased;
            () = shard.stop.notified() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => take(&shard, stream, address),
            Err(error) => {
                let now = Instant::now();
                if complained_at.is_none_or(|at| now.duration_since(at) > Duration::from_secs(1)) {
                    complained_at = Some(now);
                    tracing::warn!("a connection could not be accepted: {error}");
                }
                tokio::time::sleep(ERROR_PAUSE).await;
            }
        }
    }
}

/// Serves it, or tells it that there is no room, or closes it, so that what is open stays within the bounds of
/// [`places`](crate::places).
fn take(shard: &Rc<Shard>, stream: TcpStream, address: SocketAddr) {
    let mut core = shard.core.borrow_mut();
    let socket = match shard.places.serve(stream) {
        Ok(socket) => socket,
        Err(stream) => {
            core.process.count_rejected();
            core.client_log.refused(address, shard.options.get().maxclients);
            if let Some(socket) = shard.places.refuse(stream) {
                tokio::task::spawn_local(socket::refuse(socket));
            }
            return;
        }
    };
    core.process.count_accepted();
    // Replies are small and awaited; a peer that vanished is found out by the kernel. Neither is worth a connection.
    let _ = socket.stream.set_nodelay(true);
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_AFTER)
        .with_interval(KEEPALIVE_EVERY);
    let _ = SockRef::from(&socket.stream).set_tcp_keepalive(&keepalive);
    let endpoint = Endpoint {
        address,
        local: socket.stream.local_addr().ok(),
        descriptor: socket.stream.as_raw_fd(),
    };
    let peer = core.peers.add(endpoint, Instant::now());
    tokio::task::spawn_local(conn::serve(Rc::clone(shard), socket, peer));
}
