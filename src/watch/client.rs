//! Connects to the API server: by kubeconfig, by context, or as a pod of the cluster.

use std::path::PathBuf;
use std::time::Duration;

use http::header::{HeaderValue, USER_AGENT};
use kube::Client;
use kube::config::{Config, InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::request::chain;
use crate::config::Cluster;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Longer than a watch, which the server closes after 290 s at most: what stays silent for longer
/// than this is a connection that is dead.
const READ_TIMEOUT: Duration = Duration::from_secs(295);

/// Who this is, in the API server's audit log and metrics.
const AGENT: &str = concat!("megamon/", env!("CARGO_PKG_VERSION"));

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// A kubeconfig that was named, or found, cannot be used.
    #[error("cannot use {origin}{}: {}", in_context(.context.as_ref()), chain(.cause))]
    Kubeconfig {
        /// Where it was read from.
        origin: String,
        /// The context that was asked for.
        context: Option<String>,
        /// What is wrong.
        cause: KubeconfigError,
    },
    /// No way to a cluster was found.
    #[error(
        "no cluster is known: {tried} is not there, and this is no pod of a cluster ({}); \
         name a kubeconfig with --kubeconfig, or in KUBECONFIG",
        chain(.cause)
    )]
    NoCluster {
        /// The kubeconfig that was looked for.
        tried: String,
        /// Why it is no pod of a cluster.
        cause: InClusterError,
    },
    /// The configuration was read but no client can be made of it.
    #[error("cannot make a client for {server} from {origin}: {}", chain(.cause))]
    Client {
        /// URL of the API server.
        server: String,
        /// Where that was read.
        origin: String,
        /// What is wrong.
        cause: Box<kube::Error>,
    },
}

fn in_context(context: Option<&String>) -> String {
    context
        .map(|context| format!(", context {context:?}"))
        .unwrap_or_default()
}

/// A client for the cluster that is configured. No request is sent.
///
/// The kubeconfig that is named comes first, then the files that `KUBECONFIG` names, then the
/// default file, then the service account of the pod that this runs in; the last only where no
/// context is asked for.
///
/// # Errors
/// When a file cannot be used, or there is none and this is no pod.
pub async fn connect(cluster: &Cluster) -> Result<Client, ConnectError> {
    let (mut config, origin) = configuration(cluster).await?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    // Else the time that a pooled connection was idle counts.
    config.reset_reader_on_write = true;
    // A retry inside the client would hide 429 and 503 from metrics and from the watch's backoff.
    config.default_retry = false;
    config
        .headers
        .push((USER_AGENT, HeaderValue::from_static(AGENT)));
    let server = config.cluster_url.to_string();
    // A process has one TLS provider. It is an error only if there is one already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    match Client::try_from(config) {
        Ok(client) => {
            tracing::info!(server, origin, "using the cluster");
            Ok(client)
        }
        Err(cause) => Err(ConnectError::Client {
            server,
            origin,
            cause: Box::new(cause),
        }),
    }
}

async fn configuration(cluster: &Cluster) -> Result<(Config, String), ConnectError> {
    let (read, origin) = match &cluster.kubeconfig {
        Some(path) => (
            Kubeconfig::read_from(path),
            format!("the kubeconfig {}", path.display()),
        ),
        None => match std::env::var_os("KUBECONFIG").filter(|paths| !paths.is_empty()) {
            Some(paths) => (
                Kubeconfig::read(),
                format!("KUBECONFIG={}", PathBuf::from(paths).display()),
            ),
            None => (
                Kubeconfig::read(),
                "the default kubeconfig ~/.kube/config".to_owned(),
            ),
        },
    };
    let failed = |cause| ConnectError::Kubeconfig {
        origin: origin.clone(),
        context: cluster.context.clone(),
        cause,
    };
    match read {
        Ok(kubeconfig) => {
            let options = KubeConfigOptions {
                context: cluster.context.clone(),
                ..KubeConfigOptions::default()
            };
            let config = Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .map_err(failed)?;
            Ok((config, origin))
        }
        // A file that the configuration names is there; another may be missing.
        Err(error) if cluster.kubeconfig.is_none() && cluster.context.is_none() => {
            let missing = match &error {
                KubeconfigError::FindPath => true,
                KubeconfigError::ReadConfig(io, _) => io.kind() == std::io::ErrorKind::NotFound,
                _ => false,
            };
            if !missing {
                return Err(failed(error));
            }
            let config = Config::incluster().map_err(|cause| ConnectError::NoCluster {
                tried: origin,
                cause,
            })?;
            Ok((config, "the pod's service account".to_owned()))
        }
        Err(error) => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubeconfig(text: &str) -> (tempfile::TempDir, Cluster) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        std::fs::write(&path, text).unwrap();
        let cluster = Cluster {
            kubeconfig: Some(path),
            ..Cluster::default()
        };
        (folder, cluster)
    }

    const TWO: &str = "
apiVersion: v1
kind: Config
current-context: one
clusters:
- {name: a, cluster: {server: 'http://127.0.0.1:1'}}
- {name: b, cluster: {server: 'http://127.0.0.1:2'}}
contexts:
- {name: one, context: {cluster: a, user: u}}
- {name: two, context: {cluster: b, user: u}}
users:
- {name: u, user: {token: t}}
";

    #[tokio::test]
    async fn the_context_chooses_the_cluster() {
        let (_folder, mut cluster) = kubeconfig(TWO);
        for (context, server) in [
            (None, "http://127.0.0.1:1/"),
            (Some("two"), "http://127.0.0.1:2/"),
        ] {
            cluster.context = context.map(str::to_owned);
            let (config, _) = configuration(&cluster).await.unwrap();
            assert_eq!(config.cluster_url.to_string(), server);
            assert!(connect(&cluster).await.is_ok());
        }
    }

    #[tokio::test]
    async fn errors_say_what_was_tried() {
        let (folder, mut cluster) = kubeconfig(TWO);
        let path = cluster.kubeconfig.clone().unwrap();
        cluster.context = Some("three".to_owned());
        let error = connect(&cluster).await.err().unwrap().to_string();
        assert!(error.contains(&*path.to_string_lossy()), "{error}");
        assert!(error.contains("context \"three\""), "{error}");

        std::fs::write(&path, "clusters: 3").unwrap();
        let error = connect(&cluster).await.err().unwrap().to_string();
        assert!(error.contains(&*path.to_string_lossy()), "{error}");

        cluster.kubeconfig = Some(folder.path().join("nothing"));
        let error = connect(&cluster).await.err().unwrap().to_string();
        assert!(error.contains("nothing"), "{error}");
    }
}
