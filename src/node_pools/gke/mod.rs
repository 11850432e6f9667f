//! Node pools of the GKE API: one `ListNodePools` for each poll, and a `ListOperations` only when
//! a pool's making is not known yet.

mod creation;
mod decode;
mod metadata;

use std::time::Duration;

use google_cloud_auth::credentials::anonymous;
use google_cloud_container_v1::client::ClusterManager;
use google_cloud_container_v1::model::{ListNodePoolsResponse, ListOperationsResponse};
use google_cloud_gax::exponential_backoff::ExponentialBackoffBuilder;
use google_cloud_gax::retry_policy::{Aip194Strict, RetryPolicyExt};
use tokio::time::{Instant, timeout};

pub use decode::{decode, decode_json};

use self::creation::Creations;
use super::{ListError, Listing, NodePools};
use crate::config;
use crate::measure::{Measurement, SharedRecorder};
use crate::watch::chain;

/// Tries of one call.
const TRIES: u32 = 3;

/// Longest time for one call, with its tries and with getting a token.
const CALL: Duration = Duration::from_secs(25);

/// So many polls in a row fail when the operations cannot be listed; then pools are passed on
/// without the operations that made them.
const PATIENCE: u32 = 3;

/// The node pools of one GKE cluster.
pub struct GkePools {
    config: config::Gke,
    /// Where the metadata server is.
    metadata: String,
    /// Longest time for one call.
    patience: Duration,
    recorder: SharedRecorder,
    cluster: Option<Cluster>,
    creations: Creations,
    /// Polls in a row in which the operations could not be listed.
    without_operations: u32,
}

/// A cluster and a client for it.
struct Cluster {
    client: ClusterManager,
    project: String,
    location: String,
    name: String,
}

impl GkePools {
    /// The pools of the cluster that `config` names. What it leaves out is asked of the metadata
    /// server at the first poll, and again until it is known.
    #[must_use]
    pub fn new(config: config::Gke, recorder: SharedRecorder) -> Self {
        Self::with(config, recorder, metadata::address(), CALL)
    }

    pub(super) fn with(
        config: config::Gke,
        recorder: SharedRecorder,
        metadata: String,
        patience: Duration,
    ) -> Self {
        Self {
            config,
            metadata,
            patience,
            recorder,
            cluster: None,
            creations: Creations::default(),
            without_operations: 0,
        }
    }

    /// The cluster, found on the first call that succeeds.
    async fn cluster(&mut self) -> Result<&Cluster, ListError> {
        let cluster = match self.cluster.take() {
            Some(cluster) => cluster,
            None => self.find().await?,
        };
        Ok(self.cluster.insert(cluster))
    }

    async fn find(&self) -> Result<Cluster, ListError> {
        let config::Gke {
            project,
            location,
            cluster,
            endpoint,
            interval: _,
        } = &self.config;
        let project = self.named("project", project.as_deref(), metadata::PROJECT);
        let project = project.await?;
        let location = self.named("location", location.as_deref(), metadata::LOCATION);
        let location = location.await?;
        let name = self.named("cluster", cluster.as_deref(), metadata::CLUSTER);
        let name = name.await?;
        let client = client(endpoint.as_deref(), self.patience).await?;
        tracing::info!(
            project,
            location,
            cluster = name,
            "node pools of the GKE API"
        );
        Ok(Cluster {
            client,
            project,
            location,
            name,
        })
    }

    /// A part of the cluster's name: as set, else as the metadata server has it.
    async fn named(
        &self,
        setting: &'static str,
        set: Option<&str>,
        path: &str,
    ) -> Result<String, ListError> {
        match set.filter(|set| !set.is_empty()) {
            Some(set) => Ok(set.to_owned()),
            None => metadata::get(&self.metadata, path)
                .await
                .map_err(|reason| ListError::Unnamed { setting, reason }),
        }
    }
}

