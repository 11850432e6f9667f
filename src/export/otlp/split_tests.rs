//! Splitting loses nothing, doubles nothing and keeps below the limit, whatever the shape.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogramDataPoint, HistogramDataPoint, NumberDataPoint, SummaryDataPoint,
};
use proptest::prelude::*;

use super::*;

fn identity() -> Identity {
    let map = |value: &str| BTreeMap::from([("service.instance.id".to_owned(), value.to_owned())]);
    Identity {
        fleet: map("fleet"),
        own: map("own"),
    }
}

fn attributes(length: usize) -> Vec<KeyValue> {
    vec![KeyValue {
        key: "k".into(),
        value: Some(AnyValue {
            value: Some(any_value::Value::StringValue("v".repeat(length))),
        }),
        ..KeyValue::default()
    }]
}

/// Data of a shape with a point for each length; `next` numbers the points.
fn data(shape: usize, lengths: &[usize], next: &mut u64) -> Data {
    let mut points = Vec::new();
    for length in lengths {
        *next += 1;
        points.push((attributes(*length), *next));
    }
    match shape {
        0 | 1 => {
            let data_points = points
                .into_iter()
                .map(|(attributes, time_unix_nano)| NumberDataPoint {
                    attributes,
                    time_unix_nano,
                    ..NumberDataPoint::default()
                })
                .collect();
            if shape == 0 {
                Data::Gauge(Gauge { data_points })
            } else {
                Data::Sum(Sum {
                    data_points,
                    aggregation_temporality: 2,
                    is_monotonic: true,
                })
            }
        }
        2 => Data::Histogram(Histogram {
            data_points: points
                .into_iter()
                .map(|(attributes, time_unix_nano)| HistogramDataPoint {
                    attributes,
                    time_unix_nano,
                    bucket_counts: vec![1, 200, 3],
                    explicit_bounds: vec![0.1, 0.2],
                    sum: Some(3.0),
                    ..HistogramDataPoint::default()
                })
                .collect(),
            aggregation_temporality: 2,
        }),
        3 => Data::ExponentialHistogram(ExponentialHistogram {
            data_points: points
                .into_iter()
                .map(
                    |(attributes, time_unix_nano)| ExponentialHistogramDataPoint {
                        attributes,
                        time_unix_nano,
                        positive: Some(Buckets {
                            offset: 3,
                            bucket_counts: vec![1, 2, 3],
                        }),
                        ..ExponentialHistogramDataPoint::default()
                    },
                )
                .collect(),
            aggregation_temporality: 2,
        }),
        _ => Data::Summary(Summary {
            data_points: points
                .into_iter()
                .map(|(attributes, time_unix_nano)| SummaryDataPoint {
                    attributes,
                    time_unix_nano,
                    ..SummaryDataPoint::default()
                })
                .collect(),
        }),
    }
}

/// Every point as (resource, scope, metric without its points, the point), and the number of each.
fn points(request: &ExportMetricsServiceRequest) -> Vec<(String, String, String, u64)> {
    let mut all = Vec::new();
    for resource in &request.resource_metrics {
        for scope in &resource.scope_metrics {
            for metric in &scope.metrics {
                let mut head = metric.clone();
                let numbers: Vec<u64> = match head.data.as_mut().unwrap() {
                    Data::Gauge(it) => numbers(&mut it.data_points, |it| it.time_unix_nano),
                    Data::Sum(it) => numbers(&mut it.data_points, |it| it.time_unix_nano),
                    Data::Histogram(it) => numbers(&mut it.data_points, |it| it.time_unix_nano),
                    Data::ExponentialHistogram(it) => {
                        numbers(&mut it.data_points, |it| it.time_unix_nano)
                    }
                    Data::Summary(it) => numbers(&mut it.data_points, |it| it.time_unix_nano),
                };
                for number in numbers {
                    all.push((
                        format!("{:?}", resource.resource),
                        format!("{:?}", scope.scope),
                        format!("{head:?}"),
                        number,
                    ));
                }
            }
        }
    }
    all
}

fn numbers<P>(points: &mut Vec<P>, number: impl Fn(&P) -> u64) -> Vec<u64> {
    std::mem::take(points).iter().map(number).collect()
}

type Shape = (usize, bool, Vec<usize>);

