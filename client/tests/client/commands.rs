//! The typed methods, on each kind of connection and in both protocols.

use std::time::Duration;

use idem_client::{
    AsyncIdempotencyCommands, Begin, Error, ErrorKind, IdempotencyCommands, IdempotencyPipeline, Inspection,
    LazyConnection, Limit, LimitMode, RedisStore, State, Store,
};

use crate::support::Server;

const TTL: Duration = Duration::from_secs(60);
const WINDOW: Duration = Duration::from_secs(60);

/// What COMPLETE stores here: bytes that are no text (idem-29: results come back byte for byte).
const RESULT: &[u8] = b"\x00\xff\r\n";

macro_rules! awaited {
    ($call:expr) => {
        $call.await.unwrap()
    };
}

macro_rules! blocking {
    ($call:expr) => {
        $call.unwrap()
    };
}

/// The names of the methods are those of both traits; what they are called on differs, and whether they are awaited.
macro_rules! a_life {
    ($connection:expr, $server:expr, $name:literal, $ask:ident) => {{
        let key = $server.key($name);
        let connection = $connection;
        assert_eq!($ask!(connection.idempotency_inspect(&key)), None);
        assert_eq!(
            $ask!(connection.idempotency_begin(&key, b"f\x00", "a", TTL)),
            Begin::Acquired
        );
        assert_eq!(
            $ask!(connection.idempotency_begin(&key, b"f\x00", "b", TTL)),
            Begin::Pending
        );
        assert_eq!(
            $ask!(connection.idempotency_begin(&key, "other", "b", TTL)),
            Begin::Conflict
        );
        check_pending($ask!(connection.idempotency_inspect(&key)));
        assert!(!$ask!(connection.idempotency_abort(&key, b"f\x00", "b")));
        assert!(!$ask!(
            connection.idempotency_complete(&key, b"f\x00", "b", RESULT)
        ));
        assert!($ask!(
            connection.idempotency_complete(&key, b"f\x00", "a", RESULT)
        ));
        assert!($ask!(
            connection.idempotency_complete(&key, b"f\x00", "a", RESULT)
        ));
        assert!(!$ask!(connection.idempotency_abort(&key, b"f\x00", "a")));
        assert_eq!(
            $ask!(connection.idempotency_begin(&key, b"f\x00", "c", TTL)),
            Begin::Completed(RESULT.to_vec())
        );
        let key = $server.key(concat!($name, ":aborted"));
        assert_eq!(
            $ask!(connection.idempotency_begin(&key, "f", "a", TTL)),
            Begin::Acquired
        );
        assert!($ask!(connection.idempotency_abort(&key, "f", "a")));

        let key = $server.key(concat!($name, ":once"));
        assert!($ask!(connection.once(&key, TTL)));
        assert!(!$ask!(connection.once(&key, TTL)));
        for (mode, suffix) in MODES {
            let key = $server.key(&format!("{}:{suffix}", $name));
            for left in [1, 0] {
                assert_eq!(
                    $ask!(connection.limit(&key, 2, WINDOW, mode)),
                    Limit::Allowed { left }
                );
            }
            check_refused($ask!(connection.limit(&key, 2, WINDOW, mode)), mode);
        }
    }};
}

const MODES: [(LimitMode, &str); 3] = [
    (LimitMode::Fixed, "fixed"),
    (LimitMode::Sliding, "sliding"),
    (LimitMode::Tokens { cost: 1 }, "tokens"),
];

fn check_pending(found: Option<Inspection>) {
    let found = found.unwrap();
    assert_eq!(
        (
            found.state,
            found.fingerprint.as_slice(),
            found.owner.as_slice(),
            found.result_bytes
        ),
        (State::Pending, b"f\x00".as_slice(), b"a".as_slice(), 0)
    );
    assert!(found.ttl <= TTL && found.ttl > TTL / 2);
}

fn check_refused(answer: Limit, mode: LimitMode) {
    let Limit::Refused { retry_after } = answer else {
        panic!("the third call of two fits: {mode:?}");
    };
    assert!(
        retry_after > Duration::ZERO && retry_after <= 2 * WINDOW,
        "{mode:?}: {retry_after:?}"
    );
    assert!(!answer.is_allowed());
}

#[tokio::test]
async fn on_asynchronous_connections() {
    let Some(server) = Server::find("on_asynchronous_connections") else {
        return;
    };
    for resp3 in [false, true] {
        let client = server.client(resp3);
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        if resp3 {
            a_life!(&mut connection, server, "three", awaited);
        } else {
            a_life!(&mut connection, server, "two", awaited);
        }
    }
    let mut connection = LazyConnection::new(&server.client(false)).unwrap();
    a_life!(&mut connection, server, "lazy", awaited);
}

#[test]
fn on_blocking_connections() {
    let Some(server) = Server::find("on_blocking_connections") else {
        return;
    };
    a_life!(
        &mut server.client(false).get_connection().unwrap(),
        server,
        "two",
        blocking
    );
    a_life!(
        &mut server.client(true).get_connection().unwrap(),
        server,
        "blocking three",
        blocking
    );
    // A client is a connection of its own for each command.
    a_life!(&mut server.client(false), server, "client", blocking);
}

