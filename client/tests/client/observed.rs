//! What an executor shows of itself: one counter, one span, and no keys and values.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};

use idem_client::{ErrorKind, IdempotentExecutor};
use metrics::{Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};

use crate::executor::OutOfStock;
use crate::recording::{Fault, Recording};

/// Counters by name and labels.
#[derive(Debug, Default)]
struct Counters(Arc<Mutex<BTreeMap<String, u64>>>);

#[derive(Debug)]
struct One(Arc<Mutex<BTreeMap<String, u64>>>, String);

impl CounterFn for One {
    fn increment(&self, value: u64) {
        *self.0.lock().unwrap().entry(self.1.clone()).or_default() += value;
    }

    fn absolute(&self, _value: u64) {}
}

impl Recorder for Counters {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels: Vec<String> = key
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()))
            .collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        Counter::from_arc(Arc::new(One(Arc::clone(&self.0), name)))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// Everything that is said, at every level, as text.
#[derive(Clone, Debug, Default)]
struct Heard(Arc<Mutex<(String, usize)>>);

impl Visit for Heard {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let mut heard = self.0.lock().unwrap();
        let _ = write!(heard.0, "{}={value:?} ", field.name());
    }
}

impl Subscriber for Heard {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("idem_client")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut self.clone());
        self.0.lock().unwrap().0.push_str(span.metadata().name());
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
        if *event.metadata().level() == Level::WARN {
            self.0.lock().unwrap().1 += 1;
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn outcomes_are_counted_and_nothing_of_a_call_is_told() {
    let counters = Counters::default();
    let heard = Heard::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    metrics::with_local_recorder(&counters, || {
        tracing::subscriber::with_default(heard.clone(), || runtime.block_on(calls()));
    });
    let counted: Vec<(String, u64)> = counters.0.lock().unwrap().clone().into_iter().collect();
    let expected = [
        ("aborted", 1),
        ("conflict", 1),
        ("executed", 2),
        ("pending", 1),
        ("replayed", 1),
    ]
    .map(|(outcome, count)| (format!("idem_outcomes_total{{outcome={outcome}}}"), count));
    assert_eq!(counted, expected);
    let (text, warnings) = heard.0.lock().unwrap().clone();
    assert!(
        text.contains("idem_execute_once") && text.contains("replayed"),
        "{text}"
    );
    assert!(!text.contains("secret"), "{text}");
    // Three times a server without ABORT and twice another failure: each kind is a warning once.
    assert_eq!(warnings, 2, "{text}");
}

/// Every key, fingerprint, value and error of the work has the word `secret` in it.
async fn calls() {
    let store = Recording::new();
    let builder = IdempotentExecutor::builder(store.clone(), "secret-prefix:");
    let once = builder.abort_on_error(true).build().unwrap();
    let succeed = || async { Ok::<_, OutOfStock>("secret-value".to_owned()) };
    let fail = || async { Err::<String, _>(OutOfStock) };
    for (key, fingerprint) in [
        ("secret-1", "secret-f"),
        ("secret-1", "secret-f"),
        ("secret-1", "secret-g"),
    ] {
        let _ = once.execute_once(key, fingerprint, None, succeed).await.unwrap();
    }
    let nested = async || {
        let _ = once.execute_once("secret-2", None, None, succeed).await.unwrap();
        Ok::<_, OutOfStock>(String::new())
    };
    let _ = once.execute_once("secret-2", None, None, nested).await.unwrap();
    once.execute_once("secret-3", None, None, fail).await.unwrap_err();
    for number in 0..3 {
        store.fail_next("abort", Fault::Refused(ErrorKind::Unsupported));
        once.execute_once(format!("secret-u{number}"), None, None, fail)
            .await
            .unwrap_err();
    }
    for number in 0..2 {
        store.fail_next("abort", Fault::CommandLost);
        once.execute_once(format!("secret-l{number}"), None, None, fail)
            .await
            .unwrap_err();
    }
}
