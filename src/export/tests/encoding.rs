//! The text against what another encoder writes of the same state, and against the formats' rules.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use opentelemetry::KeyValue;
use opentelemetry::metrics::MeterProvider as _;
use prometheus::{Encoder as _, TextEncoder};

use super::fleet::{Fixture, Sample, jobset, of, parse, pool, scheduled, small_fleet, snapshot};
use crate::export::labels::LabelCache;
use crate::export::text::{Format, write};
use crate::instruments::catalogue;
use crate::instruments::tests::{object, text};
use crate::measure::{Measurement, Recorder as _, Resource};
use crate::model::{Attributes, Family};
use crate::snapshot::{Conditions, Snapshot};

const HOSTILE: &[&str] = &[
    "quote\"quote",
    "back\\slash",
    "new\nline",
    "\\n",
    "\\\"",
    "ends\\",
    "}{,=",
    "ümlaut 機械 \u{1f680}",
    " ",
    "\t\u{0}",
    "# EOF",
];

/// Every family, every condition, every provisioning state, spot, hostile names.
fn rich() -> Snapshot {
    let mut jobsets = Vec::new();
    let mut pools = Vec::new();
    for (n, name) in HOSTILE.iter().enumerate() {
        let mut view = jobset(n, &format!("uid-{n}"), 3, &[5_000, 7, 1_000_000_007, 3]);
        view.attributes = Arc::new(Attributes {
            name: text(name),
            spot: n % 2 == 0,
            ..(*view.attributes).clone()
        });
        view.conditions = Conditions {
            completed: n % 2 == 0,
            failed: n % 3 == 0,
            suspended: n % 5 == 0,
        };
        jobsets.push(view);
        let mut view = pool(name, &[1_234_567_890_123, 1, 2][..n % 4 % 3]);
        view.failed = (n % 5 == 0).then_some(crate::instruments::tests::at(-1));
        pools.push(view);
    }
    let mut slice = object("slice-0", 1, &[]);
    slice.attributes = Arc::new(Attributes {
        owner_kind: text("JobSet"),
        owner_name: text("train\n"),
        owner_namespace: text("default"),
        spot: true,
        ..(*slice.attributes).clone()
    });
    let lws = jobset(7, "lws-uid", 4, &[1, 2, 3]);
    let mut rich = snapshot([
        (Family::JobSet, jobsets),
        (Family::NodePool, pools),
        (Family::Slice, vec![slice]),
        (Family::Lws, vec![lws]),
    ]);
    rich.scheduled = scheduled(&[
        ("back\\slash", "job\"0", "train-0"),
        ("back\\slash", "job-1", "train\n1"),
        (" ", "job-2", "train-2"),
    ]);
    rich
}

fn record_everything(fixture: &Fixture) {
    let recorder = &fixture.metrics.recorder;
    let took = Duration::from_millis(37);
    let resource = &Resource {
        group: text("jobset.x-k8s.io"),
        version: text("v1alpha2"),
        resource: text("jobsets"),
    };
    let core = &Resource {
        group: text(""),
        version: text("v1"),
        resource: text("nodes"),
    };
    for measurement in [
        Measurement::Reconcile {
            controller: "jobsets",
            result: "success",
            took,
        },
        Measurement::WatchRestart {
            resource,
            reason: "expired",
        },
        Measurement::WatchRestart {
            resource: core,
            reason: "expired",
        },
        Measurement::Undecodable { resource: core },
        Measurement::Gke {
            method: "ListNodePools",
            error: true,
            took,
        },
        Measurement::Gke {
            method: "ListNodePools",
            error: false,
            took: Duration::from_mins(1),
        },
        Measurement::Aggregation { took },
        Measurement::ExportFailure {
            outlet: "otlp",
            reason: "timeout",
        },
        Measurement::ExportRejected {
            outlet: "otlp",
            points: 12,
        },
        Measurement::SeriesDropped {
            family: "jobset",
            series: 17,
        },
    ] {
        recorder.record(measurement);
    }
}

