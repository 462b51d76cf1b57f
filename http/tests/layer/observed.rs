//! What the layer shows of itself: nothing, or one span and one counter with the outcome and nothing else.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use metrics::{Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};

use crate::support::{Double, Fault, builder, marked, numbered_service, post, send};

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
