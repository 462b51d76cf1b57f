//! One connection: bytes in, commands to the node, replies out when the barrier lets them.
//!
//! ```text
//!   loop: execute every complete command in the read buffer (the core is borrowed, nothing waits)
//!         send what the barrier has released        (the one place where bytes go to a socket: `socket::send`)
//!         wait: socket readable · socket writable · woken by the core
//! ```
//!
//! Invariants
//! * Nothing is sent that [`Replies`] has not released, and [`socket::send`] is the only function that writes to a socket.
//! * The core is never borrowed across an await.
//! * A connection waits for nobody but its own disk group and its own peer: a slow peer is dropped by the sweep of
//!   [`Peers`](crate::peers::Peers) or by its output limit, and costs the others nothing meanwhile. (When all buffers are
//!   over their limit, it waits until those that are dropped for it have let go of their memory: one turn of theirs.)
//!   Who has published goes on once those who get it have been woken, which takes a turn of everybody for each handful of
//!   them, whatever they then do with it.
//! * A command that has to wait for log space stays in the read buffer and is decided again; the commands behind it wait
//!   with it, so that a session's order is kept.

mod deeds;
mod execute;
mod limits;

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use idem_protocol::resp::decode::Decoder;
use tokio::io::AsyncReadExt;

use self::limits::ClientLimits;
use crate::core::Shard;
use crate::input::Input;
use crate::peer::{DropReason, Peer};
use crate::places::Socket;
use crate::replies::Replies;
use crate::socket;
use crate::turn::Turn;

/// A client whose unsent replies are above this executes nothing more until it took some: it cannot make the server
/// hold more than about this, plus one reply.
const BACKPRESSURE_BYTES: usize = 1 << 20;

/// … but its requests are read ahead, up to so many bytes (and no more than one command may have): a client that writes a
/// whole pipeline before it reads the first reply would otherwise wait for the server, and the server for it.
const READ_AHEAD_BYTES_MAX: usize = 16 << 20;

/// With more unsent than this, messages from others stay in a client's inbox: there their bytes are kept once for all who get them.
const MESSAGES_UNSENT_BYTES_MAX: usize = 256 << 10;

/// The places of arguments that a decoder may hold between commands, in bytes; it was more when the last one had a million.
const DECODER_BYTES_KEPT: usize = 16 << 10;

/// Why the turn's execution stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopped {
    /// No complete command is left in the buffer.
    NeedsInput,
    /// The next command waits for the log, or for a snapshot that a SAVE started.
    Waits,
    /// The peer has to take some of its replies first.
    Backpressure,
    /// The turn was long enough.
    Turn,
    /// There will be no more commands: QUIT, a protocol error, a limit.
    Ended,
}

/// What the wait was ended by.
enum Ready {
    Woken,
    Readable,
    Writable,
}

struct Connection {
    shard: Rc<Shard>,
    socket: Socket,
    peer: Rc<Peer>,
    limits: ClientLimits,
    decoder: Decoder,
    input: Input,
    /// The decoder is not asked again before the input has so many bytes.
    input_needed: usize,
    replies: Replies,
    stopped: Stopped,
    turn: Turn,
    /// A SAVE waits for its snapshot.
    saving: bool,
    /// It has published: it goes on when all up to this place have been woken.
    published: Option<u64>,
    /// The command that waits does so for the end of a pause.
    held: bool,
    /// The peer sends no more.
    at_end: bool,
    /// The server stops, and so many bytes that had arrived until then are still to be read.
    arrived: Option<usize>,
    /// Closed because of what the client sent: take the rest of it before closing.
    lingers: bool,
}

/// Serves one connection until it ends.
pub async fn serve(shard: Rc<Shard>, socket: Socket, peer: Rc<Peer>) {
    let options = shard.options.get();
    let may_debug = options.enable_debug_command.allows(peer.address.ip());
    peer.session.borrow_mut().may_debug = may_debug;
    let mut connection = Connection {
        shard,
        socket,
        peer,
        limits: ClientLimits::new(options),
        decoder: Decoder::new(),
        input: Input::default(),
        input_needed: 1,
        replies: Replies::default(),
        stopped: Stopped::NeedsInput,
        turn: Turn::default(),
        saving: false,
        published: None,
        held: false,
        at_end: false,
        arrived: None,
        lingers: false,
    };
    let (id, address) = (connection.peer.id, connection.peer.address);
    tracing::debug!(id, %address, "client connected");
    match connection.run().await {
        Ok(None) => tracing::debug!(id, %address, "client closed"),
        Ok(Some(reason)) => {
            let mut core = connection.shard.core.borrow_mut();
            core.process.count_drop(reason);
            core.client_log.dropped(&connection.peer, reason);
        }
        Err(error) => tracing::debug!(id, %address, "client lost: {error}"),
    }
    {
        let mut core = connection.shard.core.borrow_mut();
        core.node.forget(&mut connection.peer.session.borrow_mut());
        core.peers.remove(&connection.peer);
    }
    connection.shard.commit_wanted.notify_one();
    let Connection {
        shard,
        socket,
        lingers,
        input,
        decoder,
        replies,
        ..
    } = connection;
    // They are no longer counted, and half a second is long for what may be megabytes.
    drop((input, decoder, replies));
    if lingers && let Some(socket) = shard.places.linger(socket) {
        // It no longer counts as a client; it only dies slowly. Without such a place it dies at once.
        socket::linger(socket).await;
    }
}

