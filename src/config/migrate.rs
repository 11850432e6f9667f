//! Turns the `config.json` of the Go program that this one replaces into the settings of this one.
//! What it leaves out takes that program's defaults, not this one's, so that what was published goes
//! on being published. What cannot be carried over is said.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::document::{Node, Position, Value};
use super::forms;
use super::problem::{Origin, Path, Problem, Problems};
use super::schema::{Settings, settings};

/// A migrated configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The settings in YAML.
    pub yaml: String,
    /// What could not be carried over, and what to do about it: a line each.
    pub notes: Vec<String>,
}

/// Migrates a file.
///
/// # Errors
///
/// As [`migrate`]; also when the file cannot be read.
pub fn file(file: &std::path::Path) -> Result<Migrated, Problems> {
    let unreadable = |error| Problems(vec![super::load::unreadable(file, &error)]);
    let text = super::load::read(file).map_err(unreadable)?;
    migrate(&file.display().to_string(), &text)
}

/// Migrates a text; `name` is what its file is called in a problem.
///
/// # Errors
///
/// Everything with which that program would not have started.
pub fn migrate(name: &str, text: &str) -> Result<Migrated, Problems> {
    let node = Node::parse(name, text).map_err(|problem| Problems(vec![*problem]))?;
    let mut old = Old::new(name);
    match &node.value {
        Value::Null => {}
        Value::Map(_) => old.take("", &node),
        value => old.problem("", node.at, format!("{value} is here"), "an object"),
    }
    let settings = old.settings();
    let Old {
        problems,
        mut notes,
        bucket,
        ..
    } = old;
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    let mut yaml = format!("# From {name}, by `megamon config migrate`.\n");
    if let Some(url) = bucket {
        let comment = [
            "# The history was kept here, which this version does not support yet:",
            "# history:",
            &format!("#   url: {url:?}"),
            "",
        ];
        yaml += &comment.join("\n");
        let default = super::History::default().url;
        notes.push(format!(
            "EventsBucketName, EventsBucketPath: {url} is not supported by this version and is left as a comment; the history is kept at {default}"
        ));
    }
    match serde_saphyr::to_string(&settings) {
        Ok(body) => yaml += &body,
        Err(error) => notes.push(format!("the settings cannot be written: {error}")),
    }
    // What is written must be taken: should this version not take a value, its place is said.
    super::load::parse("migrated", &yaml)?;
    Ok(Migrated { yaml, notes })
}

/// The keys of that program, those of groups with a dot.
const KEYS: [&str; 23] = [
    "MetricsPrefix",
    "AggregationIntervalSeconds",
    "Exporters",
    "ReportConfigMapRef.Namespace",
    "ReportConfigMapRef.Name",
    "EventsBucketName",
    "EventsBucketPath",
    "DisableNodePoolJobLabelling",
    "MetricsAddr",
    "EnableLeaderElection",
    "ProbeAddr",
    "SecureMetrics",
    "EnableSimulation",
    "GKE.ProjectID",
    "GKE.ClusterLocation",
    "GKE.ClusterName",
    "UnknownCountThreshold",
    "SliceEnabled",
    "LeaderWorkerSetSupport",
    "SliceOwnerMapConfigMapRef.Namespace",
    "SliceOwnerMapConfigMapRef.Name",
    "OptionalControllerSuffix",
    "EnableHTTP2",
];

const GROUPS: [&str; 3] = ["ReportConfigMapRef", "GKE", "SliceOwnerMapConfigMapRef"];

/// What was read of an old file, and what was found on the way.
struct Old<'a> {
    file: &'a str,
    values: BTreeMap<&'static str, Node>,
    problems: Vec<Problem>,
    notes: Vec<String>,
    bucket: Option<String>,
}

impl<'a> Old<'a> {
    fn new(file: &'a str) -> Self {
        Self {
            file,
            values: BTreeMap::new(),
            problems: Vec::new(),
            notes: Vec::new(),
            bucket: None,
        }
    }

    fn problem(&mut self, key: &str, at: Position, what: String, expected: &str) {
        self.problems.push(Problem {
            origin: Origin::File {
                name: self.file.to_owned(),
                position: Some(at),
            },
            path: if key.is_empty() {
                Path::default()
            } else {
                key.into()
            },
            what,
            expected: expected.to_owned(),
        });
    }