/// A connection that the application has already, with its own time-outs.
#[tokio::test]
async fn a_store_over_a_connection_of_the_callers() {
    let Some(server) = Server::find("a_store_over_a_connection") else {
        return;
    };
    let connection = server
        .client(false)
        .get_multiplexed_async_connection()
        .await
        .unwrap();
    let store = RedisStore::from_connection(connection);
    let key = server.key("k").into_bytes();
    assert_eq!(store.begin(&key, b"f", b"a", TTL).await.unwrap(), Begin::Acquired);
    assert!(store.abort(&key, b"f", b"a").await.unwrap());
    assert_eq!(
        store.clone().begin(&key, b"f", b"b", TTL).await.unwrap(),
        Begin::Acquired
    );
    assert!(store.complete(&key, b"f", b"b", RESULT).await.unwrap());
    assert_eq!(
        store.inspect(&key).await.unwrap().unwrap().state,
        State::Completed
    );
}

#[tokio::test]
async fn in_pipelines_and_transactions() {
    let Some(server) = Server::find("in_pipelines_and_transactions") else {
        return;
    };
    for (resp3, is_atomic) in [(false, false), (false, true), (true, false), (true, true)] {
        let key = server.key(&format!("k{resp3}{is_atomic}"));
        let other = server.key(&format!("o{resp3}{is_atomic}"));
        let mut pipeline = redis::pipe();
        if is_atomic {
            pipeline.atomic();
        }
        pipeline
            .idempotency_begin(&key, "f", "a", TTL)
            .and_then(|pipeline| pipeline.idempotency_complete(&key, "f", "a", RESULT))
            .and_then(|pipeline| pipeline.idempotency_abort(&key, "f", "a"))
            .and_then(|pipeline| pipeline.once(&other, TTL))
            .and_then(|pipeline| {
                pipeline.limit(format!("{other}:l"), 9, WINDOW, LimitMode::Tokens { cost: 4 })
            })
            .and_then(|pipeline| pipeline.idempotency_inspect(&key))
            .and_then(|pipeline| pipeline.idempotency_inspect(format!("{key}:missing")))
            .unwrap();
        // What is out of bounds is not added.
        let count = pipeline.len();
        assert!(pipeline.idempotency_begin(&key, "", "a", TTL).is_err());
        assert_eq!(pipeline.len(), count);

        type Answers = (
            Begin,
            bool,
            bool,
            bool,
            Limit,
            Option<Inspection>,
            Option<Inspection>,
        );
        let mut connection = server
            .client(resp3)
            .get_multiplexed_async_connection()
            .await
            .unwrap();
        let answers: Answers = pipeline.query_async(&mut connection).await.unwrap();
        assert_eq!(
            (answers.0, answers.1, answers.2, answers.3),
            (Begin::Acquired, true, false, true)
        );
        assert_eq!(answers.4, Limit::Allowed { left: 5 });
        assert_eq!(answers.5.map(|found| found.state), Some(State::Completed));
        assert_eq!(answers.6, None);
    }
}

#[test]
fn an_error_inside_of_a_pipeline_may_have_others_beside_it() {
    let Some(server) = Server::find("an_error_inside_of_a_pipeline") else {
        return;
    };
    let key = server.key("string");
    let mut connection = server.client(false).get_connection().unwrap();
    let mut pipeline = redis::pipe();
    pipeline.cmd("SET").arg(&key).arg("text").ignore();
    pipeline.idempotency_begin(&key, "f", "a", TTL).unwrap();
    let error: Error = pipeline.query::<(Begin,)>(&mut connection).unwrap_err().into();
    assert_eq!((error.kind(), error.may_have_run()), (ErrorKind::WrongType, true));
    // Alone it is one that has not.
    let error = connection.idempotency_begin(&key, "f", "a", TTL).unwrap_err();
    assert_eq!(
        (error.kind(), error.may_have_run()),
        (ErrorKind::WrongType, false)
    );
    assert!(!error.is_transient());
}

#[test]
fn arguments_are_refused_before_anything_is_sent() {
    // Nobody listens there: what is sent fails with a connection.
    let mut nobody = redis::Client::open(format!("redis://{}/", crate::support::closed_address())).unwrap();
    let long = [b'x'; 129];
    let results = [
        nobody.idempotency_begin("k", "", "o", TTL).map(drop),
        nobody.idempotency_begin("k", long, "o", TTL).map(drop),
        nobody.idempotency_begin("k", "f", "", TTL).map(drop),
        nobody
            .idempotency_begin("k", "f", "o", Duration::from_micros(1_500))
            .map(drop),
        nobody
            .idempotency_complete("k", "f", "o", vec![0; 4_194_305])
            .map(drop),
        nobody.idempotency_abort("k", "f", long).map(drop),
        nobody
            .idempotency_inspect(vec![b'k'; idem_client::KEY_BYTES + 1])
            .map(drop),
        nobody.once("k", Duration::ZERO).map(drop),
        nobody.limit("k", 0, WINDOW, LimitMode::Fixed).map(drop),
    ];
    for result in results {
        let error = result.unwrap_err();
        assert_eq!(
            (error.kind(), error.may_have_run()),
            (ErrorKind::InvalidArgument, false),
            "{error}"
        );
    }
    // Nothing was sent here, but a connection that repeats commands ends in the same words.
    let error = nobody.once("k", TTL).unwrap_err();
    assert_eq!(
        (error.kind(), error.may_have_run()),
        (ErrorKind::Connection, true)
    );
}
