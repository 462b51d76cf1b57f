//! What the tests of the layer share: a store that can be told to fail, a handler that counts, and requests in one line.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full};
use idem_client::{Begin, Error, ErrorKind, MemoryStore, Store};
use idem_http::{Builder, IdempotencyLayer, Namespace, Principal, PrincipalFound, ScopeFound};
use tokio::sync::{Semaphore, mpsc};
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;
use tower_layer::Layer;

pub(crate) use axum::body::Body as RequestBody;

/// What happens to a command of the double.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    #[default]
    None,
    /// It does not arrive.
    Unreachable,
    /// It is carried out, and its answer is lost.
    AnswerLost,
    /// It is not carried out and answered with 0 (COMPLETE and ABORT).
    Zero,
}

/// A store in memory between whose commands a test can stand.
#[derive(Clone)]
pub(crate) struct Double {
    pub(crate) memory: MemoryStore,
    script: Arc<Script>,
}

#[derive(Default)]
struct Script {
    commands: Mutex<Vec<&'static str>>,
    begin: Mutex<Fault>,
    complete: Mutex<Fault>,
    abort: Mutex<Fault>,
    begin_gate: Mutex<Option<Arc<Gate>>>,
    complete_gate: Mutex<Option<Arc<Gate>>>,
}

/// Where a test holds somebody up: `reached` gets a permit for each arrival, `open` has to have one for each to go on.
pub(crate) struct Gate {
    pub(crate) reached: Semaphore,
    pub(crate) open: Semaphore,
}

impl Gate {
    pub(crate) fn new() -> Arc<Gate> {
        Arc::new(Gate {
            reached: Semaphore::new(0),
            open: Semaphore::new(0),
        })
    }

    pub(crate) async fn pass(&self) {
        self.reached.add_permits(1);
        self.open.acquire().await.unwrap().forget();
    }

    pub(crate) async fn wait_reached(&self) {
        soon(self.reached.acquire()).await.unwrap().forget();
    }

    pub(crate) fn let_one_through(&self) {
        self.open.add_permits(1);
    }
}

impl Double {
    pub(crate) fn new() -> Double {
        Double {
            memory: MemoryStore::new(),
            script: Arc::default(),
        }
    }

    pub(crate) fn fail_begin(&self, fault: Fault) {
        *self.script.begin.lock().unwrap() = fault;
    }

    pub(crate) fn fail_complete(&self, fault: Fault) {
        *self.script.complete.lock().unwrap() = fault;
    }

    pub(crate) fn fail_abort(&self, fault: Fault) {
        *self.script.abort.lock().unwrap() = fault;
    }

    pub(crate) fn hold_begin(&self) -> Arc<Gate> {
        let gate = Gate::new();
        *self.script.begin_gate.lock().unwrap() = Some(Arc::clone(&gate));
        gate
    }

    pub(crate) fn hold_complete(&self) -> Arc<Gate> {
        let gate = Gate::new();
        *self.script.complete_gate.lock().unwrap() = Some(Arc::clone(&gate));
        gate
    }

    pub(crate) fn hold_nothing(&self) {
        *self.script.begin_gate.lock().unwrap() = None;
        *self.script.complete_gate.lock().unwrap() = None;
    }

    /// The commands since the last call.
    pub(crate) fn commands(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.script.commands.lock().unwrap())
    }

    async fn at<T>(
        &self,
        name: &'static str,
        fault: &Mutex<Fault>,
        zero: T,
        run: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.script.commands.lock().unwrap().push(name);
        let fault = *fault.lock().unwrap();
        match fault {
            Fault::None => run.await,
            Fault::Unreachable => Err(Error::new(ErrorKind::Connection, "nobody is there", false)),
            Fault::AnswerLost => {
                run.await?;
                Err(Error::new(ErrorKind::Timeout, "no answer", true))
            }
            Fault::Zero => Ok(zero),
        }
    }
}

impl Store for Double {
    async fn begin(
        &self,
        key: &[u8],
        fingerprint: &[u8],
        owner: &[u8],
        ttl: Duration,
    ) -> Result<Begin, Error> {
        let gate = self.script.begin_gate.lock().unwrap().clone();
        if let Some(gate) = gate {
            gate.pass().await;
        }
        let run = self.memory.begin(key, fingerprint, owner, ttl);
        self.at("BEGIN", &self.script.begin, Begin::Pending, run).await
    }

    async fn complete(
        &self,
        key: &[u8],
        fingerprint: &[u8],
        owner: &[u8],
        result: &[u8],
    ) -> Result<bool, Error> {
        let gate = self.script.complete_gate.lock().unwrap().clone();
        if let Some(gate) = gate {
            gate.pass().await;
        }
        let run = self.memory.complete(key, fingerprint, owner, result);
        self.at("COMPLETE", &self.script.complete, false, run).await
    }

    async fn abort(&self, key: &[u8], fingerprint: &[u8], owner: &[u8]) -> Result<bool, Error> {
        let run = self.memory.abort(key, fingerprint, owner);
        self.at("ABORT", &self.script.abort, false, run).await
    }
}