impl Connection {
    /// Until the connection ends; the reason when the server ended it.
    async fn run(&mut self) -> io::Result<Option<DropReason>> {
        loop {
            if let Some(reason) = self.peer.dropped() {
                return Ok(Some(reason));
            }
            if self.others_have_to_go() {
                self.yield_turn().await;
                continue;
            }
            self.limits.follow(&self.shard.options, self.input_needed <= 1);
            if self.shard.is_stopping() && self.stopped == Stopped::NeedsInput {
                self.read_what_arrived().await?;
            }
            self.execute();
            // Also what a command was the reason for: then not even the replies before it are sent.
            if let Some(reason) = self.peer.dropped() {
                return Ok(Some(reason));
            }
            self.send()?;
            if let Some(reason) = self.limit_reached() {
                return Ok(Some(reason));
            }
            match self.stopped {
                Stopped::Turn => {
                    self.yield_turn().await;
                    continue;
                }
                Stopped::Backpressure if self.has_room() => continue,
                Stopped::NeedsInput | Stopped::Ended if self.ends() && self.replies.is_empty() => {
                    return Ok(None);
                }
                // Nobody is there any more for whom a command would have to be carried out once the pause is over.
                Stopped::Waits if self.held && self.at_end && self.replies.is_empty() => return Ok(None),
                // What had arrived is not all read, or not counted yet: nothing else would wake this task.
                Stopped::NeedsInput if self.shard.is_stopping() && self.arrived != Some(0) => continue,
                _ => {}
            }
            if self.turn.has_read_enough() {
                self.yield_turn().await;
            }
            match self.ready().await? {
                Ready::Readable if !self.others_have_to_go() => self.read().await?,
                Ready::Readable | Ready::Writable | Ready::Woken => {}
            }
        }
    }

    /// Whether memory has to come back before this connection may take more: others are marked and have not gone yet.
    fn others_have_to_go(&self) -> bool {
        self.shard.core.borrow().peers.are_over_limit()
    }

    /// Whether enough of the replies has left for what comes next: messages, or commands.
    fn has_room(&self) -> bool {
        self.replies.unsent_bytes()
            <= if self.peer.inbox.is_empty() {
                BACKPRESSURE_BYTES
            } else {
                MESSAGES_UNSENT_BYTES_MAX
            }
    }

    /// Lets everybody else who is ready go first.
    async fn yield_turn(&mut self) {
        self.turn.begin();
        tokio::task::yield_now().await;
    }

    /// Whether nothing more will be executed once the complete commands are done.
    fn ends(&self) -> bool {
        let stops = self.shard.is_stopping() && self.arrived == Some(0);
        self.at_end || self.stopped == Stopped::Ended || stops
    }

    /// Sends what the barrier has released; the only caller of [`socket::send`] for a client that was accepted.
    fn send(&mut self) -> io::Result<()> {
        if !self.replies.is_empty() {
            let mut core = self.shard.core.borrow_mut();
            let barrier = core.node.barrier_at(|| core.clock.now());
            self.replies.release(barrier);
            if let Some(lsn) = self.replies.waits_for() {
                core.peers.wait_for_barrier(&self.peer, lsn);
            }
        }
        let sent = socket::send(&self.socket.stream, &mut self.replies)?;
        if sent > 0 {
            self.peer.note_stuck(false);
            add(&self.shard.traffic.output, sent);
        }
        self.peer.note_stuck(!self.replies.sendable().is_empty());
        self.peer.note_owed(!self.replies.is_empty());
        Ok(())
    }

