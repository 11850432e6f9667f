//! Configuration as meant: validated, defaults filled in. Holds values, never clients.
//!
//! ```text
//! file, environment, flags -> document, layers   what was written, and where
//!                          -> shape              names and types, by the schema's table
//!                          -> validate           values, and the defaults of what is not set
//! ```

mod defaults;
mod document;
mod forms;
mod layers;
mod load;
pub mod migrate;
mod problem;
mod receivers;
pub mod reference;
mod schema;
mod shape;
#[cfg(test)]
mod tests;
mod validate;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use document::Position;
pub use layers::Flags;
pub use load::{DEFAULT_FILE, check, load, parse};
pub use problem::{Origin, Path, Problem, Problems};

/// Everything that can be set.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Metric prefix, such as `megamon.alpha`.
    pub prefix: String,
    /// Where `/metrics` is served.
    pub metrics_address: SocketAddr,
    /// Where `/livez`, `/healthz` and `/readyz` are served.
    pub probe_address: SocketAddr,
    /// OTLP push of metrics; `None`: off.
    pub otlp: Option<Otlp>,
    /// OTLP push of traces; `None`: off.
    pub traces: Option<Traces>,
    /// The cluster.
    pub cluster: Cluster,
    /// Further resource attributes, as set in the file or `OTEL_RESOURCE_ATTRIBUTES`.
    pub resource: BTreeMap<String, String>,
    /// The history.
    pub history: History,
    /// Where node pools are known from.
    pub node_pools: NodePools,
    /// What is watched.
    pub workloads: Workloads,
    /// The rule of up.
    pub availability: Availability,
    /// Series limits.
    pub limits: Limits,
    /// Report exporters.
    pub report: Report,
    /// Logs.
    pub log: Log,
}

/// An OTLP/gRPC receiver.
#[derive(Clone, PartialEq, Eq)]
pub struct Otlp {
    /// Endpoint with scheme, such as `http://collector:4317`.
    pub endpoint: String,
    /// Time between two pushes.
    pub interval: Duration,
    /// Longest time for one request.
    pub timeout: Duration,
    /// Headers sent with each request.
    pub headers: BTreeMap<String, String>,
    /// Whether requests are gzipped.
    pub gzip: bool,
    /// TLS for `https`.
    pub tls: Tls,
}

/// The values of the headers are left out: a token among them must not reach a log.
impl fmt::Debug for Otlp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            endpoint,
            interval,
            timeout,
            headers,
            gzip,
            tls,
        } = self;
        f.debug_struct("Otlp")
            .field("endpoint", endpoint)
            .field("interval", interval)
            .field("timeout", timeout)
            .field("headers", &headers.keys())
            .field("gzip", gzip)
            .field("tls", tls)
            .finish()
    }
}

/// TLS of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// CA certificates (PEM) instead of the system's.
    pub ca: Option<PathBuf>,
    /// Client certificate (PEM).
    pub certificate: Option<PathBuf>,
    /// Its key (PEM).
    pub key: Option<PathBuf>,
}

/// Traces.
#[derive(Clone, Debug, PartialEq)]
pub struct Traces {
    /// Where they are sent; interval is not used.
    pub otlp: Otlp,
    /// Share of traces that is kept, 0 to 1.
    pub sample_ratio: f64,
}

/// The cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Kubeconfig file; `None`: `KUBECONFIG`, the default file, or the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// Context in it.
    pub context: Option<String>,
    /// Name for the resource attribute `k8s.cluster.name`.
    pub name: Option<String>,
}

/// The history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// `file:///path` or `memory:`.
    pub url: String,
    /// A change waits this long for others that share its commit.
    pub commit_interval: Duration,
    /// How long a deleted object's history is kept.
    pub retention: Duration,
}

/// Where node pools are known from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePools {
    /// From node labels; `None`: not.
    pub labels: Option<LabelPools>,
    /// From the GKE API; `None`: not.
    pub gke: Option<Gke>,
}

/// Node pools from node labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelPools {
    /// Labels that name a node's pool; the first that a node has counts.
    pub labels: Vec<String>,
    /// Resources that make a node an accelerator node.
    pub resources: Vec<String>,
    /// Sizes by pool name.
    pub sizes: BTreeMap<String, i64>,
    /// How long a pool with a topology may be without nodes before its history closes.
    pub empty_after: Duration,
}

/// Node pools from the GKE API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gke {
    /// Project; `None`: from the metadata server.
    pub project: Option<String>,
    /// Location; `None`: from the metadata server.
    pub location: Option<String>,
    /// Cluster; `None`: from the metadata server.
    pub cluster: Option<String>,
    /// Endpoint instead of Google's.
    pub endpoint: Option<String>,
    /// Time between two polls.
    pub interval: Duration,
}

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workloads {
    /// JobSets (and their nodes and leader pods).
    pub jobsets: bool,
    /// Slices: slice mode.
    pub slices: bool,
    /// LeaderWorkerSets.
    pub leader_worker_sets: bool,
}

/// The rule of up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Availability {
    /// Share of the expected that may be unknown, 0 to 1.
    pub unknown_threshold: f64,
    /// How long a node counts as Unknown before it counts as not ready.
    pub unknown_deadline: Duration,
}

/// Series limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Objects of one family that are shown.
    pub objects_per_family: usize,
}

/// Report exporters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Time between two reports.
    pub interval: Duration,
    /// Whether it is written to standard output.
    pub stdout: bool,
    /// Namespace and name of the ConfigMap it is written to.
    pub config_map: Option<(String, String)>,
}

/// Logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Form.
    pub format: LogFormat,
    /// Filter, such as `info` or `info,megamon::watch=debug`.
    pub level: String,
}

/// Form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Human on a terminal, JSON elsewhere.
    Auto,
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}
