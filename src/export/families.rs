//! Metrics by Prometheus family: all series of one name together, once, with one type and help,
//! whichever instrument or scope they come from.

use std::collections::BTreeMap;

use opentelemetry_sdk::metrics::data::{AggregatedMetrics, Metric, MetricData, ResourceMetrics};

use super::labels;
use crate::instruments::names;

/// A family's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Gauge,
    Counter,
    Histogram,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Histogram => "histogram",
        }
    }

    /// `None` for what the text formats have no form for.
    fn of(metric: &Metric) -> Option<Self> {
        fn of<T>(data: &MetricData<T>) -> Option<Kind> {
            match data {
                MetricData::Sum(sum) if sum.is_monotonic() => Some(Kind::Counter),
                MetricData::Gauge(_) | MetricData::Sum(_) => Some(Kind::Gauge),
                MetricData::Histogram(_) => Some(Kind::Histogram),
                MetricData::ExponentialHistogram(_) => None,
            }
        }
        match metric.data() {
            AggregatedMetrics::F64(data) => of(data),
            AggregatedMetrics::U64(data) => of(data),
            AggregatedMetrics::I64(data) => of(data),
        }
    }
}

/// The series of one name.
pub(super) struct Family<'a> {
    /// The Prometheus name; a counter's ends in `_total`.
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) help: &'a str,
    /// The labels of its instrumentation scope, and a metric of this name.
    pub(super) metrics: Vec<(labels::Scope, &'a Metric)>,
}

/// The families of what was collected, by name. Of two metrics that come to one name with
/// different types the later is left out: the text would be invalid.
pub(super) fn of(metrics: &ResourceMetrics) -> Vec<Family<'_>> {
    let mut families: BTreeMap<String, Family<'_>> = BTreeMap::new();
    for scope_metrics in metrics.scope_metrics() {
        let scope = labels::Scope::of(scope_metrics.scope());
        for metric in scope_metrics.metrics() {
            let Some(kind) = Kind::of(metric) else {
                continue;
            };
            let name = names::prometheus(metric.name(), metric.unit(), kind == Kind::Counter);
            let family = families.entry(name.clone()).or_insert_with(|| Family {
                name,
                kind,
                help: metric.description(),
                metrics: Vec::new(),
            });
            if family.kind == kind {
                family.metrics.push((scope.clone(), metric));
            }
        }
    }
    families.into_values().collect()
}
