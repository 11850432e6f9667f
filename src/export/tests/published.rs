//! What is published, by the rules of the contract: presence, values, ends, limits.

use std::collections::BTreeMap;

use std::collections::BTreeSet;
use std::sync::Arc;

use super::fleet::{Fixture, Sample, jobset, of, pool, small_fleet, snapshot};
use crate::export::provider::{Metrics, ProviderError, Settings};
use crate::export::reader::CollectError;
use crate::export::text::Format;
use crate::instruments::tests::{at, events, object, text};
use crate::measure::Recorder as _;
use crate::model::{Attributes, Family, Source};
use crate::snapshot::{Conditions, ObjectView, Snapshot, SourceHealth};
use jiff::Timestamp;

pub(super) fn health(source: Source, heard: Option<Timestamp>) -> SourceHealth {
    SourceHealth {
        source,
        listed: heard.is_some(),
        absent: false,
        heard,
        error: None,
    }
}

#[test]
fn a_small_fleet_looks_as_it_always_has() {
    let fixture = Fixture::new(1_000, BTreeMap::new());
    fixture.publish(small_fleet());
    let scrape = fixture.scrape(Format::Text);
    let about_itself = |line: &str| {
        ["build_info", "series", "history_pending"]
            .iter()
            .any(|name| line.contains(&format!("megamon_alpha_{name}")))
    };
    let mut lines: Vec<&str> = scrape
        .lines()
        .filter(|line| !line.starts_with("# HELP ") && !about_itself(line))
        .collect();
    lines.sort_unstable();
    let golden: Vec<&str> = include_str!("../../../tests/golden/small-fleet.txt")
        .lines()
        .collect();
    assert_eq!(lines, golden);
    assert!(scrape.contains(&format!(
        "megamon_alpha_build_info{{commit=\"none\",date=\"unknown\",version=\"{}\",otel_scope_name=\"megamon\"}} 1\n",
        env!("CARGO_PKG_VERSION")
    )));
}

/// The value of a family's only sample, by its name below the prefix.
pub(super) fn value<'a>(samples: &'a BTreeSet<Sample>, name: &str) -> Option<&'a str> {
    let name = format!("megamon_alpha_{name}");
    let mut all = of(samples, &name);
    let only = all.next()?;
    assert_eq!(all.next(), None, "one {name}");
    Some(&only.value)
}

/// Stretches after 5 s of an initial down, whether it is found, names and values.
type Case = (
    &'static [i64],
    bool,
    &'static [(&'static str, Option<&'static str>)],
);

#[test]
fn what_is_not_defined_is_absent_and_what_is_0_is_shown() {
    let s = 1_000_000_000;
    let cases: &[Case] = &[
        // Never up.
        (
            &[],
            false,
            &[
                ("up", Some("0")),
                ("up_time_seconds", Some("0")),
                ("down_time_seconds", Some("5")),
                ("interruption_count", Some("0")),
                ("recovery_count", Some("0")),
                ("down_time_initial_seconds", None),
                ("down_time_between_recovery_seconds", None),
                ("up_time_between_interruption_seconds", None),
                ("tpu_chip_count", Some("64")),
                ("expected", Some("4")),
                ("ready", Some("3")),
                ("unknown", Some("0")),
                ("expected_down", Some("0")),
            ],
        ),
        // Up.
        (
            &[7 * 1_000_000_000],
            false,
            &[
                ("up", Some("1")),
                ("up_time_seconds", Some("7")),
                ("down_time_initial_seconds", Some("5")),
                ("down_time_between_recovery_mean_seconds", None),
                ("up_time_between_interruption_latest_seconds", None),
            ],
        ),
        // Up, and found: nothing is known of its past.
        (
            &[7 * 1_000_000_000],
            true,
            &[
                ("up_time_seconds", Some("7")),
                ("down_time_initial_seconds", None),
            ],
        ),
        // Interrupted.
        (
            &[7 * 1_000_000_000, 2 * 1_000_000_000],
            false,
            &[
                ("interruption_count", Some("1")),
                ("recovery_count", Some("0")),
                ("up_time_between_interruption_seconds", Some("7")),
                ("up_time_between_interruption_mean_seconds", Some("7")),
                ("up_time_between_interruption_latest_seconds", Some("7")),
                ("down_time_between_recovery_seconds", None),
                ("down_time_between_recovery_mean_seconds", None),
                ("down_time_between_recovery_latest_seconds", None),
            ],
        ),
        // Recovered, the down having lasted no time.
        (
            &[7 * 1_000_000_000, 0, 1_000_000_000],
            false,
            &[
                ("recovery_count", Some("1")),
                ("down_time_between_recovery_seconds", Some("0")),
                ("down_time_between_recovery_mean_seconds", Some("0")),
                ("down_time_between_recovery_latest_seconds", Some("0")),
            ],
        ),
    ];
    for (stretches, found, expected) in cases {
        for (family, name) in [
            (Family::JobSet, "jobset"),
            (Family::JobSetNodes, "jobset_nodes"),
            (Family::NodePool, "nodepool"),
            (Family::Slice, "slice"),
            (Family::Lws, "lws"),
        ] {
            let fixture = Fixture::new(10, BTreeMap::new());
            let mut view = object("it", 4, &events(at(0), 5 * s, stretches));
            view.found = *found;
            fixture.publish(snapshot([(family, vec![view])]));
            let samples = fixture.samples();
            for (instrument, expected) in *expected {
                assert_eq!(
                    value(&samples, &format!("{name}_{instrument}")),
                    *expected,
                    "{name} {instrument} after {stretches:?}, found {found}"
                );
            }
        }
    }
}

