//! The one reader that both outlets share, and the collector: the only way to read it.
//!
//! With two readers on one provider, a callback that runs for one records for both, and a series
//! that has ended shows once more in the other outlet. So there is one, and the collections of
//! both outlets happen under its lock.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use opentelemetry_prometheus::PrometheusExporter;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::{
    AggregatedMetrics, Metric, MetricData, ResourceMetrics, ScopeMetrics,
};
use opentelemetry_sdk::metrics::reader::MetricReader;
use opentelemetry_sdk::metrics::{InstrumentKind, Pipeline, Temporality};

use crate::clock::SharedClock;
use crate::instruments::observe::{Fleet, Latch};
use crate::instruments::readout::Reader;
use crate::instruments::{Scope, scope_of};
use crate::measure::{Measurement, Recorder as _};
use crate::snapshot::{Collection, Published};

use super::recorder::OtelRecorder;

/// A metric reader that is shared between its provider and the collector.
#[derive(Clone, Debug)]
pub struct SharedReader(pub Arc<PrometheusExporter>);

impl MetricReader for SharedReader {
    fn register_pipeline(&self, pipeline: Weak<Pipeline>) {
        self.0.register_pipeline(pipeline);
    }

    fn collect(&self, metrics: &mut ResourceMetrics) -> OTelSdkResult {
        self.0.collect(metrics)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn temporality(&self, kind: InstrumentKind) -> Temporality {
        self.0.temporality(kind)
    }
}

/// A collection that came to nothing.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum CollectError {
    /// The meter provider is shut down, or its reader is broken.
    #[error("the metrics could not be collected: {0}")]
    Reader(String),
}

/// Collects what is published. Collections happen one at a time; each sees one snapshot at one
/// `now`, and so do all its instruments.
pub struct Collector {
    clock: SharedClock,
    published: Arc<Published>,
    reader: SharedReader,
    latch: Arc<Latch>,
    recorder: Arc<OtelRecorder>,
    // Held for a collection and what is made of it, never across an await.
    state: Mutex<State>,
}

struct State {
    /// Reused, so that a collection allocates little more than what has changed.
    metrics: ResourceMetrics,
    reader: Reader,
    fleet: Fleet,
    /// The program's own series at the last collection.
    own_series: Option<usize>,
}

/// Empties the latch when a collection is over, however it ends.
struct Latched<'a>(&'a Latch);

impl Drop for Latched<'_> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

impl Collector {
    pub(super) fn new(
        clock: SharedClock,
        published: Arc<Published>,
        reader: SharedReader,
        latch: Arc<Latch>,
        recorder: Arc<OtelRecorder>,
        fleet: Fleet,
        objects_per_family: usize,
    ) -> Self {
        Self {
            clock,
            published,
            reader,
            latch,
            recorder,
            state: Mutex::new(State {
                metrics: ResourceMetrics::default(),
                reader: Reader::new(objects_per_family),
                fleet,
                own_series: None,
            }),
        }
    }

    /// Collects, and hands the metrics and the snapshot that they were read off to `make`.
    ///
    /// Blocks while another collection is made, and computes for as long as there are series
    /// (half a microsecond each): call it where blocking is allowed. `make` must not collect.
    ///
    /// # Errors
    /// When the provider is shut down.
    pub fn collect<R>(
        &self,
        make: impl FnOnce(&ResourceMetrics, &Collection) -> R,
    ) -> Result<R, CollectError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State {
            metrics,
            reader,
            fleet,
            own_series,
        } = &mut *state;
        let collection = self.published.collect(self.clock.now());
        let (mut readout, left_out) = reader.read(collection.clone(), *own_series);
        for left_out in left_out {
            self.recorder.record(Measurement::SeriesDropped {
                family: left_out.family,
                series: left_out.series,
            });
        }
        fleet.fit(&mut readout);
        let latched = Latched(&self.latch);
        self.latch.set(Some(Arc::new(readout)));
        self.reader
            .collect(metrics)
            .map_err(|error| CollectError::Reader(error.to_string()))?;
        *own_series = Some(count_own(metrics));
        let made = make(metrics, &collection);
        drop(latched);
        Ok(made)
    }
}

impl std::fmt::Debug for Collector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collector").finish_non_exhaustive()
    }
}

/// How many series are the program's own.
fn count_own(metrics: &ResourceMetrics) -> usize {
    metrics
        .scope_metrics()
        .flat_map(ScopeMetrics::metrics)
        .filter(|metric| scope_of(metric.name()) == Scope::Own)
        .map(points)
        .sum()
}

fn points(metric: &Metric) -> usize {
    fn of<T>(data: &MetricData<T>) -> usize {
        match data {
            MetricData::Gauge(gauge) => gauge.data_points().count(),
            MetricData::Sum(sum) => sum.data_points().count(),
            MetricData::Histogram(histogram) => histogram.data_points().count(),
            MetricData::ExponentialHistogram(histogram) => histogram.data_points().count(),
        }
    }
    match metric.data() {
        AggregatedMetrics::F64(data) => of(data),
        AggregatedMetrics::U64(data) => of(data),
        AggregatedMetrics::I64(data) => of(data),
    }
}
