//! What was published, from wherever it was read: a Prometheus text exposition, or what a
//! Collector received over OTLP, brought to the same form so that both can be held against the
//! same expectation.

use std::collections::BTreeMap;

use serde_json::Value;

/// A series: its Prometheus name and its labels.
pub(crate) type Series = (String, BTreeMap<String, String>);

/// The samples of one state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(pub(crate) BTreeMap<Series, f64>);

/// Samples, and the instants between which the `now` they were computed at lies.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    /// The samples.
    pub(crate) samples: Samples,
    /// Seconds since the epoch.
    pub(crate) now: (f64, f64),
}

impl Samples {
    /// Reads the Prometheus text format; an error for a duplicate or a malformed line.
    pub(crate) fn of_text(text: &str) -> Result<Self, String> {
        let mut samples = BTreeMap::new();
        for line in text.lines() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (series, value, _) = sample(line).ok_or_else(|| format!("malformed: {line}"))?;
            if samples.insert(series, value).is_some() {
                return Err(format!("a duplicate: {line}"));
            }
        }
        Ok(Self(samples))
    }

    /// Those of a family, such as `megamon_alpha_jobset_`.
    pub(crate) fn family<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a Series, f64)> {
        self.0
            .iter()
            .filter(move |((name, _), _)| name.starts_with(prefix))
            .map(|(series, value)| (series, *value))
    }

    /// The one value of a name among whose labels are these.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Result<f64, String> {
        let found: Vec<f64> = self
            .0
            .iter()
            .filter(|((have, of), _)| {
                have == name
                    && labels
                        .iter()
                        .all(|(key, value)| of.get(*key).is_some_and(|of| of == value))
            })
            .map(|(_, value)| *value)
            .collect();
        match found.as_slice() {
            [one] => Ok(*one),
            many => Err(format!("{name}{labels:?} has {} series", many.len())),
        }
    }

    /// The sum over a name among whose labels are these; 0 when there is none.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.0
            .iter()
            .filter(|((have, of), _)| {
                have == name
                    && labels
                        .iter()
                        .all(|(key, value)| of.get(*key).is_some_and(|of| of == value))
            })
            .map(|(_, value)| *value)
            .sum()
    }
}

/// One line: series, value and timestamp in seconds.
fn sample(line: &str) -> Option<(Series, f64, Option<f64>)> {
    let name_end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(name_end);
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (key, after) = rest.split_once("=\"")?;
            let mut value = String::new();
            let mut characters = after.char_indices();
            let end = loop {
                match characters.next()? {
                    (at, '"') => break at,
                    (_, '\\') => match characters.next()?.1 {
                        'n' => value.push('\n'),
                        other => value.push(other),
                    },
                    (_, other) => value.push(other),
                }
            };
            if labels.insert(key.to_owned(), value).is_some() {
                return None;
            }
            rest = after.get(end + 1..)?;
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        rest = rest.strip_prefix('}')?;
    }
    let mut words = rest.split_whitespace();
    let value = words.next()?.parse().ok()?;
    let timestamp = words.next().map(str::parse::<f64>).transpose().ok()?;
    let timestamp = timestamp.map(|milliseconds| milliseconds / 1000.0);
    Some(((name.to_owned(), labels), value, timestamp))
}

/// How far the instants of a push's points may lie from the one `now` that its values share.
const COLLECTION: f64 = 0.75;

/// The newest push among the requests that a Collector received.
pub(crate) fn newest_push(requests: &[Value]) -> Result<Observed, String> {
    let newest = requests
        .iter()
        .filter_map(|request| gauges(request).map(|point| point.at).reduce(f64::max))
        .reduce(f64::max)
        .ok_or("no push was received")?;
    let mut samples = BTreeMap::new();
    let mut oldest = newest;
    for request in requests {
        for point in gauges(request) {
            // A push may come in several requests; the one before it is an interval away.
            if point.at < newest - COLLECTION / 2.0 {
                continue;
            }
            oldest = oldest.min(point.at);
            if let Some(before) = samples.insert(point.series.clone(), point.value) {
                return Err(format!(
                    "{:?} is twice in a push: {before}, {}",
                    point.series, point.value
                ));
            }
        }
    }
    Ok(Observed {
        samples: Samples(samples),
        now: (oldest - COLLECTION, newest + COLLECTION),
    })
}

struct Point {
    series: Series,
    value: f64,
    at: f64,
}

/// The gauge points of a request under their Prometheus names. Attributes that are neither a
/// string nor a boolean, and numbers that are neither, are the contract's fault and show as such.
fn gauges(request: &Value) -> impl Iterator<Item = Point> {
    let each = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let mut points = Vec::new();
    for resource in each(request, "resourceMetrics") {
        for scope in each(&resource, "scopeMetrics") {
            let scope_name = scope["scope"]["name"].as_str().unwrap_or_default();
            for metric in each(&scope, "metrics") {
                let unit = metric["unit"].as_str().unwrap_or_default();
                let mut name = sanitised(metric["name"].as_str().unwrap_or_default());
                if unit == "s" {
                    name.push_str("_seconds");
                }
                for point in each(&metric["gauge"], "dataPoints") {
                    let mut labels: BTreeMap<String, String> = each(&point, "attributes")
                        .iter()
                        .map(|attribute| {
                            let key = sanitised(attribute["key"].as_str().unwrap_or_default());
                            (key, text_of(&attribute["value"]))
                        })
                        .collect();
                    labels.insert("otel_scope_name".to_owned(), scope_name.to_owned());
                    points.push(Point {
                        series: (name.clone(), labels),
                        value: number_of(&point, unit),
                        at: number(&point["timeUnixNano"]) / 1e9,
                    });
                }
            }
        }
    }
    points.into_iter()
}

