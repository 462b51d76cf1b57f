//! Crowds, floods and clients that never read, against the real binary: memory stays bounded, the log says why somebody
//! had to go, nothing is left behind, and everybody else is served within twice their undisturbed p99.
//!
//! `IDEM_HOSTILE_ROUNDS=n` repeats every attack `n` times; with 2 or more, what takes the server a minute is waited for.

#![allow(
    clippy::unwrap_used,
    reason = "a helper of tests is a test: what is not so fails it"
)]

use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use idem_testsuite::hostile::{Scene, attack, is_long, open_files_allowed};
use idem_testsuite::process::IdemdOptions;
use idem_testsuite::process::client::encode_command;
use idem_testsuite::require::not_permitted;

const MIB: u64 = 1 << 20;

/// How long an attack of no natural length lasts.
const ATTACK: Duration = Duration::from_millis(400);

/// One attack at a time: they are measured.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The most that the process grew since its peak was reset.
fn grown(scene: &Scene, before: u64) -> u64 {
    scene.probe().peak_bytes().saturating_sub(before)
}

#[test]
fn ten_thousand_idle_connections() {
    const CROWD: usize = 10_000;
    let _alone = alone();
    let allowed = open_files_allowed();
    if allowed < 12_000 {
        let reason = format!("this process may open {allowed} files, and 12000 are needed");
        return not_permitted("ten_thousand_idle_connections", &reason);
    }
    let options = IdemdOptions::default().option("maxclients", "11000");
    let mut scene = Scene::new("idle", &options);
    let descriptors = scene.probe().descriptors() + 8;
    let before = scene.probe().resident_bytes();
    let crowd = attack::idle_crowd(scene.server().address(), CROWD);
    let each = scene.probe().resident_bytes().saturating_sub(before) / u64::try_from(CROWD).unwrap();
    println!("idle: {each} bytes for a connection");
    assert!(each < 12 << 10, "an idle connection costs {each} bytes");
    assert!(scene.info("connected_clients") > 10_000);
    drop(crowd);
    scene.await_quiet(descriptors);
    // They come, stay for a while, and go, all within the window.
    let address = scene.server().address();
    scene.attack(|| {
        let crowd = attack::idle_crowd(address, CROWD / 5);
        std::thread::sleep(ATTACK);
        attack::leave(crowd);
    });
    // And while all of them are there.
    let crowd = attack::idle_crowd(address, CROWD);
    scene.attack(|| std::thread::sleep(ATTACK));
    drop(crowd);
    scene.await_quiet(descriptors);
    scene.finish();
}

#[test]
fn fifty_thousand_connections_opened_and_dropped() {
    let _alone = alone();
    open_files_allowed();
    let mut scene = Scene::new("dropped", &IdemdOptions::default());
    let address = scene.server().address();
    // What a process takes once, whoever comes.
    attack::open_and_drop(address, 2000);
    scene.await_quiet(scene.probe().descriptors() + 8);
    let (descriptors, before) = (scene.probe().descriptors() + 8, scene.probe().resident_bytes());
    scene.probe().reset_peak();
    let began = Instant::now();
    let mut made = 0;
    scene.attack(|| made += attack::open_and_drop(address, 10_000));
    println!("dropped: {made} connections in {:?}", began.elapsed());
    assert!(made >= 45_000, "{made} were let in");
    scene.await_quiet(descriptors);
    assert!(scene.info("total_connections_received") >= made);
    assert_eq!(scene.info("client_buffers_bytes").checked_div(1 << 20), Some(0));
    let grown = grown(&scene, before);
    println!("dropped: {grown} bytes more at the most");
    // The bystanders' records are in there, and what connections have at one time.
    assert!(grown < 64 * MIB, "{grown} bytes");
    scene.await_log(&["closing client", "Protocol error"]);
    scene.finish();
}