#[test]
fn before_anything_is_durable_counts_are_0_and_times_undefined() {
    let fixture = Fixture::new(10, BTreeMap::new());
    let mut view = pool("it", &[1, 2, 3]);
    view.fold = None;
    view.chips = 0;
    fixture.publish(snapshot([(Family::NodePool, vec![view])]));
    let samples = fixture.samples();
    for (name, expected) in [
        ("up", Some("1")),
        ("up_time_seconds", Some("0")),
        ("down_time_seconds", Some("0")),
        ("interruption_count", Some("0")),
        ("recovery_count", Some("0")),
        ("down_time_initial_seconds", None),
        ("up_time_between_interruption_seconds", None),
        ("provisioning_duration_seconds", None),
        ("tpu_chip_count", None),
    ] {
        let name = format!("nodepool_{name}");
        assert_eq!(value(&samples, &name), expected, "{name}");
    }
}

#[test]
fn a_pool_shows_where_its_provisioning_stands() {
    let s = 1_000_000_000;
    let of_state = |view: ObjectView| {
        let fixture = Fixture::new(10, BTreeMap::new());
        fixture.publish(snapshot([(Family::NodePool, vec![view])]));
        let samples = fixture.samples();
        let shown: Vec<(String, String)> = of(
            &samples,
            "megamon_alpha_nodepool_provisioning_duration_seconds",
        )
        .map(|sample| {
            (
                sample.labels["provisioning_state"].clone(),
                sample.value.clone(),
            )
        })
        .collect();
        (shown, of(&samples, "megamon_alpha_nodepool_up").count())
    };
    let one = |state: &str, seconds: &str| vec![(state.to_owned(), seconds.to_owned())];
    let waiting = object("it", 4, &events(at(0), 30 * s, &[]));
    assert_eq!(of_state(waiting.clone()), (one("provisioning", "30"), 1));
    let failed = ObjectView {
        failed: Some(at(-10)),
        ..waiting.clone()
    };
    assert_eq!(of_state(failed.clone()), (one("failed", "20"), 1));
    let gone = ObjectView {
        only_provisioning: true,
        ..failed.clone()
    };
    assert_eq!(of_state(gone), (one("failed", "20"), 0));
    let found = ObjectView {
        found: true,
        ..waiting
    };
    assert_eq!(of_state(found), (Vec::new(), 1));
    let up = object("it", 4, &events(at(0), 30 * s, &[90 * s]));
    assert_eq!(of_state(up), (one("success", "30"), 1));
}

