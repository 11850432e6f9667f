//! What is set outside the file: flags, and before them the environment. Both become settings by
//! path, so that everything after this treats all origins alike.

use std::collections::BTreeMap;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use serde_json::Value as Json;

use super::forms;
use super::problem::{Origin, Path, Problem};
use super::shape::Gathered;

/// Settings given by flags; `None` where a flag is not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--metric-prefix`
    pub metric_prefix: Option<String>,
    /// `--metrics-address`
    pub metrics_address: Option<String>,
    /// `--probe-address`
    pub probe_address: Option<String>,
    /// `--otlp-endpoint`: also turns the push on.
    pub otlp_endpoint: Option<String>,
    /// `--otlp-interval`
    pub otlp_interval: Option<String>,
    /// `--kubeconfig`
    pub kubeconfig: Option<String>,
    /// `--context`
    pub context: Option<String>,
    /// `--cluster-name`
    pub cluster_name: Option<String>,
    /// `--history`
    pub history: Option<String>,
    /// `--log-format`
    pub log_format: Option<String>,
    /// `--log-level`
    pub log_level: Option<String>,
}

impl Gathered {
    /// Takes what flags say.
    pub(super) fn flags(&mut self, flags: &Flags) {
        let Flags {
            metric_prefix,
            metrics_address,
            probe_address,
            otlp_endpoint,
            otlp_interval,
            kubeconfig,
            context,
            cluster_name,
            history,
            log_format,
            log_level,
        } = flags;
        for (flag, path, value) in [
            ("--metric-prefix", "prefix", metric_prefix),
            ("--metrics-address", "metricsAddress", metrics_address),
            ("--probe-address", "probeAddress", probe_address),
            ("--otlp-endpoint", "otlp.endpoint", otlp_endpoint),
            ("--otlp-interval", "otlp.interval", otlp_interval),
            ("--kubeconfig", "cluster.kubeconfig", kubeconfig),
            ("--context", "cluster.context", context),
            ("--cluster-name", "cluster.name", cluster_name),
            ("--history", "history.url", history),
            ("--log-format", "log.format", log_format),
            ("--log-level", "log.level", log_level),
        ] {
            if let Some(value) = value {
                self.set(path.into(), value.as_str().into(), Origin::Flag(flag));
            }
        }
        if otlp_endpoint.is_some() {
            let origin = Origin::Flag("--otlp-endpoint");
            self.set("otlp.enabled".into(), true.into(), origin);
        }
    }

    /// Takes what the environment says; a variable that is empty is not set.
    pub(super) fn environment(&mut self, variable: &dyn Fn(&str) -> Option<String>) {
        let mut variables = Variables {
            lookup: variable,
            gathered: self,
        };
        variables.switches();
        variables.receiver(&GENERIC, &["otlp", "traces"]);
        variables.receiver(&METRICS, &["otlp"]);
        variables.receiver(&TRACES, &["traces"]);
        variables.interval();
        variables.resource();
        variables.text("RUST_LOG", "log.level");
        if variables.get("KUBECONFIG").is_some() {
            // It may name several files, which the client merges; what the file names steps back.
            self.clear(&"cluster.kubeconfig".into());
        }
    }
}

/// The variables of one OTLP receiver.
struct Receiver {
    endpoint: &'static str,
    protocol: &'static str,
    timeout: &'static str,
    headers: &'static str,
    compression: &'static str,
    ca: &'static str,
    certificate: &'static str,
    key: &'static str,
}

const GENERIC: Receiver = Receiver {
    endpoint: "OTEL_EXPORTER_OTLP_ENDPOINT",
    protocol: "OTEL_EXPORTER_OTLP_PROTOCOL",
    timeout: "OTEL_EXPORTER_OTLP_TIMEOUT",
    headers: "OTEL_EXPORTER_OTLP_HEADERS",
    compression: "OTEL_EXPORTER_OTLP_COMPRESSION",
    ca: "OTEL_EXPORTER_OTLP_CERTIFICATE",
    certificate: "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
    key: "OTEL_EXPORTER_OTLP_CLIENT_KEY",
};

const METRICS: Receiver = Receiver {
    endpoint: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    protocol: "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
    timeout: "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT",
    headers: "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
    compression: "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION",
    ca: "OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE",
    certificate: "OTEL_EXPORTER_OTLP_METRICS_CLIENT_CERTIFICATE",
    key: "OTEL_EXPORTER_OTLP_METRICS_CLIENT_KEY",
};

const TRACES: Receiver = Receiver {
    endpoint: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    protocol: "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    timeout: "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    headers: "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    compression: "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION",
    ca: "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
    certificate: "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE",
    key: "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY",
};

struct Variables<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    gathered: &'a mut Gathered,
}

