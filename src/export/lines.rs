//! Sample lines: a name, labels, a value. And the chunks that they are gathered in: one huge
//! buffer would be copied over and over as it grows.

use bytes::Bytes;
use opentelemetry::KeyValue;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, HistogramDataPoint, MetricData};

use super::labels::{LabelCache, Scope};
use super::text::Format;

/// Size of a chunk in bytes.
const CHUNK: usize = 128 * 1024;
/// A chunk with less room than this is given on, so that a line seldom makes it grow.
const SPARE: usize = 4 * 1024;

/// Text that is given on in chunks.
pub(super) struct Chunks<'a> {
    current: Vec<u8>,
    sink: &'a mut dyn FnMut(Bytes),
}

impl<'a> Chunks<'a> {
    pub(super) fn new(sink: &'a mut dyn FnMut(Bytes)) -> Self {
        Self {
            current: Vec::with_capacity(CHUNK),
            sink,
        }
    }

    pub(super) fn put(&mut self, text: &str) {
        self.current.extend_from_slice(text.as_bytes());
    }

    /// A place where the text may be cut.
    pub(super) fn end_line(&mut self) {
        if self.current.len() > CHUNK - SPARE {
            let full = std::mem::replace(&mut self.current, Vec::with_capacity(CHUNK));
            (self.sink)(Bytes::from(full));
        }
    }

    pub(super) fn finish(mut self) {
        if !self.current.is_empty() {
            self.current.shrink_to_fit();
            (self.sink)(Bytes::from(self.current));
        }
    }
}

/// A number as both formats write it.
pub(super) trait Number: Copy {
    fn put(self, out: &mut Chunks<'_>);
}

impl Number for i64 {
    fn put(self, out: &mut Chunks<'_>) {
        let mut digits = [0_u8; 20];
        let text = decimal(self.unsigned_abs(), &mut digits);
        if self < 0 {
            out.current.push(b'-');
        }
        out.current.extend_from_slice(text);
    }
}

impl Number for u64 {
    fn put(self, out: &mut Chunks<'_>) {
        let mut digits = [0_u8; 20];
        out.current.extend_from_slice(decimal(self, &mut digits));
    }
}

impl Number for f64 {
    fn put(self, out: &mut Chunks<'_>) {
        if self.is_nan() {
            out.put("NaN");
        } else if self.is_infinite() {
            out.put(if self > 0.0 { "+Inf" } else { "-Inf" });
        } else {
            use std::io::Write as _;
            // Writing into a Vec cannot fail.
            let _ = write!(out.current, "{self}");
        }
    }
}

/// The decimal digits of a number, at the end of the buffer.
fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut length = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
        length += 1;
        if number == 0 {
            break;
        }
    }
    digits.get(20 - length..).unwrap_or_default()
}

/// Where and how the points of a metric are written.
pub(super) struct Points<'a> {
    /// Name of the family.
    pub(super) name: &'a str,
    pub(super) scope: &'a Scope,
    pub(super) format: Format,
}

impl Points<'_> {
    /// Writes a line for each point, several for a histogram's.
    pub(super) fn write(
        &self,
        data: &AggregatedMetrics,
        cache: &mut LabelCache,
        out: &mut Chunks<'_>,
    ) {
        match data {
            AggregatedMetrics::F64(data) => self.write_data(data, cache, out),
            AggregatedMetrics::U64(data) => self.write_data(data, cache, out),
            AggregatedMetrics::I64(data) => self.write_data(data, cache, out),
        }
    }

    fn write_data<T: Number>(
        &self,
        data: &MetricData<T>,
        cache: &mut LabelCache,
        out: &mut Chunks<'_>,
    ) {
        // Filled anew for each point.
        let mut set = Vec::new();
        match data {
            MetricData::Gauge(gauge) => {
                for point in gauge.data_points() {
                    set.clear();
                    set.extend(point.attributes());
                    self.write_sample(&set, point.value(), cache, out);
                }
            }
            MetricData::Sum(sum) => {
                for point in sum.data_points() {
                    set.clear();
                    set.extend(point.attributes());
                    self.write_sample(&set, point.value(), cache, out);
                }
            }
            MetricData::Histogram(histogram) => {
                for point in histogram.data_points() {
                    set.clear();
                    set.extend(point.attributes());
                    self.write_histogram(&set, point, cache, out);
                }
            }
            MetricData::ExponentialHistogram(_) => {}
        }
    }

    fn write_sample(
        &self,
        set: &[&KeyValue],
        value: impl Number,
        cache: &mut LabelCache,
        out: &mut Chunks<'_>,
    ) {
        self.write_line("", set, None, value, cache, out);
    }

    fn write_histogram<T: Number>(
        &self,
        set: &[&KeyValue],
        point: &HistogramDataPoint<T>,
        cache: &mut LabelCache,
        out: &mut Chunks<'_>,
    ) {
        let mut cumulative: u64 = 0;
        for (bound, count) in point.bounds().zip(point.bucket_counts()) {
            cumulative = cumulative.saturating_add(count);
            let bound = match self.format {
                // OpenMetrics has these as floats, so that 1 and 1.0 are one bucket.
                Format::OpenMetrics => format!("{bound:?}"),
                Format::Text => bound.to_string(),
            };
            self.write_line("_bucket", set, Some(&bound), cumulative, cache, out);
        }
        self.write_line("_bucket", set, Some("+Inf"), point.count(), cache, out);
        self.write_line("_sum", set, None, point.sum(), cache, out);
        self.write_line("_count", set, None, point.count(), cache, out);
    }

    fn write_line(
        &self,
        suffix: &str,
        set: &[&KeyValue],
        bound: Option<&str>,
        value: impl Number,
        cache: &mut LabelCache,
        out: &mut Chunks<'_>,
    ) {
        out.put(self.name);
        out.put(suffix);
        // A scope has a name, so that there always is a label.
        out.put("{");
        cache.write(set, self.scope, &mut |part| out.put(part));
        if let Some(bound) = bound {
            out.put(",le=\"");
            out.put(bound);
            out.put("\"");
        }
        out.put("} ");
        value.put(out);
        out.put("\n");
        out.end_line();
    }
}