#[test]
fn a_completed_jobset_is_expected_to_be_down_and_so_are_its_nodes() {
    let fixture = Fixture::new(10, BTreeMap::new());
    let mut view = jobset(0, "uid", 4, &[1, 2]);
    view.conditions = Conditions {
        completed: true,
        failed: false,
        suspended: true,
    };
    let mut of_jobset = view.clone();
    of_jobset.availability.expected_down = true;
    let mut lws = view.clone();
    lws.key = text("lws");
    fixture.publish(snapshot([
        (Family::JobSet, vec![of_jobset]),
        (Family::JobSetNodes, vec![view]),
        (Family::Lws, vec![lws]),
    ]));
    let samples = fixture.samples();
    assert_eq!(value(&samples, "jobset_expected_down"), Some("1"));
    assert_eq!(value(&samples, "jobset_nodes_expected_down"), Some("1"));
    assert_eq!(value(&samples, "lws_expected_down"), Some("0"));
    let conditions: Vec<(&str, &str)> = of(&samples, "megamon_alpha_jobset_condition")
        .map(|sample| (sample.labels["condition"].as_str(), sample.value.as_str()))
        .collect();
    assert_eq!(conditions, [("Completed", "1"), ("Suspended", "1")]);
}

#[test]
fn attributes_are_those_of_the_family() {
    let fixture = Fixture::new(10, BTreeMap::new());
    let full = Arc::new(Attributes {
        name: text("n"),
        namespace: text("ns"),
        uid: text("u"),
        tpu_topology: text("2x2"),
        tpu_accelerator: text("a"),
        spot: true,
        owner_kind: text("JobSet"),
        owner_name: text("o"),
        owner_namespace: text("ons"),
        ..Attributes::default()
    });
    // Even if two families should share one set of attributes.
    let view = ObjectView {
        attributes: full,
        ..object("n", 1, &[])
    };
    fixture.publish(snapshot(
        Family::ALL.map(|family| (family, vec![view.clone()])),
    ));
    let labels = |name: &str| -> String {
        let scrape = fixture.scrape(Format::Text);
        let line = scrape
            .lines()
            .find(|line| line.starts_with(&format!("{name}{{")));
        line.unwrap().to_owned()
    };
    for (name, expected) in [
        (
            "jobset",
            r#"jobset_name="n",jobset_namespace="ns",jobset_uid="u",spot="true",tpu_accelerator="a",tpu_topology="2x2""#,
        ),
        (
            "jobset_nodes",
            r#"jobset_name="n",jobset_namespace="ns",jobset_uid="u",spot="true",tpu_accelerator="a",tpu_topology="2x2""#,
        ),
        (
            "nodepool",
            r#"nodepool_name="n",spot="true",tpu_accelerator="a",tpu_topology="2x2""#,
        ),
        (
            "slice",
            r#"slice_name="n",slice_owner_kind="JobSet",slice_owner_name="o",slice_owner_namespace="ons",tpu_accelerator="a",tpu_topology="2x2""#,
        ),
        (
            "lws",
            r#"lws_name="n",lws_namespace="ns",lws_uid="u",spot="true",tpu_accelerator="a",tpu_topology="2x2""#,
        ),
    ] {
        assert_eq!(
            labels(&format!("megamon_alpha_{name}_unknown")),
            format!(r#"megamon_alpha_{name}_unknown{{{expected},otel_scope_name="megamon"}} 0"#)
        );
    }
}

#[test]
fn a_collection_reads_one_snapshot_at_one_now() {
    let fixture = Fixture::new(1_000, BTreeMap::new());
    fixture.publish(small_fleet());
    let sum = |samples: &BTreeSet<Sample>| {
        // Up and down time of an object add up to its age.
        let total = |name: &str| -> f64 {
            of(samples, name)
                .map(|sample| sample.value.parse::<f64>().unwrap())
                .sum()
        };
        total("megamon_alpha_nodepool_up_time_seconds")
            + total("megamon_alpha_nodepool_down_time_seconds")
    };
    let before = sum(&fixture.samples());
    fixture.set_now(at(10));
    let after = sum(&fixture.samples());
    assert!((after - before - 30.0).abs() < 1e-6, "{before} {after}");
    // Never back, whatever the clock does.
    fixture.set_now(at(-1_000));
    assert!((sum(&fixture.samples()) - after).abs() < 1e-9);
}

#[test]
fn the_program_says_how_it_is_doing() {
    let fixture = Fixture::new(1_000, BTreeMap::new());
    let mut fleet = Snapshot::default();
    let mut absent = health(Source::LeaderWorkerSets, Some(at(-4)));
    absent.absent = true;
    fleet.sources = vec![
        health(Source::JobSets, Some(at(-2))),
        health(Source::Nodes, Some(at(-7))),
        health(Source::Pods, None),
        health(Source::NodePoolApi, Some(at(-60))),
        absent,
    ];
    fleet.history.pending = 3;
    fleet.history.oldest = Some(at(-9));
    fleet.history.last_success = Some(at(-1));
    fixture.publish(fleet);
    let samples = fixture.samples();
    let list = |name: &str, label: &str| -> Vec<(String, String)> {
        of(&samples, name)
            .map(|sample| (sample.labels[label].clone(), sample.value.clone()))
            .collect()
    };
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    let epoch = |seconds: i64| at(seconds).as_second().to_string();
    assert_eq!(
        list("megamon_alpha_watch_lag_seconds", "resource"),
        [pair("jobsets", "2"), pair("nodes", "7")]
    );
    assert_eq!(
        list("megamon_alpha_source_last_success_seconds", "source"),
        [
            pair("gke", &epoch(-60)),
            pair("jobsets", &epoch(-2)),
            pair("leaderworkersets", &epoch(-4)),
            pair("nodes", &epoch(-7)),
            pair("store", &epoch(-1)),
        ]
    );
    assert_eq!(value(&samples, "history_pending"), Some("3"));
    assert_eq!(value(&samples, "history_pending_age_seconds"), Some("9"));
    // What was own at the last collection: the next says so.
    let own = samples
        .iter()
        .filter(|sample| sample.name.starts_with("megamon_"))
        .count();
    let samples = fixture.samples();
    assert_eq!(
        list("megamon_alpha_series", "family"),
        [] as [(String, String); 0],
        "the first collection knows of none"
    );
    assert_eq!(value(&samples, "series"), Some(own.to_string().as_str()));
}

#[test]
fn after_a_shutdown_a_collection_is_an_error_and_counted() {
    let fixture = Fixture::new(10, BTreeMap::new());
    fixture.metrics.provider.shutdown().unwrap();
    let error = fixture.prometheus.scrape(Format::Text).unwrap_err();
    assert!(matches!(&error, CollectError::Reader(_)), "{error}");
    // And recording goes on doing no harm.
    fixture
        .metrics
        .recorder
        .record(crate::measure::Measurement::Aggregation {
            took: std::time::Duration::from_secs(1),
        });
}

#[test]
fn a_consumer_that_panics_does_not_break_the_next_collection() {
    let fixture = Fixture::new(10, BTreeMap::new());
    fixture.publish(small_fleet());
    let collector = &fixture.metrics.collector;
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        collector.collect(|_, _| panic!("as asked"))
    }));
    assert!(panicked.is_err());
    assert_eq!(
        of(&fixture.samples(), "megamon_alpha_nodepool_up").count(),
        3
    );
}

#[test]
fn a_prefix_that_makes_no_names_is_refused() {
    for (prefix, fine) in [
        ("megamon.alpha", true),
        ("m", true),
        ("", false),
        ("1megamon", false),
        ("mega mon", false),
        ("mega:mon", false),
        ("überwachung", false),
        (&"m".repeat(250), false),
    ] {
        let built = Metrics::build(
            Settings {
                prefix: prefix.to_owned(),
                objects_per_family: 10,
                resource: BTreeMap::new(),
            },
            Arc::new(crate::snapshot::Published::new(at(0))),
            Arc::new(crate::clock::WallClock),
        );
        match built {
            Ok(_) => assert!(fine, "{prefix:?}"),
            Err(error) => {
                assert!(
                    !fine && matches!(error, ProviderError::Prefix { .. }),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn outlets_may_be_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Metrics>();
    shared::<crate::export::text::Prometheus>();
}
