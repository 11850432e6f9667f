//! Splits what was collected into requests below a size, at data points: nothing is lost and
//! nothing is sent twice. The fleet's series and the program's own come under their own resource.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogram, Gauge, Histogram, Metric, ResourceMetrics, ScopeMetrics, Sum, Summary,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;

use super::identity::{Identity, resource};

/// Most bytes that tag and length of a message take: a tag of one byte, a length below 2^35.
const FRAME: usize = 1 + 5;

/// Hands requests to `sink` that together hold each data point of `request` once. No request is
/// longer than `limit` bytes when encoded, unless a single point is: that one is sent alone.
pub(super) fn split(
    request: ExportMetricsServiceRequest,
    identity: &Identity,
    is_fleet: fn(&str) -> bool,
    limit: usize,
    sink: impl FnMut(ExportMetricsServiceRequest),
) {
    let (mut fleet, mut own) = (Vec::new(), Vec::new());
    for resource in request.resource_metrics {
        for scope in resource.scope_metrics {
            let (ours, theirs): (Vec<_>, Vec<_>) = scope
                .metrics
                .into_iter()
                .partition(|metric| is_fleet(&metric.name));
            for (group, metrics) in [(&mut fleet, ours), (&mut own, theirs)] {
                if !metrics.is_empty() {
                    group.push(ScopeMetrics {
                        scope: scope.scope.clone(),
                        schema_url: scope.schema_url.clone(),
                        metrics,
                    });
                }
            }
        }
    }
    let mut packer = Packer {
        limit,
        sink,
        resource: Resource::default(),
        scope: ScopeMetrics::default(),
        request: ExportMetricsServiceRequest::default(),
        size: 0,
        resource_open: false,
        scope_open: false,
    };
    for (attributes, scopes) in [(&identity.fleet, fleet), (&identity.own, own)] {
        packer.resource = resource(attributes);
        packer.resource_open = false;
        for mut scope in scopes {
            let metrics = std::mem::take(&mut scope.metrics);
            packer.scope = scope;
            packer.scope_open = false;
            for metric in metrics {
                packer.metric(metric);
            }
        }
    }
    packer.flush();
}

/// Fills one request after the other. `size` is never below the encoded length of `request` and
/// what is about to be added to it.
struct Packer<S> {
    limit: usize,
    sink: S,
    /// The resource and the scope that what comes next belongs to, and whether `request` ends in
    /// them.
    resource: Resource,
    scope: ScopeMetrics,
    request: ExportMetricsServiceRequest,
    size: usize,
    resource_open: bool,
    scope_open: bool,
}

impl<S: FnMut(ExportMetricsServiceRequest)> Packer<S> {
    fn metric(&mut self, mut metric: Metric) {
        match metric.data.take() {
            None => {}
            Some(Data::Gauge(gauge)) => {
                self.points(&metric, gauge.data_points, |data_points| {
                    Data::Gauge(Gauge { data_points })
                });
            }
            Some(Data::Sum(sum)) => {
                let (temporality, monotonic) = (sum.aggregation_temporality, sum.is_monotonic);
                self.points(&metric, sum.data_points, |data_points| {
                    Data::Sum(Sum {
                        data_points,
                        aggregation_temporality: temporality,
                        is_monotonic: monotonic,
                    })
                });
            }
            Some(Data::Histogram(histogram)) => {
                let temporality = histogram.aggregation_temporality;
                self.points(&metric, histogram.data_points, |data_points| {
                    Data::Histogram(Histogram {
                        data_points,
                        aggregation_temporality: temporality,
                    })
                });
            }
            Some(Data::ExponentialHistogram(histogram)) => {
                let temporality = histogram.aggregation_temporality;
                self.points(&metric, histogram.data_points, |data_points| {
                    Data::ExponentialHistogram(ExponentialHistogram {
                        data_points,
                        aggregation_temporality: temporality,
                    })
                });
            }
            Some(Data::Summary(summary)) => {
                self.points(&metric, summary.data_points, |data_points| {
                    Data::Summary(Summary { data_points })
                });
            }
        }
    }

    /// Adds the points of one metric, `head` being the metric without them.
    fn points<P: Message>(&mut self, head: &Metric, points: Vec<P>, wrap: impl Fn(Vec<P>) -> Data) {
        // An empty wrapper holds what a sum or a histogram says beside its points.
        let mut empty = head.clone();
        empty.data = Some(wrap(Vec::new()));
        let metric_size = FRAME + FRAME + empty.encoded_len();
        let mut run = Vec::new();
        for point in points {
            let point_size = FRAME + point.encoded_len();
            let mut needed = point_size;
            if run.is_empty() {
                needed += metric_size + self.opening();
            }
            if self.size > 0 && self.size + needed > self.limit {
                self.add(head, std::mem::take(&mut run), &wrap);
                self.flush();
                needed = point_size + metric_size + self.opening();
            }
            self.size += needed;
            run.push(point);
        }
        self.add(head, run, &wrap);
    }

    /// What it costs to have the current scope and resource open.
    fn opening(&self) -> usize {
        let mut size = 0;
        if !self.resource_open {
            size += FRAME + FRAME + self.resource.encoded_len();
        }
        if !self.scope_open {
            size += FRAME + self.scope.encoded_len();
        }
        size
    }

    fn add<P>(&mut self, head: &Metric, run: Vec<P>, wrap: &impl Fn(Vec<P>) -> Data) {
        if run.is_empty() {
            return;
        }
        if !self.resource_open {
            self.request.resource_metrics.push(ResourceMetrics {
                resource: Some(self.resource.clone()),
                ..ResourceMetrics::default()
            });
            self.resource_open = true;
            self.scope_open = false;
        }
        let Some(resource) = self.request.resource_metrics.last_mut() else {
            return;
        };
        if !self.scope_open {
            resource.scope_metrics.push(self.scope.clone());
            self.scope_open = true;
        }
        if let Some(scope) = resource.scope_metrics.last_mut() {
            let mut metric = head.clone();
            metric.data = Some(wrap(run));
            scope.metrics.push(metric);
        }
    }

    /// Hands on what there is and begins a new request.
    fn flush(&mut self) {
        let request = std::mem::take(&mut self.request);
        if !request.resource_metrics.is_empty() {
            (self.sink)(request);
        }
        self.size = 0;
        self.resource_open = false;
        self.scope_open = false;
    }
}

#[cfg(test)]
#[path = "split_tests.rs"]
mod tests;