fn sanitised(name: &str) -> String {
    name.replace(['.', '-', '/'], "_")
}

fn text_of(value: &Value) -> String {
    if let Some(text) = value["stringValue"].as_str() {
        return text.to_owned();
    }
    match value["boolValue"].as_bool() {
        Some(boolean) => boolean.to_string(),
        None => format!("unexpected {value}"),
    }
}

/// Times are doubles and everything else is an integer; what is not so is NaN, which equals
/// nothing that is expected.
fn number_of(point: &Value, unit: &str) -> f64 {
    match unit {
        "s" => point["asDouble"].as_f64().unwrap_or(f64::NAN),
        _ => number(&point["asInt"]),
    }
}

/// A number, or a number in a string as OTLP JSON has 64-bit integers.
fn number(value: &Value) -> f64 {
    match value {
        Value::String(text) => text.parse().unwrap_or(f64::NAN),
        other => other.as_f64().unwrap_or(f64::NAN),
    }
}

/// What the Collector's Prometheus exporter shows of the fleet: the labels that it adds for the
/// resource and the scope's other attributes are taken off, its timestamps give the `now`.
pub(crate) fn collector_exposition(text: &str, prefixes: &[&str]) -> Result<Observed, String> {
    let mut samples = BTreeMap::new();
    let mut now: Option<(f64, f64)> = None;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if !prefixes.iter().any(|prefix| line.starts_with(prefix)) {
            continue;
        }
        let ((name, mut labels), value, at) =
            sample(line).ok_or_else(|| format!("malformed: {line}"))?;
        for added in [
            "job",
            "instance",
            "otel_scope_version",
            "otel_scope_schema_url",
        ] {
            labels.remove(added);
        }
        let at = at.ok_or_else(|| format!("no timestamp: {line}"))?;
        now = Some(now.map_or((at, at), |(from, to)| (from.min(at), to.max(at))));
        if samples.insert((name, labels), value).is_some() {
            return Err(format!("two resources show one series: {line}"));
        }
    }
    let (from, to) = now.unwrap_or_default();
    if to - from > COLLECTION {
        return Err(format!(
            "series of different pushes, {:.1} s apart, are shown together",
            to - from
        ));
    }
    Ok(Observed {
        samples: Samples(samples),
        now: (from - COLLECTION, to + COLLECTION),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_text_is_read_with_escapes_and_without_help() {
        let text = "# TYPE a gauge\na{x=\"1\",y=\"q\\\"\\n\\\\\"} 2.5\nb 1 1700000000000\n";
        let samples = Samples::of_text(text).expect("it is well formed");
        let labels = [("x", "1"), ("y", "q\"\n\\")];
        assert_eq!(samples.value("a", &labels), Ok(2.5));
        assert_eq!(samples.value("b", &[]), Ok(1.0));
        assert_eq!(samples.0.len(), 2);
    }

    #[test]
    fn what_is_malformed_or_twice_is_an_error() {
        for text in ["a{x=\"1\" 2", "a{x=\"1\",x=\"2\"} 1", "a one", "a 1\na 1"] {
            assert!(Samples::of_text(text).is_err(), "{text}");
        }
    }

    /// A request with one metric of one point, at a second.
    fn request(name: &str, unit: &str, value: &Value, at: u64) -> Value {
        let mut point = json!({
            "timeUnixNano": format!("{at}000000000"),
            "attributes": [
                {"key": "nodepool.name", "value": {"stringValue": "a"}},
                {"key": "spot", "value": {"boolValue": true}},
            ],
        });
        for (key, value) in value.as_object().expect("an object") {
            point[key] = value.clone();
        }
        json!({"resourceMetrics": [{"scopeMetrics": [{
            "scope": {"name": "megamon"},
            "metrics": [{"name": name, "unit": unit, "gauge": {"dataPoints": [point]}}],
        }]}]})
    }

    #[test]
    fn the_newest_push_is_read_under_prometheus_names() {
        let up = "megamon.alpha.nodepool.up";
        let requests = [
            request(up, "", &json!({"asInt": "0"}), 100),
            request(up, "", &json!({"asInt": "1"}), 101),
            request(&format!("{up}.time"), "s", &json!({"asDouble": 7}), 101),
        ];
        let push = newest_push(&requests).expect("a push");
        let labels = [
            ("nodepool_name", "a"),
            ("spot", "true"),
            ("otel_scope_name", "megamon"),
        ];
        let up = "megamon_alpha_nodepool_up";
        assert_eq!(push.samples.value(up, &labels), Ok(1.0));
        let time = format!("{up}_time_seconds");
        assert_eq!(push.samples.value(&time, &labels), Ok(7.0));
        assert_eq!(push.samples.0.len(), 2, "nothing of the push before");
        assert!(push.now.0 < 101.0 && 101.0 < push.now.1);
    }

    #[test]
    fn a_number_of_the_wrong_kind_equals_nothing() {
        let count = [request("a", "", &json!({"asDouble": 1.0}), 1)];
        let push = newest_push(&count).expect("a push");
        assert!(push.samples.value("a", &[]).expect("it is there").is_nan());
        let time = [request("a", "s", &json!({"asInt": "1"}), 1)];
        let push = newest_push(&time).expect("a push");
        assert!(
            push.samples
                .value("a_seconds", &[])
                .expect("it is there")
                .is_nan()
        );
    }
}