impl Variables<'_> {
    fn get(&self, name: &str) -> Option<String> {
        (self.lookup)(name).filter(|value| !value.trim().is_empty())
    }

    fn problem(&mut self, name: &'static str, path: Path, what: String, expected: &str) {
        self.gathered.problems.push(Problem {
            origin: Origin::Variable(name),
            path,
            what,
            expected: expected.to_owned(),
        });
    }

    fn text(&mut self, name: &'static str, path: &str) {
        if let Some(value) = self.get(name) {
            let origin = Origin::Variable(name);
            self.gathered.set(path.into(), value.trim().into(), origin);
        }
    }

    /// Milliseconds, as a duration.
    fn millis(&mut self, name: &'static str, path: &str) {
        let Some(value) = self.get(name) else { return };
        if let Ok(millis) = value.trim().parse() {
            let text = forms::duration_text(Duration::from_millis(millis));
            let origin = Origin::Variable(name);
            self.gathered.set(path.into(), text.into(), origin);
        } else {
            let what = format!("{value:?} is no time");
            let expected = "a whole number of milliseconds, such as 10000";
            self.problem(name, path.into(), what, expected);
        }
    }

    /// `key=value,key=value`, the values percent-encoded.
    fn pairs(&mut self, name: &'static str, path: &Path) -> BTreeMap<String, String> {
        let mut pairs = BTreeMap::new();
        let text = self.get(name).unwrap_or_default();
        for (index, pair) in text.split(',').enumerate() {
            if pair.trim().is_empty() {
                continue;
            }
            let decoded = |text: &str| {
                let text = percent_decode_str(text.trim()).decode_utf8();
                text.ok().map(std::borrow::Cow::into_owned)
            };
            let pair = pair.split_once('=');
            match pair.map(|(key, value)| (decoded(key), decoded(value))) {
                Some((Some(key), Some(value))) if !key.is_empty() => {
                    pairs.insert(key, value);
                }
                // The text may hold a secret, so it is not repeated.
                _ => {
                    let what = format!("part {} is no pair", index + 1);
                    let expected = "key=value pairs with commas between them";
                    self.problem(name, path.clone(), what, expected);
                }
            }
        }
        pairs
    }

    fn receiver(&mut self, names: &Receiver, sections: &[&str]) {
        for section in sections {
            let path = |name: &str| format!("{section}.{name}");
            self.text(names.endpoint, &path("endpoint"));
            self.text(names.protocol, &path("protocol"));
            self.millis(names.timeout, &path("timeout"));
            self.text(names.compression, &path("compression"));
            self.text(names.ca, &path("tls.ca"));
            self.text(names.certificate, &path("tls.certificate"));
            self.text(names.key, &path("tls.key"));
            let headers = Path::from(path("headers").as_str());
            for (name, value) in self.pairs(names.headers, &headers) {
                let origin = Origin::Variable(names.headers);
                // A header's name has no case.
                let path = headers.name(name.to_lowercase());
                self.gathered.set(path, value.into(), origin);
            }
        }
    }

    fn interval(&mut self) {
        self.millis("OTEL_METRIC_EXPORT_INTERVAL", "otlp.interval");
    }

    /// What turns a push on or off as a whole.
    fn switches(&mut self) {
        let traces = TRACES.endpoint;
        if self.get(traces).is_some() {
            self.switch(traces, "traces.enabled", true);
        }
        for (name, path) in [
            ("OTEL_METRICS_EXPORTER", "otlp.enabled"),
            ("OTEL_TRACES_EXPORTER", "traces.enabled"),
        ] {
            let value = self.get(name).unwrap_or_default();
            let words = value
                .split(',')
                .map(str::trim)
                .filter(|word| !word.is_empty());
            let words = words.collect::<Vec<_>>();
            let known = ["otlp", "none", "prometheus", "console", "logging"];
            if let Some(word) = words.iter().find(|word| !known.contains(word)) {
                let what = format!("{word:?} is no exporter");
                self.problem(name, path.into(), what, "otlp or none");
            } else if words.contains(&"otlp") {
                // Metrics need an endpoint all the same; traces are off until they are asked for.
                if path == "traces.enabled" {
                    self.switch(name, path, true);
                }
            } else if !words.is_empty() {
                self.switch(name, path, false);
            }
        }
        let disabled = "OTEL_SDK_DISABLED";
        if self
            .get(disabled)
            .is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
        {
            self.switch(disabled, "otlp.enabled", false);
            self.switch(disabled, "traces.enabled", false);
        }
    }

    fn switch(&mut self, name: &'static str, path: &str, on: bool) {
        let origin = Origin::Variable(name);
        self.gathered.set(path.into(), on.into(), origin);
    }

    fn resource(&mut self) {
        let name = "OTEL_RESOURCE_ATTRIBUTES";
        let resource = Path::from("resource");
        for (key, value) in self.pairs(name, &resource) {
            let value = Json::from(value);
            let origin = Origin::Variable(name);
            self.gathered.set(resource.name(key), value, origin);
        }
        let name = "OTEL_SERVICE_NAME";
        if let Some(value) = self.get(name) {
            let path = resource.name("service.name");
            let origin = Origin::Variable(name);
            self.gathered.set(path, value.trim().into(), origin);
        }
    }
}