/// A bound for what must happen soon: a failing test says so instead of hanging.
pub(crate) async fn soon<T>(event: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), event)
        .await
        .expect("it did not happen")
}

/// Runs a test on one thread of its own. Where nobody yields no timer is asked, [`soon`]'s neither: then the test fails
/// here, instead of hanging.
pub(crate) fn on_one_thread<F, Fut>(test: F)
where
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future<Output = ()>,
{
    let (end, ended) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(test());
        let _ = end.send(());
    });
    let waited = ended.recv_timeout(Duration::from_secs(20));
    assert_ne!(
        waited,
        Err(std::sync::mpsc::RecvTimeoutError::Timeout),
        "nobody yields"
    );
    thread.join().unwrap();
}

pub(crate) type Ready<S> = Builder<S, Namespace, PrincipalFound, ScopeFound>;

/// A layer for callers who say who they are in headers, which only a test may believe.
pub(crate) fn builder<S: Store>(store: S) -> Ready<S> {
    let text =
        |value: Option<&http::HeaderValue>| value.and_then(|value| value.to_str().ok()).map(str::to_owned);
    IdempotencyLayer::builder(store)
        .namespace("tests")
        .principal(move |parts| Some(Principal::new("test", "", text(parts.headers.get("x-user"))?)))
        .scope(move |parts| text(parts.headers.get("x-tenant")).unwrap_or_default())
}

pub(crate) type Answer = Response<Full<Bytes>>;

/// Counts how often it was started.
#[derive(Clone, Default)]
pub(crate) struct Runs(Arc<AtomicUsize>);

impl Runs {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn started(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }
}

/// Every run answers differently, so that a replay cannot be mistaken for a run.
pub(crate) fn numbered(runs: &Runs) -> Answer {
    let mut answer = Response::new(Full::from(format!("run {}", runs.started())));
    *answer.status_mut() = StatusCode::CREATED;
    answer
}

/// A service under test. Requests have any body, as they do behind a router.
pub(crate) type Service = BoxCloneSyncService<Request<RequestBody>, Answer, Infallible>;

/// A handler behind a layer.
pub(crate) fn marked<S, F, Fut, B>(builder: Ready<S>, handler: F) -> Service
where
    S: Store,
    F: Fn(Request<Full<Bytes>>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Send,
{
    let layer = builder.build().unwrap();
    BoxCloneSyncService::new(layer.layer(tower::service_fn(move |request| {
        let answer = handler(request);
        async move { Ok::<_, Infallible>(answer.await) }
    })))
}

/// A handler whose answers are numbered, behind a layer.
pub(crate) fn numbered_service<S: Store>(builder: Ready<S>) -> (Service, Runs) {
    let runs = Runs::default();
    let counting = runs.clone();
    let service = marked(builder, move |_| {
        let answer = numbered(&counting);
        async move { answer }
    });
    (service, runs)
}

/// A request of somebody known with a key.
pub(crate) fn post(uri: &str, key: &str, body: impl Into<RequestBody>) -> Request<RequestBody> {
    request("POST", uri, key, body)
}

pub(crate) fn request(
    method: &str,
    uri: &str,
    key: &str,
    body: impl Into<RequestBody>,
) -> Request<RequestBody> {
    Request::builder()
        .method(method)
        .uri(uri)
        .header("x-user", "ada")
        .header("x-tenant", "acme")
        .header("content-type", "application/json")
        .header("idempotency-key", key)
        .body(body.into())
        .unwrap()
}

/// An answer, read to its end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    /// The members of a problem document.
    pub(crate) fn problem(&self) -> serde_json::Value {
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{self:?}"
        );
        let document: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(document["status"], self.status);
        for member in ["type", "title", "detail"] {
            assert!(
                document[member].as_str().is_some_and(|text| !text.is_empty()),
                "{document}"
            );
        }
        document
    }

    pub(crate) fn problem_type(&self) -> String {
        self.problem()["type"].as_str().unwrap().to_owned()
    }

    pub(crate) fn detail(&self) -> String {
        self.problem()["detail"].as_str().unwrap().to_owned()
    }
}

pub(crate) async fn seen<B>(answer: Response<B>) -> Seen
where
    B: Body,
    B::Error: std::fmt::Debug,
{
    let (parts, body) = answer.into_parts();
    Seen {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: body.collect().await.unwrap().to_bytes(),
    }
}

pub(crate) async fn send(service: &Service, request: Request<RequestBody>) -> Seen {
    seen(soon(service.clone().oneshot(request)).await.unwrap()).await
}

/// A body that a test feeds, of unknown length: without `Content-Length`, and with trailers.
struct Fed(mpsc::UnboundedReceiver<Frame<Bytes>>);

impl Body for Fed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|frame| frame.map(Ok))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

pub(crate) fn fed() -> (mpsc::UnboundedSender<Frame<Bytes>>, RequestBody) {
    let (feed, frames) = mpsc::unbounded_channel();
    (feed, RequestBody::new(Fed(frames)))
}

/// Polls once, so that a request is sent and a test keeps the right to drop it.
pub(crate) async fn polled_once<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    std::future::poll_fn(|context| match Pin::new(&mut future).poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