/// A client. Over plain HTTP, which only a stand-in speaks, no credentials are sent.
async fn client(endpoint: Option<&str>, patience: Duration) -> Result<ClusterManager, ListError> {
    // A process has one TLS provider. It is an error only if there is one already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let backoff = ExponentialBackoffBuilder::new()
        .with_initial_delay(Duration::from_millis(250))
        .with_maximum_delay(Duration::from_secs(2))
        .clamp();
    let mut builder = ClusterManager::builder()
        .with_retry_policy(
            Aip194Strict
                .with_attempt_limit(TRIES)
                .with_time_limit(patience),
        )
        .with_backoff_policy(backoff)
        .with_attempt_timeout(patience / TRIES);
    if let Some(endpoint) = endpoint.filter(|endpoint| !endpoint.is_empty()) {
        builder = builder.with_endpoint(endpoint);
        if endpoint.starts_with("http://") {
            builder = builder.with_credentials(anonymous::Builder::new().build());
        }
    }
    let built = builder.build().await;
    built.map_err(|error| ListError::Client(chain(&error)))
}

/// Waits for one call, and measures it where a recorder is given: `gke.latency` is of the calls that
/// list node pools alone.
async fn call<T>(
    method: &'static str,
    patience: Duration,
    recorder: Option<&SharedRecorder>,
    answer: impl Future<Output = google_cloud_gax::Result<T>>,
) -> Result<T, ListError> {
    let started = Instant::now();
    let answer = match timeout(patience, answer).await {
        Ok(answer) => answer.map_err(|error| ListError::Call {
            method,
            reason: chain(&error),
        }),
        Err(_) => Err(ListError::Timeout {
            method,
            after: patience,
        }),
    };
    if let Some(recorder) = recorder {
        recorder.record(Measurement::Gke {
            method,
            error: answer.is_err(),
            took: started.elapsed(),
        });
    }
    answer
}

impl NodePools for GkePools {
    async fn list(&mut self) -> Result<Listing, ListError> {
        let patience = self.patience;
        let recorder = self.recorder.clone();
        let cluster = self.cluster().await?;
        let Cluster {
            client,
            project,
            location,
            name,
        } = cluster;
        let parent = format!("projects/{project}/locations/{location}");
        let request = client
            .list_node_pools()
            .set_parent(format!("{parent}/clusters/{name}"));
        let answer: ListNodePoolsResponse =
            call("ListNodePools", patience, Some(&recorder), request.send()).await?;
        let mut pools: Vec<_> = answer.node_pools.iter().filter_map(decode).collect();
        let unnamed = answer.node_pools.len().saturating_sub(pools.len());
        if unnamed > 0 {
            tracing::debug!(unnamed, "node pools without a name are left out");
        }
        let request = client.list_operations().set_parent(parent);
        let name = name.clone();
        self.creations.keep(&pools);
        if self.creations.wanting(&pools) {
            let answer: Result<ListOperationsResponse, _> =
                call("ListOperations", patience, None, request.send()).await;
            match answer {
                Ok(answer) => {
                    if self.without_operations > PATIENCE {
                        tracing::info!("operations can be listed again");
                    }
                    self.without_operations = 0;
                    self.creations.learn(&name, &pools, &answer.operations);
                }
                // A pool's first event is dated by the operation that made it, once and for all:
                // better late than without.
                Err(error) => {
                    self.without_operations = self.without_operations.saturating_add(1);
                    if self.without_operations <= PATIENCE {
                        return Err(error);
                    }
                    if self.without_operations == PATIENCE.saturating_add(1) {
                        tracing::warn!(
                            %error,
                            "operations cannot be listed; the start of a new node pool is taken \
                             from its nodes"
                        );
                    }
                }
            }
        }
        for pool in &mut pools {
            pool.operation = self.creations.of(&pool.name);
        }
        Ok(Listing {
            pools,
            undecodable: Vec::new(),
        })
    }
}
