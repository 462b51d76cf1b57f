//! A payment service to try everything on.
//!
//! ```text
//! cargo run -p idem-http --example payments -- --store 127.0.0.1:6379 --listen 127.0.0.1:8080
//!
//! curl -i -X POST http://127.0.0.1:8080/payments -H 'Authorization: Bearer acme:ada' \
//!      -H 'Idempotency-Key: 8e03978e' -H 'Content-Type: application/json' -d '{"amount":5}'     # twice
//! curl http://127.0.0.1:8080/runs
//! ```
//!
//! SIGTERM and SIGINT (Ctrl-C) end it in order: it takes no more requests, answers those that it has, and waits for
//! attempts whose clients are gone, each within the response timeout and 10 seconds.
//!
//! The login is a demonstration: it believes whatever it is told. What to copy is where it stands: outside of the layer,
//! so that it is asked on every request and on every replay.

use std::collections::BTreeMap;
use std::future::IntoFuture;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Extension, Path, Query, Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, ETAG, LOCATION, SET_COOKIE};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use bytes::Bytes;
use clap::{Parser, ValueEnum};
use idem_client::RedisStore;
use idem_http::{IdempotencyLayer, Principal, Profile};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};

/// The most that `POST /big` makes: enough to be over every limit.
const BIG_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What an attempt needs beside its handler's time, at the end: to store its answer, and a client to read it.
const LAST_SECONDS: Duration = Duration::from_secs(10);

/// A payment service whose requests run once.
#[derive(Parser)]
struct Flags {
    /// The idempotency store: HOST:PORT of an idemd, or a redis:// URL. It may be away, also at the start.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6379")]
    store: String,
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Whether a key that was used for another request is answered with 409 or, as the IETF's draft has it, with 422.
    #[arg(long, value_enum, default_value = "standard")]
    profile: ProfileName,
    /// The longest request body, 1 byte to 1 MiB.
    #[arg(long, value_name = "BYTES", default_value_t = 64 * 1024)]
    max_request: usize,
    /// The longest response body, 1 byte to 1 MiB.
    #[arg(long, value_name = "BYTES", default_value_t = 64 * 1024)]
    max_response: usize,
    /// How long answers are remembered, 1 ms to 7 days.
    #[arg(long, value_name = "MS", default_value_t = 24 * 60 * 60 * 1000)]
    retention_ms: u64,
    /// How long a handler has for its answer.
    #[arg(long, value_name = "MS", default_value_t = 30_000)]
    response_timeout_ms: u64,
    /// How many attempts may be under way at once.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    max_detached: usize,
    /// What tells this deployment's keys apart from another one's.
    #[arg(long, value_name = "NAME", default_value = "payments-example")]
    namespace: String,
}

#[derive(Clone, Copy, ValueEnum)]
enum ProfileName {
    Standard,
    Ietf,
}

/// Who was let in, by the demonstration login.
#[derive(Clone)]
struct Login {
    tenant: String,
    user: String,
}