/// The key `big` holds a completed record of 4 MiB; the request that replays it.
fn big_replay(scene: &Scene) -> Vec<u8> {
    let mut client = scene.client();
    client.ask("IDEM big BEGIN f o 604800000");
    let stored = client.call(&[b"IDEM", b"big", b"COMPLETE", b"f", b"o", &vec![b'r'; 4 << 20]]);
    assert_eq!(stored.unwrap().as_int(), Some(1));
    encode_command(&[b"IDEM", b"big", b"BEGIN", b"f", b"o", b"1000"])
}

/// Together they may hold 64 MiB, and five times as much is asked for, again and again.
#[test]
fn many_clients_that_never_read_are_held_to_the_limit_of_all() {
    const LIMIT: u64 = 64 * MIB;
    let _alone = alone();
    let options = IdemdOptions::default().option("client-buffers-total", "64mb");
    let scene = Scene::new("unread-many", &options);
    let request = big_replay(&scene);
    let (descriptors, before) = (scene.probe().descriptors() + 8, scene.probe().resident_bytes());
    scene.probe().reset_peak();
    for _ in 0..5 {
        let held = attack::never_read(scene.server().address(), 64, &request);
        scene.wait_until("they hold what they may", || {
            let held = scene.info("client_buffers_bytes");
            assert!(held <= LIMIT + 8 * MIB, "{held} bytes are held");
            held > LIMIT / 2
        });
        drop(held);
    }
    let grown = grown(&scene, before);
    println!("unread-many: {} MiB more at the most", grown / MIB);
    assert!(grown < LIMIT + 48 * MIB, "{grown} bytes");
    scene.await_log(&["client dropped", "client-buffers-total", "largest"]);
    scene.await_quiet(descriptors);
    scene.finish();
}

/// One that comes back ten times a second, asks for megabytes without end, and never takes any.
#[test]
fn a_client_that_never_reads_replays_of_four_mib() {
    let _alone = alone();
    let mut scene = Scene::new("unread", &IdemdOptions::default());
    let request = big_replay(&scene);
    let (descriptors, before) = (scene.probe().descriptors() + 8, scene.probe().resident_bytes());
    scene.probe().reset_peak();
    let address = scene.server().address();
    scene.attack(|| {
        let mut held = Vec::new();
        for _ in 0..4 {
            held.extend(attack::never_read(address, 1, &request));
            std::thread::sleep(ATTACK / 4);
        }
        attack::leave(held);
    });
    let grown = grown(&scene, before);
    println!("unread: {} MiB more at the most", grown / MIB);
    assert!(grown < 64 * MIB, "{grown} bytes");
    scene.await_quiet(descriptors);
    scene.finish();
}

/// With the limits as they are by default: few such clients fit them, hold one reply each, and go after a minute.
#[test]
fn a_client_that_never_reads_holds_one_reply_and_goes() {
    const CLIENTS: usize = 8;
    let _alone = alone();
    let scene = Scene::new("stuck", &IdemdOptions::default());
    let request = big_replay(&scene);
    let before = scene.probe().resident_bytes();
    scene.probe().reset_peak();
    let held = attack::never_read(scene.server().address(), CLIENTS, &request);
    assert_eq!(held.len(), CLIENTS);
    scene.wait_until("all replies are held", || {
        scene.info("client_buffers_bytes") > u64::try_from(CLIENTS).unwrap() * 4 * MIB
    });
    let grown = grown(&scene, before);
    // Four MiB, and what was unsent when they were asked for: at most one.
    assert!(grown < 8 * 6 * MIB, "{grown} bytes");
    if is_long() {
        let patience = Duration::from_secs(90);
        scene.wait_longer(patience, "they are dropped", || {
            let log = scene.server().stderr();
            let reason = "client dropped: it took none of its replies for 60 seconds";
            log.matches(reason).count() == CLIENTS
        });
        scene.wait_until("their memory is back", || {
            scene.info("client_buffers_bytes") < MIB
        });
    }
    scene.finish();
}

