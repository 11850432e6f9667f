//! The report against its contract.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::clock::{Clock, SharedClock};
use crate::measure::{Measurement, Recorder};
use crate::model::{Availability, Counts, Event};
use crate::snapshot::{Published, Table};
use crate::summary::Fold;

pub(super) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn event(up: bool, ed: bool, timestamp: &str) -> Event {
    Event {
        up,
        expected_down: ed,
        timestamp: at(timestamp),
        bounds: None,
    }
}

pub(super) fn view(name: &str, events: &[Event]) -> ObjectView {
    ObjectView {
        key: name.into(),
        attributes: Arc::new(Attributes {
            name: name.into(),
            ..Attributes::default()
        }),
        availability: Availability::default(),
        chips: 0,
        status: "".into(),
        conditions: crate::snapshot::Conditions::default(),
        fold: Fold::of(events),
        found: false,
        failed: None,
        stands: None,
        only_provisioning: false,
    }
}

pub(super) fn snapshot(objects: &[(Family, ObjectView)]) -> Snapshot {
    let mut snapshot = Snapshot::default();
    snapshot.history.replayed = true;
    for family in Family::ALL {
        let mut table = Table::default();
        let views = objects.iter().filter(|(of, _)| *of == family);
        for (slot, (_, view)) in views.enumerate() {
            table.set(slot, Some(Arc::new(view.clone())));
        }
        snapshot.families[family.index()] = Some(table);
    }
    snapshot
}

fn report(snapshot: Snapshot, now: &str) -> Value {
    let collection = Collection {
        snapshot: Arc::new(snapshot),
        now: at(now),
    };
    serde_json::from_slice(&render(&collection).unwrap()).unwrap()
}

const KEYS: [&str; 11] = [
    "jobSetNodesUp",
    "jobSetNodesUpSummaries",
    "jobSetsUp",
    "jobSetsUpSummaries",
    "leaderWorkerSetsUp",
    "leaderWorkerSetsUpSummaries",
    "nodePoolScheduling",
    "nodePoolsUp",
    "nodePoolsUpSummaries",
    "slicesUp",
    "slicesUpSummaries",
];

#[test]
fn every_key_is_there_also_when_it_is_empty() {
    for report in [
        report(Snapshot::default(), "2026-03-01T08:00:00Z"),
        report(snapshot(&[]), "2026-03-01T08:00:00Z"),
    ] {
        let mut keys: Vec<_> = report.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        assert_eq!(keys, KEYS);
        assert!(
            report
                .as_object()
                .unwrap()
                .values()
                .all(|map| *map == json!({}))
        );
    }
}

#[test]
fn each_family_has_its_own_attribute_names_and_leaves_out_what_is_empty() {
    let full = |name: &str| {
        let mut view = view(name, &[]);
        view.attributes = Arc::new(Attributes {
            name: name.into(),
            namespace: "ns".into(),
            uid: "u".into(),
            tpu_topology: "2x2x1".into(),
            tpu_accelerator: "tpu7x".into(),
            spot: true,
            owner_kind: "JobSet".into(),
            owner_name: "o".into(),
            owner_namespace: "ons".into(),
            ..Attributes::default()
        });
        view.chips = 4;
        view.status = "S".into();
        view.availability = Availability {
            counts: Counts {
                expected: 3,
                ready: 2,
                unknown: 1,
            },
            expected_down: true,
            up: false,
        };
        view
    };
    let counts = json!({
        "expectedCount": 3, "readyCount": 2, "unknownCount": 1, "expectedDown": true, "status": "S",
        "tpuTopology": "2x2x1", "tpuAccelerator": "tpu7x", "tpuChipCount": 4,
    });
    let with = |more: Value| {
        let mut all = counts.clone();
        all.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        all
    };
    let objects = Family::ALL.map(|family| (family, full("x")));
    let report = report(snapshot(&objects), "2026-03-01T08:00:00Z");
    let jobset =
        with(json!({"jobsetName": "x", "jobsetNamespace": "ns", "jobsetUID": "u", "spot": true}));
    assert_eq!(report["jobSetsUp"]["x"], jobset);
    assert_eq!(report["jobSetNodesUp"]["x"], jobset);
    assert_eq!(
        report["leaderWorkerSetsUp"]["x"],
        with(json!({"lwsName": "x", "lwsNamespace": "ns", "lwsUID": "u", "spot": true}))
    );
    assert_eq!(
        report["nodePoolsUp"]["x"],
        with(json!({"nodePoolName": "x", "spot": true}))
    );
    assert_eq!(
        report["slicesUp"]["x"],
        with(json!({
            "sliceName": "x", "sliceUID": "u", "sliceOwnerKind": "JobSet", "sliceOwnerName": "o",
            "sliceOwnerNamespace": "ons", "spot": true,
        }))
    );
    let bare = self::report(
        snapshot(&[(Family::NodePool, view("p", &[]))]),
        "2026-03-01T08:00:00Z",
    );
    assert_eq!(
        bare["nodePoolsUp"]["p"],
        json!({
            "expectedCount": 0, "readyCount": 0, "unknownCount": 0, "expectedDown": false,
            "nodePoolName": "p",
        })
    );
}