    /// Takes the keys of an object. That program's reader has no case, takes the last of several,
    /// and passes over null and what it does not know.
    fn take(&mut self, above: &str, node: &Node) {
        let Value::Map(entries) = &node.value else {
            return;
        };
        for entry in entries {
            let key = format!("{above}{}", entry.key);
            let known = |known: &&&str| known.eq_ignore_ascii_case(&key);
            if matches!(entry.node.value, Value::Null) {
                continue;
            }
            if let Some(known) = KEYS.iter().find(known) {
                self.values.insert(known, entry.node.clone());
            } else if let Some(group) = GROUPS.iter().find(known) {
                if matches!(entry.node.value, Value::Map(_)) {
                    self.take(&format!("{group}."), &entry.node);
                } else {
                    let what = format!("{} is here", entry.node.value);
                    self.problem(group, entry.node.at, what, "an object");
                }
            } else {
                self.notes
                    .push(format!("{key}: is no known key and is left out"));
            }
        }
    }

    fn text(&mut self, key: &'static str) -> Option<String> {
        let node = self.values.get(key)?.clone();
        match node.value {
            Value::Text(text) => Some(text).filter(|text| !text.is_empty()),
            value => {
                self.problem(key, node.at, format!("{value} is here"), "text");
                None
            }
        }
    }

    fn switch(&mut self, key: &'static str) -> Option<bool> {
        let node = self.values.get(key)?.clone();
        match node.value {
            Value::Switch(switch) => Some(switch),
            value => {
                self.problem(key, node.at, format!("{value} is here"), "true or false");
                None
            }
        }
    }

    fn note(&mut self, key: &str, what: &str) {
        self.notes.push(format!("{key}: {what}"));
    }

    /// Says what a switch cannot do here, where it is on.
    fn not_carried(&mut self, key: &'static str, what: &str) {
        if self.switch(key) == Some(true) {
            self.note(key, what);
        }
    }

    fn address(&mut self, key: &'static str, port: u16) -> String {
        let default = format!("0.0.0.0:{port}");
        let Some(text) = self.text(key) else {
            return default;
        };
        let local = text.strip_prefix("localhost:");
        let text = local.map_or_else(|| text.clone(), |port| format!("127.0.0.1:{port}"));
        match forms::address(&text).as_ref().map(SocketAddr::to_string) {
            Ok(address) => address,
            Err((what, expected)) => {
                let what = format!("{what} here, expected {expected}; {default} is used");
                self.note(key, &what);
                default
            }
        }
    }

    fn interval(&mut self) -> String {
        const KEY: &str = "AggregationIntervalSeconds";
        const DEFAULT: &str = "10s";
        let Some(Node { at, value }) = self.values.get(KEY).cloned() else {
            return DEFAULT.to_owned();
        };
        match value {
            Value::Whole(seconds @ 1..=86_400) => format!("{seconds}s"),
            value => {
                let expected = "a whole number of seconds, 1 to 86400";
                self.problem(KEY, at, format!("{value} is here"), expected);
                DEFAULT.to_owned()
            }
        }
    }

    fn threshold(&mut self) -> f64 {
        const KEY: &str = "UnknownCountThreshold";
        let Some(Node { at, value }) = self.values.get(KEY).cloned() else {
            return 1.0;
        };
        match value {
            Value::Number(share) if (0.0..=1.0).contains(&share) => share,
            Value::Whole(0) => 0.0,
            Value::Whole(1) => 1.0,
            value => {
                self.problem(KEY, at, format!("{value} is here"), "a number from 0 to 1");
                1.0
            }
        }
    }

    /// Whether the report goes to standard output, and whether to a ConfigMap.
    fn exporters(&mut self) -> (bool, bool) {
        const KEY: &str = "Exporters";
        let (mut stdout, mut config_map) = (false, false);
        let Some(Node { at, value }) = self.values.get(KEY).cloned() else {
            return (false, false);
        };
        let Value::List(items) = value else {
            self.problem(KEY, at, format!("{value} is here"), "a list of text");
            return (false, false);
        };
        for Node { at, value } in items {
            match value {
                Value::Text(name) if name == "stdout" => stdout = true,
                Value::Text(name) if name == "configmap" => config_map = true,
                value => {
                    let what = format!("{value} is no exporter");
                    self.problem(KEY, at, what, "stdout or configmap");
                }
            }
        }
        (stdout, config_map)
    }