#[test]
fn half_a_command_and_then_silence() {
    const CLIENTS: usize = 400;
    const HELD: usize = 64 << 10;
    let _alone = alone();
    open_files_allowed();
    let mut scene = Scene::new("half", &IdemdOptions::default());
    let (address, descriptors) = (scene.server().address(), scene.probe().descriptors() + 8);
    // 16 MiB are claimed by each; what counts is what came.
    let half = [
        b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$16777216\r\n".as_slice(),
        &vec![b'x'; HELD],
    ]
    .concat();
    let before = scene.probe().resident_bytes();
    scene.probe().reset_peak();
    let mut silent = Vec::new();
    for number in 0..CLIENTS {
        let mut stream = attack::connect(address, number).unwrap();
        stream.write_all(&half).unwrap();
        silent.push(stream);
    }
    let began = Instant::now();
    scene.wait_until("all of it has arrived", || {
        scene.info("client_buffers_bytes") >= u64::try_from(CLIENTS * HELD).unwrap()
    });
    let grown = grown(&scene, before);
    println!("half: {} KiB for each", grown / 1024 / 400);
    assert!(
        grown < 3 * u64::try_from(CLIENTS * HELD).unwrap(),
        "{grown} bytes"
    );
    scene.attack(|| std::thread::sleep(ATTACK));
    if is_long() {
        // A byte now and then is no progress: what counts is when the command began.
        let patience = Duration::from_secs(90);
        scene.wait_longer(patience, "they are dropped", || {
            for stream in &mut silent {
                let _ = stream.write_all(b"x");
            }
            scene.info("connected_clients") == 1
        });
        assert!(began.elapsed() > Duration::from_secs(50), "{:?}", began.elapsed());
        scene.await_log(&["client dropped", "a command stayed unfinished for 60 seconds"]);
    }
    drop(silent);
    scene.await_quiet(descriptors);
    scene.finish();
}

#[test]
fn slow_readers_beside_fast_ones() {
    let _alone = alone();
    let mut scene = Scene::new("slow", &IdemdOptions::default());
    let mut client = scene.client();
    client.call(&[b"SET", b"value", &vec![b'v'; 256 << 10]]).unwrap();
    let before = scene.probe().resident_bytes();
    scene.probe().reset_peak();
    let address = scene.server().address();
    let request = encode_command(&[b"GET", b"value"]);
    scene.attack(|| attack::read_slowly(address, 4, &request, ATTACK));
    let grown = grown(&scene, before);
    println!("slow: {} MiB more at the most", grown / MIB);
    // Each one MiB of replies and one more of them, twice over (a buffer doubles), and what the process keeps of it.
    assert!(grown < 32 * MIB, "{grown} bytes");
    scene.finish();
}

#[test]
fn a_flood_of_mistakes() {
    let _alone = alone();
    let mut scene = Scene::new("mistakes", &IdemdOptions::default());
    let (address, descriptors) = (scene.server().address(), scene.probe().descriptors() + 8);
    let mut made = 0;
    scene.attack(|| made += attack::err_and_reconnect(address, b"*1\r\n$x\r\n", ATTACK));
    println!("mistakes: {made} connections");
    assert!(made > 100, "{made} were made");
    scene.await_log(&["closing client", "Protocol error: invalid bulk length"]);
    scene.await_quiet(descriptors);
    scene.finish();
}

/// Commands as fast as the server takes them: everybody's turn is bounded.
#[test]
fn clients_that_send_without_a_pause() {
    let _alone = alone();
    let mut scene = Scene::new("greedy", &IdemdOptions::default());
    let address = scene.server().address();
    let commands = encode_command(&[b"GET", b"nothing", b"and", b"wrong"]).repeat(1000);
    let mut sent = 0;
    scene.attack(|| sent += attack::send_without_pause(address, 2, &commands, ATTACK));
    println!("greedy: {} MiB of commands", sent / MIB);
    let value = encode_command(&[b"NOSUCH", &vec![b'x'; 8 << 20]]);
    scene.attack(|| sent += attack::send_without_pause(address, 2, &value, ATTACK));
    assert!(sent > MIB);
    scene.finish();
}