#[test]
fn a_summary_has_every_field_in_nanoseconds() {
    let events = [
        event(false, false, "2026-03-01T08:00:00Z"),
        event(true, false, "2026-03-01T08:00:01.5Z"),
        event(false, false, "2026-03-01T08:00:11.5Z"),
        event(true, false, "2026-03-01T08:00:14.5Z"),
    ];
    let report = report(
        snapshot(&[
            (Family::NodePool, view("p", &events)),
            (Family::NodePool, view("new", &[])),
        ]),
        "2026-03-01T08:00:20Z",
    );
    assert_eq!(
        report["nodePoolsUpSummaries"]["p"],
        json!({
            "nodePoolName": "p",
            "downTimeProvisioned": 1_500_000_000_i64,
            "interruptionCount": 1,
            "recoveryCount": 1,
            "downTime": 4_500_000_000_i64,
            "upTime": 15_500_000_000_i64,
            "totalDownTimeBetweenRecovery": 3_000_000_000_i64,
            "totalUpTimeBetweenInterruption": 10_000_000_000_i64,
            "latestDownTimeBetweenRecovery": 3_000_000_000_i64,
            "latestUpTimeBetweenInterruption": 10_000_000_000_i64,
            "meanDownTimeBetweenRecovery": 3_000_000_000_i64,
            "meanUpTimeBetweenInterruption": 10_000_000_000_i64,
            "provisioningDuration": 1_500_000_000_i64,
            "provisioningState": "success",
        })
    );
    let nothing = &report["nodePoolsUpSummaries"]["new"];
    assert_eq!(nothing["downTime"], 0);
    assert_eq!(nothing["provisioningState"], "");
}

#[test]
fn a_found_pool_has_no_provisioning_and_a_gone_one_only_its_summary() {
    let events = [
        event(false, false, "2026-03-01T08:00:00Z"),
        event(true, false, "2026-03-01T08:00:00Z"),
    ];
    let mut found = view("found", &events);
    found.found = true;
    let mut gone = view("gone", &events[..1]);
    gone.failed = Some(at("2026-03-01T08:00:02Z"));
    gone.only_provisioning = true;
    let report = report(
        snapshot(&[(Family::NodePool, found), (Family::NodePool, gone)]),
        "2026-03-01T09:00:00Z",
    );
    assert_eq!(
        report["nodePoolsUpSummaries"]["found"]["provisioningState"],
        ""
    );
    assert!(report["nodePoolsUp"].get("gone").is_none());
    let gone = &report["nodePoolsUpSummaries"]["gone"];
    assert_eq!(gone["provisioningState"], "failed");
    assert_eq!(gone["provisioningDuration"], 2_000_000_000_i64);
}

