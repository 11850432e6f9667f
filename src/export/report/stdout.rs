//! The report on standard output: one line of JSON at each interval.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::{is_due, render};
use crate::clock::SharedClock;
use crate::export::Outlet;
use crate::measure::SharedRecorder;
use crate::snapshot::Published;

/// Writes the report to standard output, or to what a test gives it.
pub struct StdoutReport {
    published: Arc<Published>,
    interval: Duration,
    clock: SharedClock,
    outlet: Outlet,
    out: Arc<Mutex<dyn Write + Send>>,
}

impl std::fmt::Debug for StdoutReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StdoutReport")
            .field("interval", &self.interval)
            .finish_non_exhaustive()
    }
}

impl StdoutReport {
    /// A report of what is `published`, to standard output.
    #[must_use]
    pub fn new(
        published: Arc<Published>,
        interval: Duration,
        clock: SharedClock,
        recorder: SharedRecorder,
    ) -> Self {
        Self::to(
            Arc::new(Mutex::new(std::io::stdout())),
            published,
            interval,
            clock,
            recorder,
        )
    }

    pub(super) fn to(
        out: Arc<Mutex<dyn Write + Send>>,
        published: Arc<Published>,
        interval: Duration,
        clock: SharedClock,
        recorder: SharedRecorder,
    ) -> Self {
        Self {
            published,
            interval: interval.max(Duration::from_millis(1)),
            clock,
            outlet: Outlet::new("stdout", "standard output", recorder),
            out,
        }
    }

    /// Reports at each interval until `shutdown`. A reader that does not read stops the reports,
    /// and nothing else.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let report = async {
            loop {
                ticks.tick().await;
                self.report().await;
            }
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            () = report => {}
        }
    }

    async fn report(&mut self) {
        let (published, clock, out) =
            (self.published.clone(), self.clock.clone(), self.out.clone());
        let written = tokio::task::spawn_blocking(move || {
            if !is_due(&published.snapshot()) {
                return Ok(());
            }
            let mut line = render(&published.collect(clock.now()))
                .map_err(|error| ("render", error.to_string()))?;
            line.push(b'\n');
            let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
            out.write_all(&line)
                .and_then(|()| out.flush())
                .map_err(|error| ("write", error.to_string()))
        })
        .await;
        match written {
            Ok(Ok(())) => self.outlet.succeeded(),
            Ok(Err((reason, error))) => self.outlet.failed(reason, &error),
            Err(error) => self.outlet.failed("render", &error),
        }
    }
}