fn resource() -> BTreeMap<String, String> {
    let attributes = [
        ("service.name", "megamon"),
        ("host.name", "a \"quoted\" host\\\n"),
        ("a.number", "7"),
    ];
    attributes
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

/// Both encoders' samples of one collection.
fn both(fixture: &Fixture) -> (BTreeSet<Sample>, BTreeSet<Sample>) {
    fixture
        .metrics
        .collector
        .collect(|metrics, _| {
            let mut ours = Vec::new();
            let mut sink = |chunk: Bytes| ours.extend_from_slice(&chunk);
            write(metrics, Format::Text, &mut LabelCache::default(), &mut sink);
            // Reads the same state: the latch is held until this returns.
            let mut theirs = Vec::new();
            TextEncoder::new()
                .encode(&fixture.registry.gather(), &mut theirs)
                .unwrap();
            (
                parse(&String::from_utf8(ours).unwrap()),
                parse(&String::from_utf8(theirs).unwrap()),
            )
        })
        .unwrap()
}

#[test]
fn the_text_is_what_the_registry_writes() {
    let fixture = Fixture::new(1_000, resource());
    // Attributes of another library: two keys of one sanitised name, one of a scope's label.
    let meter = fixture.metrics.provider.meter("another \"library\"");
    meter
        .f64_counter("another.count")
        .with_unit("By")
        .build()
        .add(
            0.1 + 0.2,
            &[
                KeyValue::new("a.b", "second"),
                KeyValue::new("a-b", "first"),
                KeyValue::new("otel.scope.name", "mine"),
                KeyValue::new("number", 1.5),
            ],
        );
    meter
        .i64_up_down_counter("another.level")
        .build()
        .add(-3, &[]);
    let big = meter.f64_histogram("another.big").build();
    big.record(1e300, &[]);
    for snapshot in [rich(), small_fleet(), Snapshot::default()] {
        fixture.publish(snapshot);
        record_everything(&fixture);
        let (ours, theirs) = both(&fixture);
        let missing: Vec<_> = theirs.difference(&ours).collect();
        let surplus: Vec<_> = ours.difference(&theirs).collect();
        assert!(
            missing.is_empty() && surplus.is_empty(),
            "missing {missing:#?}, surplus {surplus:#?}"
        );
    }
}

#[test]
fn everything_in_the_catalogue_reaches_prometheus_under_its_name() {
    let fixture = Fixture::new(1_000, BTreeMap::new());
    let mut snapshot = rich();
    let nodes = jobset(0, "uid", 16, &[9, 9, 9, 9]);
    snapshot.families[Family::JobSetNodes.index()] =
        super::fleet::snapshot([(Family::JobSetNodes, vec![nodes])]).families
            [Family::JobSetNodes.index()]
        .take();
    for family in [Family::Slice, Family::Lws, Family::NodePool, Family::JobSet] {
        let table = snapshot.families[family.index()].as_mut().unwrap();
        let mut full = object(
            "full",
            2,
            &crate::instruments::tests::events(crate::instruments::tests::at(0), 5, &[1, 2, 3, 4]),
        );
        full.key = text("full");
        table.set(table.len(), Some(Arc::new(full)));
    }
    let nodes = snapshot.families[Family::JobSetNodes.index()]
        .as_mut()
        .unwrap();
    nodes.set(
        1,
        Some(Arc::new(object(
            "full",
            2,
            &crate::instruments::tests::events(crate::instruments::tests::at(0), 5, &[1, 2, 3, 4]),
        ))),
    );
    snapshot.sources.push(super::published::health(
        crate::model::Source::Nodes,
        Some(crate::instruments::tests::at(-5)),
    ));
    snapshot.history.last_success = Some(crate::instruments::tests::at(-2));
    fixture.publish(snapshot);
    record_everything(&fixture);
    let scrape = fixture.scrape(Format::Text);
    let types: BTreeMap<&str, &str> = scrape
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .collect();
    let expected: BTreeMap<String, &str> = catalogue()
        .iter()
        .map(|i| (i.prometheus_name("megamon.alpha"), i.kind.name()))
        .collect();
    let expected: BTreeMap<&str, &str> = expected
        .iter()
        .map(|(name, kind)| (name.as_str(), *kind))
        .collect();
    assert_eq!(types, expected);
    // And so does every attribute key that a series bears.
    let samples = parse(&scrape);
    for instrument in catalogue() {
        let name = instrument.prometheus_name("megamon.alpha");
        let allowed: BTreeSet<String> = instrument
            .attributes
            .iter()
            .map(|key| crate::instruments::names::label(key))
            .chain(["otel_scope_name".to_owned(), "le".to_owned()])
            .collect();
        for sample in of(&samples, &name) {
            let keys: BTreeSet<String> = sample.labels.keys().cloned().collect();
            assert!(keys.is_subset(&allowed), "{sample:?}");
        }
    }
}

#[test]
fn open_metrics_keeps_its_rules() {
    let fixture = Fixture::new(1_000, resource());
    fixture.publish(rich());
    record_everything(&fixture);
    let scrape = fixture.scrape(Format::OpenMetrics);
    assert!(scrape.ends_with("\n# EOF\n"));
    assert_eq!(scrape.lines().filter(|line| *line == "# EOF").count(), 1);

    // Metadata of a family once, before its samples, which stand together.
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    let mut current = String::new();
    let mut described = BTreeSet::new();
    for line in scrape.lines().filter(|line| *line != "# EOF") {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let name = rest.split(' ').next().unwrap();
            assert!(described.insert(name.to_owned()), "{name} described twice");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            current = name.to_owned();
            let before = seen.insert(current.clone(), kind.to_owned());
            assert_eq!(before, None, "{name} has its type twice");
            assert!(described.contains(name), "{name} has no help");
        } else if let Some(rest) = line.strip_prefix("# UNIT ") {
            let (name, unit) = rest.split_once(' ').unwrap();
            assert_eq!(name, current);
            assert!(name.ends_with(&format!("_{unit}")), "{line}");
        } else {
            let name = line.split(['{', ' ']).next().unwrap();
            let suffixes: &[&str] = match seen[&current].as_str() {
                "gauge" => &[""],
                "counter" => &["_total"],
                "histogram" => &["_bucket", "_sum", "_count"],
                "info" => &["_info"],
                other => panic!("type {other}"),
            };
            assert!(
                suffixes
                    .iter()
                    .any(|suffix| name == format!("{current}{suffix}")),
                "{line} under {current}"
            );
        }
    }
    assert_eq!(seen["megamon_alpha_reconcile"], "counter");
    assert_eq!(seen["target"], "info");
    assert!(scrape.contains("# UNIT megamon_alpha_jobset_up_time_seconds seconds\n"));
    assert!(scrape.contains("le=\"1.0\"") && !scrape.contains("le=\"1\""));

    // Same samples as the other format, but for the form of a bound and the own count of series.
    let normal = |samples: BTreeSet<Sample>| -> BTreeSet<Sample> {
        samples
            .into_iter()
            .filter(|sample| sample.name != "megamon_alpha_series")
            .map(|mut sample| {
                if let Some(bound) = sample.labels.get_mut("le") {
                    *bound = bound.parse::<f64>().unwrap().to_string();
                }
                sample
            })
            .collect()
    };
    assert_eq!(normal(parse(&scrape)), normal(fixture.samples()));
}

