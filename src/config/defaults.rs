//! What holds where nothing is set. The schema's comments say the same, and a test compares them.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::{
    Availability, Cluster, Config, Gke, History, LabelPools, Limits, Log, LogFormat, NodePools,
    Otlp, Report, Tls, Workloads,
};

impl Default for Config {
    fn default() -> Self {
        Self {
            prefix: "megamon.alpha".to_owned(),
            metrics_address: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 8080)),
            probe_address: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 8081)),
            otlp: None,
            traces: None,
            cluster: Cluster::default(),
            resource: BTreeMap::new(),
            history: History::default(),
            node_pools: NodePools::default(),
            workloads: Workloads::default(),
            availability: Availability::default(),
            limits: Limits::default(),
            report: Report::default(),
            log: Log::default(),
        }
    }
}

impl Otlp {
    /// A receiver of which nothing but the endpoint is set.
    #[must_use]
    pub fn at(endpoint: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            interval: Duration::from_secs(30),
            timeout: Duration::from_secs(10),
            headers: BTreeMap::new(),
            gzip: false,
            tls: Tls::default(),
        }
    }
}

impl Default for History {
    fn default() -> Self {
        Self {
            url: "file:///var/lib/megamon/history".to_owned(),
            commit_interval: Duration::from_secs(1),
            retention: Duration::from_hours(30 * 24),
        }
    }
}

/// From labels alone.
impl Default for NodePools {
    fn default() -> Self {
        Self {
            labels: Some(LabelPools::default()),
            gke: None,
        }
    }
}

impl Default for LabelPools {
    fn default() -> Self {
        let owned = |names: [&str; 4]| names.map(str::to_owned).to_vec();
        Self {
            labels: owned([
                "cloud.google.com/gke-nodepool",
                "eks.amazonaws.com/nodegroup",
                "kubernetes.azure.com/agentpool",
                "karpenter.sh/nodepool",
            ]),
            resources: owned([
                "google.com/tpu",
                "nvidia.com/gpu",
                "amd.com/gpu",
                "aws.amazon.com/neuron",
            ]),
            sizes: BTreeMap::new(),
            empty_after: Duration::from_hours(1),
        }
    }
}

/// Everything from the metadata server.
impl Default for Gke {
    fn default() -> Self {
        Self {
            project: None,
            location: None,
            cluster: None,
            endpoint: None,
            interval: Duration::from_secs(30),
        }
    }
}

impl Default for Workloads {
    fn default() -> Self {
        Self {
            jobsets: true,
            slices: false,
            leader_worker_sets: false,
        }
    }
}

impl Default for Availability {
    fn default() -> Self {
        Self {
            unknown_threshold: 1.0,
            unknown_deadline: Duration::from_mins(3),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            objects_per_family: 10_000,
        }
    }
}

/// To nowhere.
impl Default for Report {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(30),
            stdout: false,
            config_map: None,
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self {
            format: LogFormat::Auto,
            level: "info".to_owned(),
        }
    }
}
