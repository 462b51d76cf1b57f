//! Ports. Servers under test take port 0 and say in the ready line what they got; nothing here guesses a free number.

use std::net::TcpListener;

/// A port that is in use for as long as the listener lives: for tests of "port in use".
pub fn occupied() -> (TcpListener, u16) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("the loopback has a free port");
    let port = listener
        .local_addr()
        .expect("a bound listener has an address")
        .port();
    (listener, port)
}