    /// Notes the buffers' sizes, and whether this connection has to go for what it has not taken.
    fn limit_reached(&mut self) -> Option<DropReason> {
        if self.input.bytes().is_empty() && self.decoder.held_bytes() > DECODER_BYTES_KEPT {
            // It forgets the last command when it is asked for the next one, which may never come.
            self.decoder.step(&[], &self.limits.decoder);
        }
        let kept = self.peer.session.borrow().memory_bytes();
        let waiting = self.peer.inbox.bytes();
        self.peer
            .note_sizes(self.input.bytes().len(), self.replies.unsent_bytes() + waiting);
        let input_bytes = self.input.memory_bytes() + self.decoder.held_bytes() + kept;
        self.peer_buffers(input_bytes, self.replies.memory_bytes() + waiting);
        let over = self.replies.unsent_bytes() + waiting > self.limits.output_bytes;
        over.then_some(DropReason::OutputLimit)
    }

    fn peer_buffers(&self, input_bytes: usize, output_bytes: usize) {
        if self.peer.has_buffers(input_bytes, output_bytes) {
            return;
        }
        self.shard
            .core
            .borrow_mut()
            .peers
            .set_buffers(&self.peer, input_bytes, output_bytes);
    }

    /// Waits until there is something to do.
    async fn ready(&mut self) -> io::Result<Ready> {
        // What is not read stays with the client: TCP itself slows it down.
        let may_read = !self.at_end && !self.shard.is_stopping();
        let reads = match self.stopped {
            Stopped::NeedsInput => may_read,
            Stopped::Backpressure => may_read && self.input.bytes().len() < self.read_ahead_bytes_max(),
            // A pause can be long, and clients that give up meanwhile must not keep their places.
            Stopped::Waits if self.held => may_read && self.input.bytes().len() < self.read_ahead_bytes_max(),
            Stopped::Waits | Stopped::Turn | Stopped::Ended => false,
        };
        let writes = !self.replies.sendable().is_empty();
        poll_fn(|context| {
            if self.peer.poll_woken(context).is_ready() {
                return Poll::Ready(Ok(Ready::Woken));
            }
            if reads && let Poll::Ready(result) = self.socket.stream.poll_read_ready(context) {
                return Poll::Ready(result.map(|()| Ready::Readable));
            }
            if writes && let Poll::Ready(result) = self.socket.stream.poll_write_ready(context) {
                return Poll::Ready(result.map(|()| Ready::Writable));
            }
            // Others are served meanwhile: the next turn begins.
            self.turn.begin();
            Poll::Pending
        })
        .await
    }

    fn read_ahead_bytes_max(&self) -> usize {
        READ_AHEAD_BYTES_MAX.min(self.limits.query_bytes)
    }

    /// Commands that had arrived when the server was told to stop are in flight, and are answered; what a client goes on
    /// sending is not.
    async fn read_what_arrived(&mut self) -> io::Result<()> {
        if self.arrived.is_none() {
            let bytes = rustix::io::ioctl_fionread(&self.socket.stream)?;
            self.arrived = Some(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        let left = self.arrived.unwrap_or(0);
        if left == 0 {
            return Ok(());
        }
        let before = self.input.bytes().len();
        self.read().await?;
        let count = self.input.bytes().len() - before;
        // Nothing came: the kernel's number was more than it gives.
        self.arrived = Some(if count == 0 { 0 } else { left.saturating_sub(count) });
        if self.turn.has_read_enough() {
            self.yield_turn().await;
        }
        Ok(())
    }

    /// Takes what has arrived, once, and does not wait: without data nothing happens.
    ///
    /// This way of reading notes that the socket is empty when there was room for more. `try_read_buf` would ask the
    /// kernel once more each time, a third of the system calls of a client that sends and waits.
    async fn read(&mut self) -> io::Result<()> {
        let missing = self.input_needed.saturating_sub(self.input.bytes().len());
        let count = {
            let mut room = self.input.room(missing);
            let mut reading = pin!(self.socket.stream.read_buf(&mut room));
            poll_fn(|context| match reading.as_mut().poll(context) {
                Poll::Ready(count) => Poll::Ready(count),
                Poll::Pending => Poll::Ready(Err(io::ErrorKind::WouldBlock.into())),
            })
            .await
        };
        if let Ok(count) = count {
            self.input.note_read(count);
        }
        match count {
            Ok(0) => self.at_end = true,
            Ok(count) => {
                self.turn.note_read(count);
                self.peer.note_input();
                add(&self.shard.traffic.input, count);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

fn add(total: &Cell<u64>, bytes: usize) {
    total.set(total.get() + u64::try_from(bytes).unwrap_or(0));
}
