//! The two OTLP receivers: of metrics, and of traces, which follow the former where nothing else is
//! said.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{HeaderName, HeaderValue};

use super::forms;
use super::problem::{Origin, Path};
use super::schema::settings;
use super::validate::{Reading, bounds};
use super::{Otlp, Tls, Traces};

const PROTOCOLS: [(&str, ()); 1] = [("grpc", ())];
const COMPRESSIONS: [(&str, bool); 2] = [("none", false), ("gzip", true)];

/// What is set of a receiver.
#[derive(Clone, Default)]
struct Receiver {
    endpoint: Option<String>,
    timeout: Option<Duration>,
    headers: BTreeMap<String, String>,
    gzip: Option<bool>,
    tls: Tls,
}

impl Receiver {
    fn otlp(self, endpoint: String, interval: Option<Duration>) -> Otlp {
        let default = Otlp::at(endpoint);
        Otlp {
            interval: interval.unwrap_or(default.interval),
            timeout: self.timeout.unwrap_or(default.timeout),
            headers: self.headers,
            gzip: self.gzip.unwrap_or(default.gzip),
            tls: self.tls,
            ..default
        }
    }
}

/// Both receivers, `None` where nothing is pushed.
pub(super) fn receivers(
    otlp: Option<settings::Otlp>,
    traces: Option<settings::Traces>,
    reading: &mut Reading<'_>,
) -> (Option<Otlp>, Option<Traces>) {
    let settings::Otlp {
        enabled,
        endpoint,
        protocol,
        interval,
        timeout,
        headers,
        compression,
        tls,
    } = otlp.unwrap_or_default();
    let on = enabled.unwrap_or(endpoint.is_some());
    let metrics = Section {
        name: "otlp",
        endpoint,
        protocol,
        timeout,
        headers,
        compression,
        tls,
    };
    let needs_endpoint = on && metrics.endpoint.is_none();
    let metrics = metrics.read(reading);
    let interval = reading.duration("otlp.interval", interval, &bounds::INTERVAL);
    let otlp = metrics.endpoint.clone().filter(|_| on);
    let otlp = otlp.map(|endpoint| metrics.clone().otlp(endpoint, interval));
    if needs_endpoint {
        missing_endpoint(reading, "otlp");
    }
    if !on {
        reading.off.push("otlp".into());
    }
    let traces = traces_of(traces.unwrap_or_default(), &metrics, reading);
    (otlp, traces)
}

fn traces_of(
    traces: settings::Traces,
    metrics: &Receiver,
    reading: &mut Reading<'_>,
) -> Option<Traces> {
    let settings::Traces {
        enabled,
        endpoint,
        protocol,
        timeout,
        headers,
        compression,
        tls,
        sample_ratio,
    } = traces;
    reading.asks_for_enabled("traces", enabled);
    let on = enabled.unwrap_or(false);
    let own = endpoint.is_some();
    let section = Section {
        name: "traces",
        endpoint,
        protocol,
        timeout,
        headers,
        compression,
        tls,
    };
    let mut receiver = section.read(reading);
    let sample_ratio = reading.share("traces.sampleRatio", sample_ratio);
    receiver.timeout = receiver.timeout.or(metrics.timeout);
    receiver.gzip = receiver.gzip.or(metrics.gzip);
    if !own {
        // A token or certificate meant for one receiver is never shown to another.
        receiver.endpoint.clone_from(&metrics.endpoint);
        if receiver.headers.is_empty() {
            receiver.headers.clone_from(&metrics.headers);
        }
        if receiver.tls == Tls::default() {
            receiver.tls = metrics.tls.clone();
        }
    }
    if !on {
        reading.off.push("traces".into());
        return None;
    }
    let Some(endpoint) = receiver.endpoint.clone() else {
        // One that was given and is wrong is a problem already.
        if !own
            && reading
                .problems
                .iter()
                .all(|problem| problem.path != "otlp.endpoint".into())
        {
            missing_endpoint(reading, "traces");
        }
        return None;
    };
    Some(Traces {
        otlp: receiver.otlp(endpoint, None),
        sample_ratio: sample_ratio.unwrap_or(1.0),
    })
}

