//! What hostile clients do: one function an attack, each for a bounded time.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use super::cores;

/// How long a connection may take. Beyond it the server's queue is full, which is what an attack is for.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Source addresses that attackers take in turn: each has its own range of ports.
const SOURCES: u8 = 8;

/// Runs `attack` on `threads` threads on the attackers' core, each with its number, and waits for their end.
pub fn from_threads(threads: usize, attack: impl Fn(usize) + Sync) {
    std::thread::scope(|scope| {
        for index in 0..threads {
            let attack = &attack;
            scope.spawn(move || {
                cores::become_attacker();
                attack(index);
            });
        }
    });
}

/// A hostile connection, from one of several addresses of the loopback. Closing it resets it: no port stays in TIME_WAIT.
pub fn connect(address: SocketAddr, number: usize) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    let source = u8::try_from(number % usize::from(SOURCES)).expect("it is below a u8");
    socket.bind(&SocketAddr::from((Ipv4Addr::new(127, 0, 1, source + 1), 0)).into())?;
    socket.set_linger(Some(Duration::ZERO))?;
    socket.connect_timeout(&address.into(), CONNECT_TIMEOUT)?;
    Ok(socket.into())
}

/// What a connection of [`open_and_drop`] does before it goes.
const LAST_WORDS: [&[u8]; 5] = [
    b"",
    b"PING\r\n",
    b"*5\r\n$4\r\nIDEM\r\n$6\r\nstolen",
    b"IDEM dropped BEGIN f o 60000\r\n",
    b"*x\r\n",
];

/// Opens and drops `count` connections from two threads; how many were made.
pub fn open_and_drop(address: SocketAddr, count: usize) -> u64 {
    const THREADS: usize = 2;
    let made = AtomicU64::new(0);
    from_threads(THREADS, |thread| {
        for number in (thread..count).step_by(THREADS) {
            if let Ok(mut stream) = connect(address, number) {
                // The server may have closed it already: not this loop's business.
                let _ = stream.write_all(LAST_WORDS[number / THREADS % LAST_WORDS.len()]);
                made.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    made.into_inner()
}

/// `count` connections that have asked for something once, got it, and are silent since.
///
/// # Panics
/// When one of them is not served.
pub fn idle_crowd(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    let crowd = Mutex::new(Vec::with_capacity(count));
    const THREADS: usize = 2;
    from_threads(THREADS, |thread| {
        for number in (thread..count).step_by(THREADS) {
            let mut stream = connect(address, number).expect("an idle client is let in");
            let mut reply = [0; 7];
            stream
                .write_all(b"PING\r\n")
                .and_then(|()| stream.set_read_timeout(Some(Duration::from_secs(20))))
                .and_then(|()| stream.read_exact(&mut reply))
                .expect("an idle client was served once");
            assert_eq!(&reply, b"+PONG\r\n");
            let mut crowd = crowd.lock().expect("no thread panicked");
            crowd.push(stream);
        }
    });
    crowd.into_inner().expect("no thread panicked")
}

/// Closes them, on the attackers' core: a reset is work for whoever closes, too.
pub fn leave(crowd: Vec<TcpStream>) {
    let crowd = Mutex::new(crowd);
    from_threads(1, |_| crowd.lock().expect("no thread panicked").clear());
}

/// Connections that are given as many copies of `request` as the kernel takes, and never read.
pub fn never_read(address: SocketAddr, connections: usize, request: &[u8]) -> Vec<TcpStream> {
    let all = Mutex::new(Vec::new());
    from_threads(1, |_| {
        all.lock()
            .expect("no thread panicked")
            .extend(pipeline(address, connections, request));
    });
    all.into_inner().expect("no thread panicked")
}

fn pipeline(address: SocketAddr, connections: usize, request: &[u8]) -> Vec<TcpStream> {
    let pipelined = request.repeat((64 << 10) / request.len() + 1);
    let mut all = Vec::new();
    for number in 0..connections {
        let Ok(mut stream) = connect(address, number) else {
            continue;
        };
        if stream.write_all(request).is_ok() && stream.set_nonblocking(true).is_ok() {
            let _ = stream.write(&pipelined);
            all.push(stream);
        }
    }
    all
}

/// Connections that pipeline `request` and read a little of the replies every millisecond, for `time`.
pub fn read_slowly(address: SocketAddr, connections: usize, request: &[u8], time: Duration) {
    let end = Instant::now() + time;
    from_threads(1, |_| {
        let mut streams = pipeline(address, connections, request);
        let mut crumbs = [0; 256];
        while Instant::now() < end {
            // Pacing is the attack: there is no event to wait for.
            std::thread::sleep(Duration::from_millis(1));
            streams.retain_mut(|stream| match stream.read(&mut crumbs) {
                Ok(count) => count > 0,
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            });
        }
    });
}

/// One connection after the other sends `bytes`, and goes once the server has closed it, for `time`; how many did.
pub fn err_and_reconnect(address: SocketAddr, bytes: &[u8], time: Duration) -> u64 {
    let end = Instant::now() + time;
    let made = AtomicU64::new(0);
    from_threads(2, |thread| {
        for number in (thread..).step_by(2) {
            if Instant::now() >= end {
                return;
            }
            let Ok(mut stream) = connect(address, number) else {
                continue;
            };
            let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
            let _ = stream.write_all(bytes);
            let _ = stream.read_to_end(&mut Vec::new());
            made.fetch_add(1, Ordering::Relaxed);
        }
    });
    made.into_inner()
}

/// Connections that send `bytes` over and over as fast as the server takes them, and read what comes, for `time`; how many
/// bytes went out.
pub fn send_without_pause(address: SocketAddr, connections: usize, bytes: &[u8], time: Duration) -> u64 {
    let end = Instant::now() + time;
    let sent = AtomicU64::new(0);
    from_threads(connections, |number| {
        let Ok(mut stream) = connect(address, number) else {
            return;
        };
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        let mut replies = vec![0; 64 << 10];
        let mut at = 0;
        while Instant::now() < end {
            let mut idle = true;
            match stream.write(&bytes[at..]) {
                Ok(count) => {
                    at = (at + count) % bytes.len();
                    sent.fetch_add(u64::try_from(count).unwrap_or(0), Ordering::Relaxed);
                    idle = false;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
            match stream.read(&mut replies) {
                Ok(0) => return,
                Ok(_) => idle = false,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
            if idle {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    });
    sent.into_inner()
}
