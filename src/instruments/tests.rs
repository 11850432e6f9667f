//! Tests of the catalogue against the contract, and what the tests of the outlets share: objects
//! with a past, and a clock that stands.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use jiff::{SignedDuration, Timestamp};

use super::catalogue::{Kind, OWN, Scope, catalogue};
use super::names::{label, prometheus, scope_of};
use super::render::{Form, render};
use crate::clock::Clock;
use crate::model::{Attributes, Availability, Counts, Event, Family};
use crate::snapshot::{Conditions, ObjectView};
use crate::summary::Fold;

/// A clock that stands where it is set.
pub(crate) struct StandingClock(pub(crate) Mutex<Timestamp>);

impl Clock for StandingClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    fn sleep_until(&self, _: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::pending())
    }
}

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_775_690_000 + seconds).unwrap()
}

pub(crate) fn text(text: &str) -> Arc<str> {
    Arc::from(text)
}

/// The events of an object whose stretches, up and down in turn and the running one last, end at
/// `now`. The first event is a down; `initial` nanoseconds later it is up.
pub(crate) fn events(now: Timestamp, initial: i64, stretches: &[i64]) -> Vec<Event> {
    let total = initial + stretches.iter().sum::<i64>();
    let mut timestamp = now.checked_sub(SignedDuration::from_nanos(total)).unwrap();
    let event = |up, timestamp| Event {
        up,
        expected_down: false,
        timestamp,
        bounds: None,
    };
    let mut events = vec![event(false, timestamp)];
    let mut before = initial;
    for (n, stretch) in stretches.iter().enumerate() {
        timestamp = timestamp
            .checked_add(SignedDuration::from_nanos(before))
            .unwrap();
        events.push(event(n % 2 == 0, timestamp));
        before = *stretch;
    }
    events
}

/// An object as the small fleet's are: up if its last event says so, nothing unknown.
pub(crate) fn object(name: &str, expected: i64, events: &[Event]) -> ObjectView {
    let fold = Fold::of(events);
    let up = fold.is_some_and(|fold| fold.last().up);
    ObjectView {
        key: text(name),
        attributes: Arc::new(Attributes {
            name: text(name),
            tpu_topology: text("8x8"),
            tpu_accelerator: text("tpu-v5-lite-podslice"),
            ..Attributes::default()
        }),
        availability: Availability {
            counts: Counts {
                expected,
                ready: expected - i64::from(!up),
                unknown: 0,
            },
            expected_down: false,
            up,
        },
        chips: 64,
        status: text(""),
        conditions: Conditions::default(),
        fold,
        found: false,
        failed: None,
        stands: None,
        only_provisioning: false,
    }
}

/// The names of the contract, parts 1, 2 and 5 (what other rooms will publish aside).
#[test]
fn the_catalogue_is_the_contract() {
    let mut expected: BTreeSet<String> = BTreeSet::new();
    for family in ["jobset", "jobset.nodes", "nodepool", "slice", "lws"] {
        for instrument in [
            "up",
            "up.time",
            "down.time",
            "interruption.count",
            "recovery.count",
            "down.time.initial",
            "down.time.between.recovery",
            "down.time.between.recovery.mean",
            "down.time.between.recovery.latest",
            "up.time.between.interruption",
            "up.time.between.interruption.mean",
            "up.time.between.interruption.latest",
            "tpu.chip.count",
            "expected",
            "ready",
            "unknown",
            "expected.down",
        ] {
            expected.insert(format!("{family}.{instrument}"));
        }
    }
    expected.extend(
        [
            "jobset.condition",
            "nodepool.job.scheduled",
            "nodepool.provisioning.duration",
            "build.info",
            "gke.latency",
            "aggregation.duration",
            "reconcile.duration",
            "reconcile",
            "watch.restarts",
            "watch.lag",
            "objects.undecodable",
            "source.last_success",
            "history.pending",
            "history.pending.age",
            "export.failures",
            "export.rejected",
            "series",
            "series.dropped",
        ]
        .map(str::to_owned),
    );
    let names: BTreeSet<String> = catalogue().iter().map(|i| i.name.to_string()).collect();
    assert_eq!(names, expected);
}

#[test]
fn no_two_instruments_come_to_one_name() {
    let mut names: BTreeMap<String, &str> = BTreeMap::new();
    for instrument in catalogue() {
        let name = instrument.prometheus_name("megamon.alpha");
        // A histogram's samples have names of their own.
        let samples = match instrument.kind {
            Kind::Histogram => vec!["_bucket", "_sum", "_count"],
            Kind::Gauge | Kind::Counter => vec![""],
        };
        for suffix in samples {
            let before = names.insert(format!("{name}{suffix}"), &instrument.name);
            assert_eq!(before, None, "{} and {}", instrument.name, name);
        }
    }
}

