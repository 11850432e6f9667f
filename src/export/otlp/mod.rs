//! The OTLP/gRPC outlet: at each interval the instruments are collected, split into requests that a
//! collector takes (below 4 MiB), and sent. It runs in a task of its own and nothing waits for it:
//! a collector that is down, slow, hangs or refuses costs points, which is said and counted.

mod channel;
mod identity;
mod send;
mod split;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

pub use channel::{ChannelError, EndpointError, HeaderError};
pub(super) use channel::{connect, metadata};
pub use identity::{Identity, deployment_id};

use super::Outlet;
use super::reader::Collector;
use crate::config;
use crate::measure::SharedRecorder;
use send::{Part, Sender};

/// Most bytes of one request, uncompressed: a collector's default is to refuse 4 MiB (4,194,304).
pub const REQUEST_LIMIT: usize = 3_500_000;

/// Collects what is published now, or says why it cannot. It may take long: it is called where
/// blocking is allowed.
pub type Collect = Arc<dyn Fn() -> Result<ExportMetricsServiceRequest, String> + Send + Sync>;

/// Collects from the reader that both outlets share.
#[must_use]
pub fn collect_from(collector: Arc<Collector>) -> Collect {
    Arc::new(move || {
        let collected = collector.collect(|metrics, _| ExportMetricsServiceRequest::from(metrics));
        collected.map_err(|error| error.to_string())
    })
}

/// A setting of the outlet that cannot work.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// The endpoint.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// A header.
    #[error(transparent)]
    Header(#[from] HeaderError),
}

/// The push of metrics to one collector.
pub struct Push {
    interval: Duration,
    timeout: Duration,
    identity: Arc<Identity>,
    collect: Collect,
    is_fleet: fn(&str) -> bool,
    sender: Sender,
    outlet: Outlet,
}

impl std::fmt::Debug for Push {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Push")
            .field("interval", &self.interval)
            .field("outlet", &self.outlet)
            .finish_non_exhaustive()
    }
}

impl Push {
    /// Prepares the push; connects to nothing yet. `is_fleet` tells by an instrument's name whether
    /// its series are the fleet's, which are sent under the deployment's identity, or the program's
    /// own.
    pub fn new(
        config: config::Otlp,
        identity: Identity,
        collect: Collect,
        is_fleet: fn(&str) -> bool,
        recorder: SharedRecorder,
    ) -> Result<Self, PushError> {
        let outlet = Outlet::new("otlp", config.endpoint.clone(), recorder);
        Ok(Self {
            interval: config.interval.max(Duration::from_millis(1)),
            timeout: config.timeout,
            identity: Arc::new(identity),
            collect,
            is_fleet,
            sender: Sender::new(config)?,
            outlet,
        })
    }

    /// Pushes at each interval until `shutdown`, then once more, for no longer than the timeout.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let mut ticks = tokio::time::interval(self.interval);
        // A late tick moves those after it, so that each push has a whole interval.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                _ = ticks.tick() => {}
            }
            let due = Instant::now() + self.interval;
            // A push that is under way at shutdown is dropped: the last one holds all it does.
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                () = self.push(due) => {}
            }
        }
        let due = Instant::now() + self.timeout;
        if tokio::time::timeout_at(due, self.push(due)).await.is_err() {
            self.outlet
                .failed("timeout", &"the last push at shutdown was cut off");
        }
    }

    /// One push, of which nothing is tried at or after `due`.
    async fn push(&mut self, due: Instant) {
        let (collect, identity, is_fleet) =
            (self.collect.clone(), self.identity.clone(), self.is_fleet);
        let parts =
            tokio::task::spawn_blocking(move || encode(&*collect, &identity, is_fleet)).await;
        let parts = match parts {
            Ok(Ok(parts)) => parts,
            Ok(Err(error)) => return self.outlet.failed("collect", &error),
            Err(error) => return self.outlet.failed("collect", &error),
        };
        let mut first_failure = None;
        let (mut rejected, mut message) = (0_u64, String::new());
        for part in parts {
            match self.sender.send(&part, due).await {
                Ok(answer) => {
                    rejected = rejected.saturating_add(answer.rejected);
                    if message.is_empty() {
                        message = answer.message;
                    }
                }
                Err(failure) => {
                    let stop = failure.concerns_all();
                    first_failure.get_or_insert(failure);
                    if stop {
                        break;
                    }
                }
            }
        }
        match first_failure {
            Some(failure) => self.outlet.failed(failure.reason, &failure),
            None => self.outlet.succeeded(),
        }
        self.outlet.refused(rejected, &message);
    }
}

/// Collects and encodes: what is left is a fifth of the size of the points as values.
fn encode(
    collect: &(dyn Fn() -> Result<ExportMetricsServiceRequest, String> + Send + Sync),
    identity: &Identity,
    is_fleet: fn(&str) -> bool,
) -> Result<Vec<Part>, String> {
    let request = collect()?;
    let mut parts = Vec::new();
    split::split(request, identity, is_fleet, REQUEST_LIMIT, |request| {
        parts.push(Part::of(&request));
    });
    Ok(parts)
}