/// A request of scopes of metrics of (shape, whose, length of each point).
fn request(scopes: &[Vec<Shape>]) -> ExportMetricsServiceRequest {
    let mut next = 0;
    let scope_metrics = scopes
        .iter()
        .enumerate()
        .map(|(scope, metrics)| ScopeMetrics {
            scope: Some(InstrumentationScope {
                name: format!("scope{scope}"),
                ..InstrumentationScope::default()
            }),
            schema_url: "url".into(),
            metrics: metrics
                .iter()
                .enumerate()
                .map(|(number, (shape, fleet, lengths))| Metric {
                    name: format!("{}.{number}", if *fleet { "fleet" } else { "own" }),
                    description: "what it is".into(),
                    unit: "s".into(),
                    data: Some(data(*shape, lengths, &mut next)),
                    ..Metric::default()
                })
                .collect(),
        })
        .collect();
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            scope_metrics,
            ..ResourceMetrics::default()
        }],
    }
}

fn parts(request: ExportMetricsServiceRequest, limit: usize) -> Vec<ExportMetricsServiceRequest> {
    let mut parts = Vec::new();
    let is_fleet = |name: &str| name.starts_with("fleet");
    split(request, &identity(), is_fleet, limit, |part| {
        parts.push(part);
    });
    parts
}

/// What must come out: the points of the request, under the resource that is theirs.
fn expected(request: &ExportMetricsServiceRequest) -> Vec<(String, String, String, u64)> {
    let identity = identity();
    let mut all = points(request);
    for (whose, _, head, _) in &mut all {
        let attributes = if head.contains("\"fleet.") {
            &identity.fleet
        } else {
            &identity.own
        };
        *whose = format!("{:?}", Some(resource(attributes)));
    }
    all.sort();
    all
}

fn check(request: &ExportMetricsServiceRequest, limit: usize) {
    let parts = parts(request.clone(), limit);
    let mut got: Vec<_> = parts.iter().flat_map(points).collect();
    got.sort();
    assert_eq!(got, expected(request));
    for part in &parts {
        let count = points(part).len();
        assert!(count > 0, "an empty request");
        let size = part.encoded_len();
        assert!(size <= limit || count == 1, "{size} bytes, {count} points");
    }
}

proptest! {
    #[test]
    fn every_point_comes_once_below_the_limit(
        scopes in prop::collection::vec(
            prop::collection::vec(
                (0..5_usize, any::<bool>(), prop::collection::vec(0..400_usize, 0..30)),
                0..6,
            ),
            0..4,
        ),
        limit in 300..3_000_usize,
    ) {
        check(&request(&scopes), limit);
    }
}

#[test]
fn a_giant_point_is_sent_alone() {
    let request = request(&[vec![
        (0, true, vec![10, 10, 5_000, 10]),
        (1, false, vec![10]),
    ]]);
    check(&request, 1_000);
    let sizes: Vec<_> = parts(request, 1_000)
        .iter()
        .map(|part| points(part).len())
        .collect();
    assert_eq!(sizes, [2, 1, 2]);
}

#[test]
fn what_fits_is_one_request_with_both_resources() {
    let request = request(&[vec![(0, true, vec![1, 2]), (2, false, vec![3])]]);
    let parts = parts(request, super::super::REQUEST_LIMIT);
    assert_eq!(parts.len(), 1);
    assert_eq!(parts[0].resource_metrics.len(), 2);
}

#[test]
fn nothing_is_no_request() {
    assert!(parts(request(&[]), 1_000).is_empty());
    assert!(parts(request(&[vec![(0, true, vec![])]]), 1_000).is_empty());
}

#[test]
fn a_large_fleet_fills_its_requests() {
    let request = request(&[vec![
        (0, true, vec![150; 60_000]),
        (1, true, vec![150; 60_000]),
    ]]);
    let whole = request.encoded_len();
    let parts = parts(request, super::super::REQUEST_LIMIT);
    let least = whole.div_ceil(super::super::REQUEST_LIMIT);
    assert!(
        parts.len() <= least + 1,
        "{} parts for {whole} bytes",
        parts.len()
    );
    for part in &parts {
        assert!(part.encoded_len() <= super::super::REQUEST_LIMIT);
    }
}