#[test]
fn commands_of_a_million_arguments() {
    let _alone = alone();
    let mut scene = Scene::new("million", &IdemdOptions::default());
    let address = scene.server().address();
    let mut command = b"*1048576\r\n$6\r\nNOSUCH\r\n".to_vec();
    command.extend(b"$1\r\na\r\n".repeat(1_048_575));
    let before = scene.probe().resident_bytes();
    scene.probe().reset_peak();
    let mut sent = 0;
    scene.attack(|| sent += attack::send_without_pause(address, 1, &command, ATTACK));
    println!("million: {} MiB of commands", sent / MIB);
    let grown = grown(&scene, before);
    println!("million: {} MiB more at the most", grown / MIB);
    assert!(grown < 64 * MIB, "{grown} bytes");
    scene.finish();
}

/// The test of the test: a server that stops for 30 ms, five times a second, is found out.
#[test]
fn pauses_are_found_out() {
    use rustix::process::{Pid, Signal, kill_process};
    let _alone = alone();
    let mut scene = Scene::new("pauses", &IdemdOptions::default());
    let pid = Pid::from_raw(i32::try_from(scene.server().pid()).unwrap()).unwrap();
    let mut pauses = || {
        for _ in 0..4 {
            kill_process(pid, Signal::STOP).unwrap();
            std::thread::sleep(Duration::from_millis(60));
            kill_process(pid, Signal::CONT).unwrap();
            std::thread::sleep(Duration::from_millis(60));
        }
    };
    let found = (0..4).any(|_| scene.measure(5, &mut pauses).is_err());
    assert!(
        found,
        "a server that stands still half of the time looks as good as ever"
    );
    scene.finish();
}

/// A crowd that subscribes and never reads, while others publish to it as fast as the server takes it: who does not read
/// goes, the memory is bounded by the limit of all, and nobody waits for either side.
#[test]
fn subscribers_that_never_read() {
    const SUBSCRIBERS: usize = 60;
    const LIMIT: u64 = 64 * MIB;
    let _alone = alone();
    let options = IdemdOptions::default()
        .option("client-buffers-total", "64mb")
        .option("client-output-buffer-limit", "1mb");
    let mut scene = Scene::new("subscribers", &options);
    let (address, descriptors) = (scene.server().address(), scene.probe().descriptors() + 8);
    let publish = encode_command(&[b"PUBLISH", b"flood", &[b'm'; 10_000]]);
    let before = scene.probe().resident_bytes();
    scene.probe().reset_peak();
    let mut published = 0;
    scene.attack(|| {
        let crowd: Vec<_> = (0..SUBSCRIBERS)
            .map(|number| {
                let mut stream = attack::connect(address, number).unwrap();
                // Else the kernel would take the megabytes that a window brings.
                socket2::SockRef::from(&stream)
                    .set_recv_buffer_size(4096)
                    .unwrap();
                stream.write_all(b"SUBSCRIBE flood\r\n").unwrap();
                stream
            })
            .collect();
        published += attack::send_without_pause(address, 2, &publish, ATTACK);
        attack::leave(crowd);
    });
    let grown = grown(&scene, before);
    println!(
        "subscribers: {} MiB published, {} MiB more at the most",
        published / MIB,
        grown / MIB
    );
    // And what the bystanders keep: the windows of several measurements together.
    assert!(grown < 2 * LIMIT, "{grown} bytes");
    assert!(scene.info("client_output_buffer_limit_disconnections") > 0);
    scene.await_quiet(descriptors);
    assert_eq!(scene.info("pubsub_channels"), 0);
    assert!(scene.info("client_buffers_bytes") < MIB);
    scene.finish();
}
