//! The Prometheus outlet: what is collected, as Prometheus text 0.0.4 or OpenMetrics text 1.0.
//!
//! It writes the text itself, straight from the reader's metrics: the way over the exporter's
//! registry builds every label of every sample anew, and costs four times as much.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use opentelemetry_sdk::metrics::data::ResourceMetrics;

use super::families::{self, Family};
use super::labels::{self, LabelCache};
use super::lines::{Chunks, Points};
use super::reader::{CollectError, Collector};
use crate::measure::{Measurement, SharedRecorder};

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Prometheus text 0.0.4.
    Text,
    /// OpenMetrics text 1.0.
    OpenMetrics,
}

impl Format {
    /// The value of `Content-Type`.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The Prometheus outlet.
pub struct Prometheus {
    collector: Arc<Collector>,
    recorder: SharedRecorder,
    // Held while a collection is written, under the collector's own lock.
    labels: Mutex<LabelCache>,
}

impl Prometheus {
    /// Writes what `collector` collects; failures are told to `recorder`.
    #[must_use]
    pub fn new(collector: Arc<Collector>, recorder: SharedRecorder) -> Self {
        Self {
            collector,
            recorder,
            labels: Mutex::default(),
        }
    }

    /// Collects, and writes everything in chunks of about 128 KiB.
    ///
    /// It computes, for half a microsecond a series: call it where blocking is allowed.
    ///
    /// # Errors
    /// When the metrics cannot be collected, because the provider is shut down.
    pub fn scrape(&self, format: Format) -> Result<Vec<Bytes>, CollectError> {
        let mut chunks = Vec::new();
        self.scrape_to(format, |chunk| chunks.push(chunk))?;
        Ok(chunks)
    }

    /// Collects, and gives the text to `sink` chunk by chunk, which may compress it but must not
    /// wait for anybody: other collections wait for it.
    ///
    /// # Errors
    /// When the metrics cannot be collected, because the provider is shut down.
    pub fn scrape_to(
        &self,
        format: Format,
        mut sink: impl FnMut(Bytes),
    ) -> Result<(), CollectError> {
        self.collector
            .collect(|metrics, _| {
                let mut cache = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
                write(metrics, format, &mut cache, &mut sink);
            })
            .inspect_err(|_| {
                self.recorder.record(Measurement::ExportFailure {
                    outlet: "prometheus",
                    reason: "collect",
                });
            })
    }
}

impl std::fmt::Debug for Prometheus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prometheus").finish_non_exhaustive()
    }
}

/// Writes metrics as text, families in the order of their names.
pub(super) fn write(
    metrics: &ResourceMetrics,
    format: Format,
    cache: &mut LabelCache,
    sink: &mut dyn FnMut(Bytes),
) {
    cache.begin();
    let mut out = Chunks::new(sink);
    for family in families::of(metrics) {
        family.write_head(format, &mut out);
        for (scope, metric) in &family.metrics {
            Points {
                name: &family.name,
                scope,
                format,
            }
            .write(metric.data(), cache, &mut out);
        }
    }
    write_target_info(metrics, format, &mut out);
    if format == Format::OpenMetrics {
        out.put("# EOF\n");
    }
    out.finish();
    cache.end();
}

/// The resource's attributes, as the labels of one sample.
fn write_target_info(metrics: &ResourceMetrics, format: Format, out: &mut Chunks<'_>) {
    let labels = labels::of_resource(metrics.resource());
    if labels.is_empty() {
        return;
    }
    let (family, kind) = match format {
        Format::Text => ("target_info", "gauge"),
        Format::OpenMetrics => ("target", "info"),
    };
    for line in [
        "# HELP ",
        family,
        " Target metadata\n# TYPE ",
        family,
        " ",
        kind,
        "\ntarget_info",
        &labels,
        " 1\n",
    ] {
        out.put(line);
    }
    out.end_line();
}

impl Family<'_> {
    fn write_head(&self, format: Format, out: &mut Chunks<'_>) {
        let name = match format {
            // OpenMetrics names a counter's family without the suffix of its samples.
            Format::OpenMetrics => self
                .name
                .strip_suffix("_total")
                .filter(|_| self.kind == families::Kind::Counter),
            Format::Text => None,
        }
        .unwrap_or(&self.name);
        let help = if self.help.is_empty() {
            self.metrics.first().map_or("", |(_, metric)| metric.name())
        } else {
            self.help
        };
        for part in ["# HELP ", name, " "] {
            out.put(part);
        }
        labels::escape(help, format == Format::OpenMetrics, &mut |part| {
            out.put(part);
        });
        for part in ["\n# TYPE ", name, " ", self.kind.name(), "\n"] {
            out.put(part);
        }
        if format == Format::OpenMetrics {
            for unit in ["seconds", "bytes"] {
                let has_it = name
                    .strip_suffix(unit)
                    .is_some_and(|before| before.ends_with('_'));
                if has_it {
                    for part in ["# UNIT ", name, " ", unit, "\n"] {
                        out.put(part);
                    }
                }
            }
        }
        out.end_line();
    }
}
