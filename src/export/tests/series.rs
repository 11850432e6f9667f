//! Series over time: they end with their object, grow with the fleet, and stay below the limit.

use std::collections::BTreeMap;

use opentelemetry_sdk::metrics::data::ResourceMetrics;

use super::fleet::{Fixture, jobset, of, pool, scheduled, snapshot};
use super::published::value;
use crate::model::Family;
use crate::snapshot::{Conditions, Snapshot};

#[test]
fn series_end_with_their_object_at_once() {
    let fixture = Fixture::new(1_000, BTreeMap::new());
    let shown = |names: &[&str]| {
        let pools = names.iter().map(|name| pool(name, &[1])).collect();
        fixture.publish(snapshot([(Family::NodePool, pools)]));
        let push = fixture
            .metrics
            .collector
            .collect(|metrics, _| points(metrics, "megamon.alpha.nodepool.up"));
        (
            push.unwrap(),
            of(&fixture.samples(), "megamon_alpha_nodepool_up").count(),
        )
    };
    assert_eq!(shown(&["a", "b", "c"]), (3, 3));
    assert_eq!(shown(&["b"]), (1, 1));
    assert_eq!(shown(&["b"]), (1, 1));
    assert_eq!(shown(&[]), (0, 0));
    assert_eq!(shown(&["a"]), (1, 1));
    // A family that is not judged any more has no series at all.
    fixture.publish(Snapshot::default());
    let left = fixture.samples();
    assert!(
        left.iter().all(|sample| !sample.name.contains("nodepool")),
        "{left:#?}"
    );
}

fn points(metrics: &ResourceMetrics, name: &str) -> usize {
    use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
    metrics
        .scope_metrics()
        .flat_map(opentelemetry_sdk::metrics::data::ScopeMetrics::metrics)
        .filter(|metric| metric.name() == name)
        .map(|metric| match metric.data() {
            AggregatedMetrics::I64(MetricData::Gauge(gauge)) => gauge.data_points().count(),
            other => panic!("{other:?}"),
        })
        .sum()
}

#[test]
fn a_growing_fleet_is_always_shown_whole() {
    // Through every size in which the instruments are made, and back.
    let limit = 3_000;
    let fixture = Fixture::new(limit, BTreeMap::new());
    for count in [1, 127, 128, 129, 500, 1_200, 1_500, 3_000, 3_000, 10, 2_999] {
        let mut views = Vec::new();
        for n in 0..count {
            let mut view = jobset(n, &format!("uid-{count}-{n}"), 1, &[1]);
            view.conditions = Conditions {
                completed: true,
                failed: true,
                suspended: true,
            };
            views.push(view);
        }
        fixture.publish(snapshot([(Family::JobSet, views)]));
        let samples = fixture.samples();
        for (name, each) in [("up", 1), ("up_time_seconds", 1), ("condition", 3)] {
            let name = format!("megamon_alpha_jobset_{name}");
            assert_eq!(
                of(&samples, &name).count(),
                count * each,
                "{name} of {count}"
            );
        }
        assert!(
            samples
                .iter()
                .all(|s| !s.labels.contains_key("otel_metric_overflow")),
            "overflow at {count}"
        );
        let series = of(&samples, "megamon_alpha_series")
            .find(|sample| sample.labels["family"] == "jobset")
            .unwrap();
        let published = samples
            .iter()
            .filter(|sample| sample.name.starts_with("megamon_alpha_jobset_"))
            .count();
        assert_eq!(series.value, published.to_string(), "series of {count}");
    }
}

#[test]
fn a_family_over_its_limit_keeps_what_is_shown_and_counts_the_rest() {
    let fixture = Fixture::new(2, BTreeMap::new());
    let turn = |names: &[&str]| {
        let pools = names.iter().map(|name| pool(name, &[1])).collect();
        let mut fleet = snapshot([(Family::NodePool, pools)]);
        let pods: Vec<_> = names.iter().map(|name| (*name, "job", "train")).collect();
        fleet.scheduled = scheduled(&pods);
        fixture.publish(fleet);
        let samples = fixture.samples();
        let names = |name: &str| -> Vec<String> {
            of(&samples, name)
                .map(|sample| sample.labels["nodepool_name"].clone())
                .collect()
        };
        let up = names("megamon_alpha_nodepool_up");
        assert_eq!(names("megamon_alpha_nodepool_job_scheduled"), up);
        assert_eq!(
            names("megamon_alpha_nodepool_provisioning_duration_seconds"),
            up
        );
        (
            up.join(" "),
            value(&samples, "series_dropped_total").map(str::to_owned),
        )
    };
    // A pool that was up once: up, both times, both counts, initial, chips, four of D15, and its
    // provisioning.
    let each = 12;
    let dropped = |objects: u64| Some((objects * each).to_string());
    assert_eq!(turn(&["b"]), ("b".to_owned(), None));
    assert_eq!(turn(&["a", "b", "c"]), ("a b".to_owned(), dropped(1)));
    assert_eq!(turn(&["a", "b", "c"]), ("a b".to_owned(), dropped(1)));
    assert_eq!(turn(&["0", "a", "b", "c"]), ("a b".to_owned(), dropped(2)));
    assert_eq!(turn(&["c", "b"]), ("b c".to_owned(), dropped(2)));
    assert_eq!(turn(&["c", "b", "a"]), ("b c".to_owned(), dropped(3)));
}

#[test]
fn every_size_of_a_familys_instruments_is_one_scope_to_a_receiver() {
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    let fixture = Fixture::new(5_000, BTreeMap::new());
    let mut scopes = 0;
    for count in [1, 200, 1_000, 5_000] {
        let pools = (0..count).map(|n| pool(&format!("p-{n}"), &[1])).collect();
        fixture.publish(snapshot([(Family::NodePool, pools)]));
        let request = fixture.metrics.collector.collect(|metrics, _| {
            scopes += metrics.scope_metrics().count();
            ExportMetricsServiceRequest::from(metrics)
        });
        for scope_metrics in &request.unwrap().resource_metrics[0].scope_metrics {
            let scope = scope_metrics.scope.as_ref().unwrap();
            assert_eq!(
                (scope.name.as_str(), scope.version.as_str()),
                ("megamon", "")
            );
            assert!(scope.attributes.is_empty() && scope_metrics.schema_url.is_empty());
        }
    }
    assert!(
        scopes > 4,
        "the fleet's instruments were made in several sizes"
    );
}