    fn history(&mut self, cluster: Option<&str>) {
        let path = self.text("EventsBucketPath");
        let Some(bucket) = self.text("EventsBucketName") else {
            let default = super::History::default().url;
            let what =
                format!("is not set, so there is no former history; it is kept at {default}");
            self.note("EventsBucketName", &what);
            return;
        };
        let path =
            path.unwrap_or_else(|| format!("megamon/clusters/{}", cluster.unwrap_or("<cluster>")));
        self.bucket = Some(format!("gs://{bucket}/{}", path.trim_matches('/')));
    }

    fn unsupported(&mut self) {
        if self.switch("DisableNodePoolJobLabelling") == Some(false) {
            let what = "labelling Jobs with their node pool is not supported by this version";
            self.note("DisableNodePoolJobLabelling", what);
        }
        self.not_carried(
            "EnableLeaderElection",
            "leader election is not supported by this version: run one replica",
        );
        self.not_carried(
            "SecureMetrics",
            "protected no metrics there, and does not here: /metrics is served as plain HTTP",
        );
        self.not_carried(
            "EnableSimulation",
            "is left out: there is no simulation here",
        );
        self.not_carried(
            "EnableHTTP2",
            "is left out: metrics are served over HTTP/1.1",
        );
        for key in [
            "SliceOwnerMapConfigMapRef.Namespace",
            "SliceOwnerMapConfigMapRef.Name",
        ] {
            if self.text(key).is_some() {
                let what = "is left out: the owners of slices are kept with the history";
                self.note(key, what);
            }
        }
        if self.text("OptionalControllerSuffix").is_some() {
            let what = "is left out: nothing here has controllers that need a name";
            self.note("OptionalControllerSuffix", what);
        }
    }

    fn settings(&mut self) -> Settings {
        let prefix = self.text("MetricsPrefix");
        let interval = self.interval();
        let (stdout, to_config_map) = self.exporters();
        let namespace = self.text("ReportConfigMapRef.Namespace");
        let name = self.text("ReportConfigMapRef.Name");
        let cluster = self.text("GKE.ClusterName");
        self.history(cluster.as_deref());
        self.unsupported();
        Settings {
            prefix: Some(prefix.unwrap_or_else(|| "megamon".to_owned())),
            metrics_address: Some(self.address("MetricsAddr", 8080)),
            probe_address: Some(self.address("ProbeAddr", 8081)),
            cluster: cluster.clone().map(|name| settings::Cluster {
                name: Some(name),
                ..settings::Cluster::default()
            }),
            node_pools: Some(settings::NodePools {
                labels: Some(settings::LabelPools {
                    enabled: Some(false),
                    ..settings::LabelPools::default()
                }),
                gke: Some(settings::GkePools {
                    enabled: Some(true),
                    project: self.text("GKE.ProjectID"),
                    location: self.text("GKE.ClusterLocation"),
                    cluster,
                    interval: Some(interval.clone()),
                    endpoint: None,
                }),
            }),
            workloads: Some(settings::Workloads {
                jobsets: Some(true),
                slices: Some(self.switch("SliceEnabled").unwrap_or(false)),
                leader_worker_sets: Some(self.switch("LeaderWorkerSetSupport").unwrap_or(false)),
            }),
            availability: Some(settings::Availability {
                unknown_threshold: Some(self.threshold()),
                unknown_deadline: None,
            }),
            report: Some(settings::Report {
                interval: Some(interval),
                stdout: Some(stdout),
                config_map: to_config_map.then(|| settings::ConfigMap {
                    namespace: Some(namespace.unwrap_or_else(|| "megamon-system".to_owned())),
                    name: Some(name.unwrap_or_else(|| "megamon-report".to_owned())),
                }),
            }),
            ..Settings::default()
        }
    }
}