#[test]
fn text_has_help_and_type_on_every_family() {
    let fixture = Fixture::new(1_000, resource());
    fixture.publish(rich());
    record_everything(&fixture);
    let scrape = fixture.scrape(Format::Text);
    let mut families = BTreeSet::new();
    let mut lines = scrape.lines().peekable();
    while let Some(line) = lines.next() {
        let name = line
            .strip_prefix("# HELP ")
            .unwrap()
            .split(' ')
            .next()
            .unwrap();
        assert!(families.insert(name), "{name} twice");
        let kind = lines.next().unwrap();
        assert!(kind.starts_with(&format!("# TYPE {name} ")), "{kind}");
        while let Some(sample) = lines.next_if(|line| !line.starts_with('#')) {
            assert!(sample.starts_with(name), "{sample} under {name}");
        }
    }
    assert!(scrape.contains("\ntarget_info{a_number=\"7\",host_name="));
    assert!(!scrape.contains("otel_scope_version") && !scrape.contains("otel_scope_info"));
}

#[test]
fn labels_are_cached_while_they_are_used_and_never_mistaken() {
    let fixture = Fixture::new(1_000, BTreeMap::new());
    let mut cache = LabelCache::default();
    let mut scrape = |names: &[String]| {
        let pools = names.iter().map(|name| pool(name, &[1])).collect();
        fixture.publish(snapshot([(Family::NodePool, pools)]));
        let mut text = Vec::new();
        let mut sink = |chunk: Bytes| text.extend_from_slice(&chunk);
        fixture
            .metrics
            .collector
            .collect(|metrics, _| write(metrics, Format::Text, &mut cache, &mut sink))
            .unwrap();
        let samples = parse(&String::from_utf8(text).unwrap());
        let shown: BTreeSet<String> = of(&samples, "megamon_alpha_nodepool_up")
            .map(|sample| sample.labels["nodepool_name"].clone())
            .collect();
        (shown, cache.len())
    };
    // Fresh names each time, in memory that the allocator hands out again and again.
    let mut most = 0;
    for turn in 0..50 {
        let names: Vec<String> = (0..40).map(|n| format!("pool-{turn:03}-{n:02}")).collect();
        let (shown, kept) = scrape(&names);
        assert_eq!(shown, names.into_iter().collect());
        most = most.max(kept);
    }
    let (_, kept) = scrape(&[]);
    assert!(most < 40 * 2 * 4 + 40, "{most} sets are kept");
    for _ in 0..3 {
        scrape(&[]);
    }
    let (_, left) = scrape(&[]);
    assert!(left < kept && left < 40, "{left} of {kept} are left");
}