fn missing_endpoint(reading: &mut Reading<'_>, section: &str) {
    let what = "is enabled without an endpoint".to_owned();
    let expected = "an endpoint such as http://collector:4317";
    let path = Path::from(section).name("enabled");
    reading.problem(path, (what, expected.to_owned()));
}

/// The settings that both receivers have.
struct Section {
    name: &'static str,
    endpoint: Option<String>,
    protocol: Option<String>,
    timeout: Option<String>,
    headers: BTreeMap<String, String>,
    compression: Option<String>,
    tls: Option<settings::Tls>,
}

impl Section {
    fn read(self, reading: &mut Reading<'_>) -> Receiver {
        let name = self.name;
        let path = |below: &str| format!("{name}.{below}");
        let endpoint = path("endpoint");
        let endpoint = reading.parsed(endpoint.as_str(), self.endpoint, forms::endpoint);
        let protocol = path("protocol");
        reading.parsed(protocol.as_str(), self.protocol, |text| {
            let known = forms::word(text, &PROTOCOLS);
            known.map_err(|(_, expected)| (format!("{text:?} is not supported"), expected))
        });
        let timeout = reading.duration(&path("timeout"), self.timeout, &bounds::TIMEOUT);
        let compression = path("compression");
        let gzip = reading.parsed(compression.as_str(), self.compression, |text| {
            forms::word(text, &COMPRESSIONS)
        });
        Receiver {
            timeout,
            headers: headers(&Path::from(name).name("headers"), self.headers, reading),
            gzip,
            tls: tls(
                name,
                self.tls.unwrap_or_default(),
                endpoint.as_deref(),
                reading,
            ),
            endpoint,
        }
    }
}

/// Headers as gRPC takes them; a value may be a secret and is not repeated.
fn headers(
    path: &Path,
    headers: BTreeMap<String, String>,
    reading: &mut Reading<'_>,
) -> BTreeMap<String, String> {
    let mut read = BTreeMap::new();
    for (name, value) in headers {
        let lower = name.to_lowercase();
        let reserved = lower.starts_with("grpc-") || lower.ends_with("-bin");
        if reserved || HeaderName::try_from(lower.as_str()).is_err() {
            let what = format!("{name:?} is no name of a header");
            let expected = "letters, digits, - and _, not grpc-… and not …-bin";
            reading.problem(path.name(name), (what, expected.to_owned()));
        } else if !value.is_ascii() || HeaderValue::try_from(value.as_str()).is_err() {
            let what = format!("the value of {name:?} cannot be sent");
            let expected = "printable ASCII characters";
            reading.problem(path.name(name), (what, expected.to_owned()));
        } else {
            read.insert(lower, value);
        }
    }
    read
}

fn tls(
    section: &str,
    tls: settings::Tls,
    endpoint: Option<&str>,
    reading: &mut Reading<'_>,
) -> Tls {
    let settings::Tls {
        ca,
        certificate,
        key,
    } = tls;
    let path = |below: &str| format!("{section}.tls.{below}");
    let half = match (&certificate, &key) {
        (Some(_), None) => Some(("key", "the private key that goes with the certificate")),
        (None, Some(_)) => Some(("certificate", "the certificate that goes with the key")),
        _ => None,
    };
    if let Some((below, expected)) = half {
        let fault = ("is missing".to_owned(), expected.to_owned());
        reading.problem(path(below).as_str(), fault);
    }
    let tls = Tls {
        ca: reading.file(&path("ca"), ca),
        certificate: reading.file(&path("certificate"), certificate),
        key: reading.file(&path("key"), key),
    };
    // Of two that were not written together, such as a flag for a trial, one may be left over.
    let section = Path::from(section);
    let whole = section.name("tls");
    let in_file = |path| matches!(reading.origins.get(path), Some(Origin::File { .. }));
    let together = in_file(&whole) && in_file(&section.name("endpoint"));
    let plain = endpoint.is_some_and(|url| url.starts_with("http://"));
    if together && plain && tls != Tls::default() {
        let what = "has settings, but the endpoint is plain text".to_owned();
        let expected = "an https:// endpoint, or no TLS settings";
        reading.problem(whole, (what, expected.to_owned()));
    }
    tls
}
