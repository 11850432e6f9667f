//! The report in a ConfigMap: under the key `report` of `data`, or, where that is over what a
//! ConfigMap may hold, gzipped under `report.gz` of `binaryData`. If it is over that too, it is
//! said and counted, and the last one stays.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::{is_due, render};
use crate::clock::SharedClock;
use crate::export::Outlet;
use crate::measure::SharedRecorder;
use crate::snapshot::Published;

/// Most bytes that all values of a ConfigMap may have together.
pub const DATA_LIMIT: usize = 1 << 20;
const KEY: &str = "report";
const GZIP_KEY: &str = "report.gz";
const FIELD_MANAGER: &str = "megamon";
/// A request may take as long as an interval, within these.
const SHORTEST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(30);

/// Writes the report to a ConfigMap by server-side apply, which makes it where it is missing.
pub struct ConfigMapReport {
    api: Api<ConfigMap>,
    namespace: String,
    name: String,
    published: Arc<Published>,
    interval: Duration,
    clock: SharedClock,
    outlet: Outlet,
}

impl std::fmt::Debug for ConfigMapReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConfigMapReport")
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Why a report was not written: one of a closed set of words, and the rest.
type Failure = (&'static str, String);

impl ConfigMapReport {
    /// A report of what is `published`, to the ConfigMap `(namespace, name)`.
    #[must_use]
    pub fn new(
        client: Client,
        (namespace, name): (String, String),
        published: Arc<Published>,
        interval: Duration,
        clock: SharedClock,
        recorder: SharedRecorder,
    ) -> Self {
        Self {
            api: Api::namespaced(client, &namespace),
            outlet: Outlet::new("configmap", format!("{namespace}/{name}"), recorder),
            namespace,
            name,
            published,
            interval: interval.max(Duration::from_millis(1)),
            clock,
        }
    }

    /// Reports at each interval until `shutdown`.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let report = async {
            loop {
                ticks.tick().await;
                match self.report().await {
                    Ok(()) => self.outlet.succeeded(),
                    Err((reason, error)) => self.outlet.failed(reason, &error),
                }
            }
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            () = report => {}
        }
    }

    async fn report(&self) -> Result<(), Failure> {
        let (published, clock) = (self.published.clone(), self.clock.clone());
        let content = tokio::task::spawn_blocking(move || {
            if !is_due(&published.snapshot()) {
                return Ok(None);
            }
            let report = render(&published.collect(clock.now()))
                .map_err(|error| ("render", error.to_string()))?;
            content(report, DATA_LIMIT).map(Some)
        })
        .await
        .map_err(|error| ("render", error.to_string()))??;
        let Some((data, binary_data)) = content else {
            return Ok(());
        };
        let config_map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                namespace: Some(self.namespace.clone()),
                ..ObjectMeta::default()
            },
            data,
            binary_data,
            immutable: None,
        };
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(&config_map);
        let applied = self.api.patch(&self.name, &params, &patch);
        match tokio::time::timeout(self.interval.clamp(SHORTEST, LONGEST), applied).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err((word(&error), error.to_string())),
            Err(_) => Err((
                "timeout",
                "the API server did not answer in time".to_owned(),
            )),
        }
    }
}

type Content = (
    Option<BTreeMap<String, String>>,
    Option<BTreeMap<String, ByteString>>,
);

/// Where a report goes: `data`, `binaryData`, or nowhere.
fn content(report: Vec<u8>, limit: usize) -> Result<Content, Failure> {
    if report.len() <= limit {
        let text = String::from_utf8(report).map_err(|error| ("render", error.to_string()))?;
        return Ok((Some(BTreeMap::from([(KEY.to_owned(), text)])), None));
    }
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    let zipped = gzip
        .write_all(&report)
        .and_then(|()| gzip.finish())
        .map_err(|error| ("render", error.to_string()))?;
    if zipped.len() > limit {
        return Err((
            "too_large",
            format!(
                "the report has {} bytes, {} gzipped; a ConfigMap holds {limit}. The last one stays; use the stdout exporter or OTLP for a fleet of this size",
                report.len(),
                zipped.len()
            ),
        ));
    }
    let binary = BTreeMap::from([(GZIP_KEY.to_owned(), ByteString(zipped))]);
    Ok((None, Some(binary)))
}

fn word(error: &kube::Error) -> &'static str {
    match error {
        kube::Error::Api(status) => match status.code {
            401 | 403 => "forbidden",
            404 => "not_found",
            409 => "conflict",
            413 | 422 => "invalid",
            429 | 500..=599 => "unavailable",
            _ => "refused",
        },
        _ => "unavailable",
    }
}

#[cfg(test)]
#[path = "config_map_tests.rs"]
mod tests;