#[test]
fn every_entry_keeps_the_rules() {
    for instrument in catalogue() {
        let name = &instrument.name;
        assert!(["", "s"].contains(&instrument.unit), "{name}: unit");
        assert!(!instrument.description.is_empty(), "{name}: description");
        assert!(!instrument.description.contains('{'), "{name}: description");
        assert!(instrument.attributes.is_sorted(), "{name}: attributes");
        assert!(instrument.boundaries.is_sorted(), "{name}: boundaries");
        assert_eq!(
            instrument.boundaries.is_empty(),
            instrument.kind != Kind::Histogram,
            "{name}: boundaries"
        );
        assert_eq!(
            instrument.family == OWN,
            instrument.scope == Scope::Own,
            "{name}: scope"
        );
        if instrument.scope == Scope::Fleet {
            assert_eq!(
                instrument.kind,
                Kind::Gauge,
                "{name}: fleet series are gauges"
            );
            assert!(
                Family::ALL.iter().any(|f| f.name() == instrument.family),
                "{name}: family"
            );
        }
    }
}

#[test]
fn names_in_prometheus_follow_the_rule() {
    for (name, unit, counter, expected) in [
        (
            "megamon.alpha.jobset.up",
            "",
            false,
            "megamon_alpha_jobset_up",
        ),
        ("a.up.time", "s", false, "a_up_time_seconds"),
        ("a.reconcile", "", true, "a_reconcile_total"),
        (
            "process.memory.usage",
            "By",
            false,
            "process_memory_usage_bytes",
        ),
        ("a", "{event}", false, "a"),
        ("a", "1", false, "a_ratio"),
        ("a", "By/s", false, "a_bytes_per_second"),
        ("a", "1/s", false, "a_per_second"),
        ("a-b/c", "", false, "a_b_c"),
        ("1a", "", false, "_1a"),
    ] {
        assert_eq!(prometheus(name, unit, counter), expected);
    }
    for (key, expected) in [
        ("tpu.topology", "tpu_topology"),
        ("provisioning_state", "provisioning_state"),
        ("0day", "_0day"),
        ("a:b", "a_b"),
        ("karpenter.sh/nodepool", "karpenter_sh_nodepool"),
        ("ключ", "____"),
        ("", "_"),
    ] {
        assert_eq!(label(key), expected);
    }
}

#[test]
fn a_metric_tells_whose_series_it_has() {
    for prefix in ["megamon.alpha", "megamon", "a-b.own_prefix", "up"] {
        for instrument in catalogue() {
            for name in [
                instrument.otel_name(prefix),
                instrument.prometheus_name(prefix),
            ] {
                assert_eq!(scope_of(&name), instrument.scope, "{name}");
            }
        }
    }
    assert_eq!(scope_of("process.cpu.time"), Scope::Own);
    assert_eq!(scope_of("tokio.runtime.workers"), Scope::Own);
}

#[test]
fn the_catalogue_is_written_in_each_form() {
    let json: serde_json::Value =
        serde_json::from_str(&render("megamon.alpha", Form::Json)).unwrap();
    let entries = json.as_array().unwrap();
    assert_eq!(entries.len(), catalogue().len());
    let entry = entries
        .iter()
        .find(|entry| entry["name"] == "nodepool.provisioning.duration")
        .unwrap();
    assert_eq!(
        entry["prometheusName"],
        "megamon_alpha_nodepool_provisioning_duration_seconds"
    );
    assert_eq!(entry["kind"], "gauge");
    assert_eq!(entry["unit"], "s");
    assert_eq!(entry["family"], "nodepool");
    assert_eq!(entry["scope"], "fleet");
    assert_eq!(
        entry["attributes"],
        serde_json::json!([
            "nodepool.name",
            "provisioning_state",
            "spot",
            "tpu.accelerator",
            "tpu.topology"
        ])
    );
    let table = render("megamon.alpha", Form::Table);
    assert_eq!(table.lines().count(), catalogue().len() + 1);
    let markdown = render("megamon.alpha", Form::Markdown);
    assert_eq!(markdown.lines().count(), catalogue().len() + 2);
    assert!(
        markdown
            .lines()
            .all(|line| line.matches(" | ").count() == 4 || line.starts_with("|---"))
    );
}
