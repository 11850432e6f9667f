//! Turns the measurements of every room into points of the program's own instruments. They are
//! built once, at start; their attribute sets are bounded, since their series never end.

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter};

use crate::instruments::observe::resource_attributes;
use crate::instruments::{Instrument, own};
use crate::measure::{Measurement, Recorder};

/// Records measurements with OpenTelemetry.
#[derive(Debug)]
pub struct OtelRecorder {
    reconcile_duration: Histogram<f64>,
    reconcile: Counter<u64>,
    watch_restarts: Counter<u64>,
    objects_undecodable: Counter<u64>,
    gke_latency: Histogram<f64>,
    aggregation_duration: Histogram<f64>,
    export_failures: Counter<u64>,
    export_rejected: Counter<u64>,
    series_dropped: Counter<u64>,
}

impl OtelRecorder {
    pub(super) fn new(meter: &Meter, prefix: &str) -> Self {
        let counter = |instrument: &Instrument| {
            meter
                .u64_counter(instrument.otel_name(prefix))
                .with_unit(instrument.unit)
                .with_description(instrument.description.clone())
                .build()
        };
        let histogram = |instrument: &Instrument| {
            meter
                .f64_histogram(instrument.otel_name(prefix))
                .with_unit(instrument.unit)
                .with_description(instrument.description.clone())
                .with_boundaries(instrument.boundaries.to_vec())
                .build()
        };
        Self {
            reconcile_duration: histogram(&own::RECONCILE_DURATION),
            reconcile: counter(&own::RECONCILE),
            watch_restarts: counter(&own::WATCH_RESTARTS),
            objects_undecodable: counter(&own::OBJECTS_UNDECODABLE),
            gke_latency: histogram(&own::GKE_LATENCY),
            aggregation_duration: histogram(&own::AGGREGATION_DURATION),
            export_failures: counter(&own::EXPORT_FAILURES),
            export_rejected: counter(&own::EXPORT_REJECTED),
            series_dropped: counter(&own::SERIES_DROPPED),
        }
    }
}

// Attributes are sorted by key: the SDK keeps a second copy of a set that is not.
impl Recorder for OtelRecorder {
    fn record(&self, measurement: Measurement<'_>) {
        match measurement {
            Measurement::Reconcile {
                controller,
                result,
                took,
            } => {
                let set = [
                    KeyValue::new("controller", controller),
                    KeyValue::new("result", result),
                ];
                self.reconcile.add(1, &set);
                self.reconcile_duration
                    .record(seconds(took), set.get(..1).unwrap_or_default());
            }
            Measurement::WatchRestart { resource, reason } => {
                let mut set = resource_attributes(resource);
                set.push(KeyValue::new("reason", reason));
                set.sort_by(|a, b| a.key.cmp(&b.key));
                self.watch_restarts.add(1, &set);
            }
            Measurement::Undecodable { resource } => {
                self.objects_undecodable
                    .add(1, &resource_attributes(resource));
            }
            Measurement::Gke {
                method,
                error,
                took,
            } => self.gke_latency.record(
                seconds(took),
                &[
                    KeyValue::new("error", error),
                    KeyValue::new("method", method),
                ],
            ),
            Measurement::Aggregation { took } => {
                self.aggregation_duration.record(seconds(took), &[]);
            }
            Measurement::ExportFailure { outlet, reason } => self.export_failures.add(
                1,
                &[
                    KeyValue::new("outlet", outlet),
                    KeyValue::new("reason", reason),
                ],
            ),
            Measurement::ExportRejected { outlet, points } => self
                .export_rejected
                .add(points, &[KeyValue::new("outlet", outlet)]),
            Measurement::SeriesDropped { family, series } => self
                .series_dropped
                .add(series, &[KeyValue::new("family", family)]),
        }
    }
}

fn seconds(took: Duration) -> f64 {
    took.as_secs_f64()
}
