//! What the layer shows of itself: nothing, or one span and one counter with the outcome and nothing else.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use metrics::{Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use tower::ServiceExt;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};

use crate::support::{Double, Fault, Gate, builder, fed, marked, numbered_service, polled_once, post, send};

#[derive(Clone, Debug, Default)]
struct Counters(Arc<Mutex<BTreeMap<String, u64>>>);

struct One(Counters, String);

impl CounterFn for One {
    fn increment(&self, value: u64) {
        *self.0.0.lock().unwrap().entry(self.1.clone()).or_default() += value;
    }

    fn absolute(&self, _: u64) {}
}

impl Recorder for Counters {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels = key
            .labels()
            .map(|label| format!(" {}={}", label.key(), label.value()));
        let name = format!("{}{}", key.name(), labels.collect::<String>());
        Counter::from_arc(Arc::new(One(self.clone(), name)))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// All spans and events of the layer, as text.
#[derive(Clone, Debug, Default)]
struct Heard(Arc<Mutex<String>>);

impl Visit for Heard {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = write!(self.0.lock().unwrap(), "{}={value:?} ", field.name());
    }
}

impl Subscriber for Heard {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("idem_http")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let _ = write!(self.0.lock().unwrap(), "{}: ", span.metadata().name());
        span.record(&mut self.clone());
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Each outcome once, and what was counted and said of it.
fn observe(instrumented: bool) -> (BTreeMap<String, u64>, String) {
    let (counters, heard) = (Counters::default(), Heard::default());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let requests = async {
        let store = Double::new();
        let (service, _) = numbered_service(builder(store.clone()).instrument(instrumented));
        send(&service, post("/secret", "secret-key", "secret")).await;
        send(&service, post("/secret", "secret-key", "secret")).await;
        send(&service, post("/secret", "secret-key", "other")).await;
        send(&service, post("/secret", "", "")).await;
        store.fail_begin(Fault::Unreachable);
        send(&service, post("/secret", "secret-key", "secret")).await;
        store.fail_begin(Fault::None);
        store.fail_complete(Fault::Zero);
        send(&service, post("/secret", "lost", "secret")).await;
        send(&service, post("/secret", "lost", "secret")).await;
        let unstored = builder(store).instrument(instrumented).store_status(|_| false);
        let (service, _) = numbered_service(unstored);
        send(&service, post("/secret", "unstored", "")).await;
        let panicking = builder(Double::new()).instrument(instrumented);
        let service = marked(panicking, |request| async move {
            assert_eq!(request.method(), "GET", "as asked");
            Response::new(Full::<Bytes>::default())
        });
        send(&service, post("/secret", "panic", "")).await;
    };
    metrics::with_local_recorder(&counters, || {
        tracing::subscriber::with_default(heard.clone(), || runtime.block_on(requests));
    });
    let counted = counters.0.lock().unwrap().clone();
    let said = heard.0.lock().unwrap().clone();
    (counted, said)
}

/// What begins nothing is not counted as failed: the client leaves while it sends, a time-out outside, a panic of the
/// application's own closure. What has begun is, whatever drops it.
#[test]
fn only_what_has_begun_can_fail() {
    let counters = Counters::default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let unbegun = async {
        let (service, runs) = numbered_service(builder(Double::new()).instrument(true));
        let (feed, body) = fed();
        let mut leaving = Box::pin(service.clone().oneshot(post("/", "k", body)));
        assert!(polled_once(leaving.as_mut()).await.is_none());
        drop((leaving, feed));
        let (_feed, body) = fed();
        let waited = tokio::time::timeout(Duration::from_millis(5), send(&service, post("/", "k", body)));
        assert!(waited.await.is_err());
        for panicking in [
            builder(Double::new()).principal(|_| panic!("as asked")),
            builder(Double::new()).scope(|_| panic!("as asked")),
        ] {
            let (service, _) = numbered_service(panicking.instrument(true));
            let panicked = tokio::spawn(async move { send(&service, post("/", "k", "")).await }).await;
            assert!(panicked.unwrap_err().is_panic());
        }
        assert_eq!(runs.count(), 0);
    };
    let gate = Gate::new();
    let held = gate.clone();
    metrics::with_local_recorder(&counters, || {
        runtime.block_on(unbegun);
        assert_eq!(*counters.0.lock().unwrap(), BTreeMap::new());
        runtime.block_on(async move {
            let service = marked(builder(Double::new()).instrument(true), move |_| {
                let held = held.clone();
                async move {
                    held.pass().await;
                    Response::new(Full::<Bytes>::default())
                }
            });
            let mut answer = Box::pin(service.oneshot(post("/", "k", "")));
            assert!(polled_once(answer.as_mut()).await.is_none());
            gate.wait_reached().await;
        });
        // Its attempt ends with the runtime.
        drop(runtime);
    });
    let failed = BTreeMap::from([("idem_http_outcomes_total outcome=failed".to_owned(), 1)]);
    assert_eq!(*counters.0.lock().unwrap(), failed);
}

#[test]
fn off_by_default() {
    assert_eq!(observe(false), (BTreeMap::new(), String::new()));
}

#[test]
fn outcomes_and_nothing_else() {
    let (counted, said) = observe(true);
    let expected = [
        ("conflict", 1),
        ("executed", 1),
        ("failed", 2),
        ("not_stored", 1),
        ("pending", 1),
        ("refused", 1),
        ("replayed", 1),
        ("unavailable", 1),
    ];
    let named =
        expected.map(|(outcome, count)| (format!("idem_http_outcomes_total outcome={outcome}"), count));
    assert_eq!(counted, BTreeMap::from(named));
    for (outcome, _) in expected {
        assert!(
            said.contains(&format!("outcome=\"{outcome}\"")),
            "{outcome}: {said}"
        );
    }
    assert!(said.contains("kind=Connection may_have_run=false"), "{said}");
    for secret in ["secret", "ada", "acme", "lost", "idem:"] {
        assert!(!said.contains(secret), "{secret}: {said}");
    }
}