#[test]
fn scheduling_is_by_pool() {
    let mut snapshot = snapshot(&[]);
    for (slot, (pool, job)) in [("p", "b"), ("p", "a"), ("q", "c")].into_iter().enumerate() {
        snapshot.scheduled.set(
            slot,
            Some(Arc::new(Scheduled {
                pool: pool.into(),
                job: job.into(),
                jobset: "train".into(),
            })),
        );
    }
    assert_eq!(
        report(snapshot, "2026-03-01T08:00:00Z")["nodePoolScheduling"],
        json!({
            "p": {"jobName": "b", "jobsetName": "train"},
            "q": {"jobName": "c", "jobsetName": "train"},
        })
    );
}

#[test]
fn the_log_line_has_type_summary_and_attributes() {
    let events = [
        event(false, false, "2026-03-01T08:00:00Z"),
        event(true, false, "2026-03-01T08:03:10.008424911Z"),
    ];
    let line = summary_line(
        Family::NodePool,
        &view("p", &events),
        at("2026-03-01T09:00:00Z"),
    );
    assert_eq!(line["type"], "nodepools");
    assert_eq!(line["nodePoolName"], "p");
    assert_eq!(line["summary"]["downTimeProvisioned"], 190_008_424_911_i64);
    assert_eq!(line["summary"]["provisioningDuration"], 190_008_424_911_i64);
    assert_eq!(line["summary"]["provisioningState"], "success");
}

/// A clock that stands.
pub(super) struct Stopped(pub(super) Timestamp);

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        self.0
    }

    fn sleep_until(&self, _: Timestamp) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::pending())
    }
}

pub(super) fn stopped() -> SharedClock {
    Arc::new(Stopped(at("2026-03-01T09:00:00Z")))
}

/// Keeps the words of the failures that it is told.
#[derive(Default)]
pub(super) struct Failures(pub(super) Mutex<Vec<(&'static str, &'static str)>>);

impl Recorder for Failures {
    fn record(&self, measurement: Measurement<'_>) {
        if let Measurement::ExportFailure { outlet, reason } = measurement {
            self.0.lock().unwrap().push((outlet, reason));
        }
    }
}

pub(super) fn published(snapshot: Snapshot) -> Arc<Published> {
    let published = Published::new(at("2026-03-01T08:00:00Z"));
    published.publish(|_| Arc::new(snapshot));
    Arc::new(published)
}

/// Fails on its first write, then hands on what is written.
struct Flaky(bool, tokio::sync::mpsc::UnboundedSender<Vec<u8>>);

impl std::io::Write for Flaky {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if std::mem::take(&mut self.0) {
            return Err(std::io::Error::other("broken pipe"));
        }
        self.1.send(bytes.to_vec()).unwrap();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn standard_output_gets_a_line_an_interval_and_a_failure_is_counted() {
    let (sender, mut written) = tokio::sync::mpsc::unbounded_channel();
    let failures = Arc::new(Failures::default());
    let reporter = StdoutReport::to(
        Arc::new(Mutex::new(Flaky(true, sender))),
        published(snapshot(&[])),
        Duration::from_millis(5),
        stopped(),
        failures.clone(),
    );
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(reporter.run(shutdown.clone()));
    for _ in 0..2 {
        let line = written.recv().await.unwrap();
        let end = line.iter().position(|byte| *byte == b'\n');
        assert_eq!(end, Some(line.len() - 1), "not one line");
        let report: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(report.as_object().unwrap().len(), KEYS.len());
    }
    assert_eq!(*failures.0.lock().unwrap(), [("stdout", "write")]);
    shutdown.cancel();
    task.await.unwrap();
}

#[test]
fn nothing_is_reported_before_a_family_is_judged() {
    let mut snapshot = Snapshot::default();
    assert!(!is_due(&snapshot));
    snapshot.history.replayed = true;
    assert!(!is_due(&snapshot));
    snapshot.families[Family::NodePool.index()] = Some(Table::default());
    assert!(is_due(&snapshot));
}