/// How often each route's handler was started: what idempotency is about.
#[derive(Clone, Default)]
struct Runs(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl Runs {
    fn start(&self, route: &'static str) {
        *self.lock().entry(route).or_default() += 1;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match serve(Flags::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("payments: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(flags: Flags) -> Result<(), Box<dyn std::error::Error>> {
    let address = if flags.store.contains("://") {
        flags.store
    } else {
        format!("redis://{}", flags.store)
    };
    let response_timeout = Duration::from_millis(flags.response_timeout_ms);
    // Neither of these connects.
    let store = RedisStore::open(address.as_str()).map_err(|error| format!("--store: {error}"))?;
    let once = IdempotencyLayer::builder(store)
        .namespace(flags.namespace)
        .principal(|request| {
            let login = request.extensions.get::<Login>()?;
            Some(Principal::new("Bearer", "demonstration", login.user.as_str()))
        })
        // The tenant comes from the login, never from a header that the caller could have written.
        .scope(|request| {
            let login = request.extensions.get::<Login>();
            login.map(|login| login.tenant.clone()).unwrap_or_default()
        })
        .profile(match flags.profile {
            ProfileName::Standard => Profile::Standard,
            ProfileName::Ietf => Profile::Ietf,
        })
        .max_request_bytes(flags.max_request)
        .max_response_bytes(flags.max_response)
        .retention(Duration::from_millis(flags.retention_ms))
        .response_timeout(response_timeout)
        .max_detached(flags.max_detached)
        .challenge(HeaderValue::from_static("Bearer"))
        .build()?;

    let marked = Router::new()
        .route("/payments", post(create))
        .route("/payments/{id}", put(replace).delete(remove))
        .route("/slow", post(slow))
        .route("/status", post(status))
        .route("/panic", post(panic))
        .route("/big", post(big))
        .route("/empty", post(empty))
        // Only what has a handler: a method that a route does not have is answered by the router.
        .route_layer(once.clone());
    let unmarked = Router::new()
        .route("/plain", post(plain))
        .route("/runs", get(runs));
    let service = marked
        .merge(unmarked)
        .method_not_allowed_fallback(not_allowed)
        .layer(from_fn(log_in))
        .with_state(Runs::default());

    let listener = tokio::net::TcpListener::bind(flags.listen).await?;
    // Before the address is told: who knows it may send a signal.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    println!("listening on http://{}", listener.local_addr()?);
    let (stop, stopping) = tokio::sync::oneshot::channel::<()>();
    let server = axum::serve(listener, service).with_graceful_shutdown(async {
        let _ = stopping.await;
    });
    let mut server = std::pin::pin!(server.into_future());
    tokio::select! {
        ended = &mut server => return Ok(ended?),
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    let _ = stop.send(());
    // Bounded: a client that does not finish its request, or does not read, must not hold up the end.
    let served = timeout(response_timeout.saturating_add(LAST_SECONDS), server).await;
    // Attempts whose clients are gone, or are given up now, are not the server's to wait for. None takes longer than this.
    let idle = timeout(response_timeout.saturating_add(LAST_SECONDS), once.idle()).await;
    match (served, idle) {
        (Ok(ended), Ok(())) => Ok(ended?),
        (Err(_), Ok(())) => {
            Err("connections were still open at the end; what they had begun is stored".into())
        }
        (_, Err(_)) => Err("attempts were given up at the end: their keys stay pending".into()),
    }
}

/// `Authorization: Bearer TENANT:USER`. Whoever has none goes on as nobody: marked routes answer 401 themselves, in the
/// order that the layer keeps. An empty tenant or user is passed on, to show what the layer says to it.
async fn log_in(mut request: Request, next: Next) -> Response {
    let login = request
        .headers()
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("Bearer"))
        .and_then(|(_, token)| token.split_once(':'))
        .map(|(tenant, user)| Login {
            tenant: tenant.to_owned(),
            user: user.to_owned(),
        });
    if let Some(login) = login {
        request.extensions_mut().insert(login);
    }
    next.run(request).await
}

/// The router adds `Allow` with the methods of the route.
async fn not_allowed() -> Response {
    problem(StatusCode::METHOD_NOT_ALLOWED, "this resource has no such method")
}

/// Takes the body as bytes, so that a handler has started before it finds out that they are no JSON.
async fn create(State(runs): State<Runs>, body: Bytes) -> Response {
    runs.start("POST /payments");
    let Some(amount) = amount(&body) else {
        return problem(
            StatusCode::BAD_REQUEST,
            "send {\"amount\":n}, with a whole number",
        );
    };
    let id = fresh_id();
    let headers = [
        (LOCATION, format!("/payments/{id}")),
        (ETAG, format!("\"{id}\"")),
        // Belongs to this answer alone: a replay must not log anybody in.
        (SET_COOKIE, format!("session={}; HttpOnly; Path=/", fresh_id())),
    ];
    (
        StatusCode::CREATED,
        headers,
        Json(json!({ "id": id, "amount": amount })),
    )
        .into_response()
}

async fn replace(State(runs): State<Runs>, Path(id): Path<String>, body: Bytes) -> Response {
    runs.start("PUT /payments/{id}");
    match amount(&body) {
        Some(amount) => Json(json!({ "id": id, "amount": amount, "version": fresh_id() })).into_response(),
        None => problem(
            StatusCode::BAD_REQUEST,
            "send {\"amount\":n}, with a whole number",
        ),
    }
}

async fn remove(State(runs): State<Runs>, Path(id): Path<String>) -> Response {
    runs.start("DELETE /payments/{id}");
    Json(json!({ "id": id, "deleted": fresh_id() })).into_response()
}

/// `?ms=n`
async fn slow(State(runs): State<Runs>, Query(query): Query<BTreeMap<String, u64>>) -> Response {
    runs.start("POST /slow");
    let ms = query.get("ms").copied().unwrap_or(1000);
    sleep(Duration::from_millis(ms)).await;
    Json(json!({ "slept_ms": ms, "run": fresh_id() })).into_response()
}

/// `?code=n`
async fn status(State(runs): State<Runs>, Query(query): Query<BTreeMap<String, u16>>) -> Response {
    runs.start("POST /status");
    match query.get("code").map(|code| StatusCode::from_u16(*code)) {
        Some(Ok(status)) => (
            status,
            Json(json!({ "code": status.as_u16(), "run": fresh_id() })),
        )
            .into_response(),
        _ => problem(StatusCode::BAD_REQUEST, "code is 100 to 999"),
    }
}

async fn panic(State(runs): State<Runs>) -> Response {
    runs.start("POST /panic");
    panic!("as asked");
}

/// `?bytes=n`
async fn big(State(runs): State<Runs>, Query(query): Query<BTreeMap<String, usize>>) -> Response {
    runs.start("POST /big");
    let bytes = query.get("bytes").copied().unwrap_or(1024 * 1024);
    if bytes > BIG_BYTES_MAX {
        return problem(StatusCode::BAD_REQUEST, "bytes is at most 16777216");
    }
    ([(CONTENT_TYPE, "text/plain")], "x".repeat(bytes)).into_response()
}

async fn empty(State(runs): State<Runs>) -> StatusCode {
    runs.start("POST /empty");
    StatusCode::NO_CONTENT
}

async fn plain(State(runs): State<Runs>, login: Option<Extension<Login>>) -> Response {
    if login.is_none() {
        return problem(StatusCode::UNAUTHORIZED, "log in");
    }
    runs.start("POST /plain");
    Json(json!({ "run": fresh_id() })).into_response()
}

async fn runs(State(runs): State<Runs>) -> Json<BTreeMap<&'static str, u64>> {
    Json(runs.lock().clone())
}

fn amount(body: &[u8]) -> Option<u64> {
    serde_json::from_slice::<Value>(body)
        .ok()?
        .get("amount")?
        .as_u64()
}

/// 128 random bits, so that two runs never look like one.
fn fresh_id() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("a demonstration needs random bytes");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn problem(status: StatusCode, detail: &str) -> Response {
    let document = json!({
        "type": "about:blank",
        "title": status.canonical_reason().unwrap_or("Error"),
        "status": status.as_u16(),
        "detail": detail,
    });
    (
        status,
        [(CONTENT_TYPE, "application/problem+json")],
        document.to_string(),
    )
        .into_response()
}
