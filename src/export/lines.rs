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
        } else if let Some(nanos) = whole_nanos(self) {
            put_nanos(nanos, out);
        } else {
            use std::io::Write as _;
            // Writing into a Vec cannot fail.
            let _ = write!(out.current, "{self}");
        }
    }
}

/// The nanoseconds of a time in seconds, where dividing them by 10^9 gives that very number: then
/// their decimal form reads back as it. Nearly all values here are such, and it is quickly written.
fn whole_nanos(seconds: f64) -> Option<u64> {
    // Every whole number up to here is a double.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let nanos = (seconds * 1e9).round();
    if !(nanos < EXACT && seconds.is_sign_positive()) {
        return None;
    }
    #[expect(
        clippy::float_cmp,
        reason = "it must read back as the very same number"
    )]
    let exact = nanos / 1e9 == seconds;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole, not negative and below 2^53"
    )]
    exact.then_some(nanos as u64)
}

/// Writes nanoseconds as seconds, without zeros at the end.
fn put_nanos(nanos: u64, out: &mut Chunks<'_>) {
    (nanos / 1_000_000_000).put(out);
    let mut fraction = nanos % 1_000_000_000;
    if fraction == 0 {
        return;
    }
    let mut digits = [b'0'; 9];
    let mut length = 0;
    for (at, digit) in digits.iter_mut().enumerate().rev() {
        let last = u8::try_from(fraction % 10).unwrap_or(0);
        *digit = b'0' + last;
        fraction /= 10;
        if last != 0 && length == 0 {
            length = at + 1;
        }
    }
    out.current.push(b'.');
    out.current
        .extend_from_slice(digits.get(..length).unwrap_or_default());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn text(number: impl Number) -> String {
        let mut all = Vec::new();
        let mut sink = |chunk: Bytes| all.extend_from_slice(&chunk);
        let mut out = Chunks::new(&mut sink);
        number.put(&mut out);
        out.finish();
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn numbers_are_written_as_they_are() {
        for (number, expected) in [
            (0.0, "0"),
            (1.0, "1"),
            (215.009_644_856, "215.009644856"),
            (0.000_576_424, "0.000576424"),
            (20.104_356_31, "20.10435631"),
            (1_775_690_156.5, "1775690156.5"),
            (1e-12, "0.000000000001"),
            (0.1 + 0.2, "0.30000000000000004"),
            (-2.5, "-2.5"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(text(number), expected);
        }
        assert_eq!(text(i64::MIN), i64::MIN.to_string());
        assert_eq!(text(0_i64), "0");
        assert_eq!(text(u64::MAX), u64::MAX.to_string());
    }

    proptest::proptest! {
        #[test]
        fn a_double_reads_back_as_itself(number in proptest::num::f64::NORMAL | proptest::num::f64::ZERO) {
            let read: f64 = text(number).parse().unwrap();
            proptest::prop_assert_eq!(read.to_bits(), number.to_bits());
        }

        #[test]
        fn a_time_is_written_to_the_nanosecond(nanos in 0_u64..1_000_000_000_000_000) {
            #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
            let seconds = nanos as f64 / 1e9;
            let written = text(seconds);
            let read: f64 = written.parse().unwrap();
            proptest::prop_assert_eq!(read.to_bits(), seconds.to_bits());
            let expected = format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
            let expected = expected.trim_end_matches('0').trim_end_matches('.');
            proptest::prop_assert_eq!(written, expected);
        }
    }

    #[test]
    fn text_is_cut_between_lines() {
        let mut chunks: Vec<Bytes> = Vec::new();
        let mut sink = |chunk: Bytes| chunks.push(chunk);
        let mut out = Chunks::new(&mut sink);
        for n in 0..100_000 {
            out.put(&format!("line {n}\n"));
            out.end_line();
        }
        out.finish();
        assert!(chunks.len() > 3);
        for chunk in &chunks {
            assert!(chunk.len() <= CHUNK);
            assert!(chunk.starts_with(b"line ") && chunk.ends_with(b"\n"));
        }
        assert_eq!(chunks.iter().map(Bytes::len).sum::<usize>(), 1_088_890);
    }
}
