//! How an outlet is doing: each failure is counted, and the log has one line when it begins to
//! fail, one for each further reason, and one when it works again, however long it lasts.

use std::collections::BTreeSet;
use std::fmt;

use crate::measure::{Measurement, SharedRecorder};

/// The state of one outlet (`prometheus`, `otlp`, `stdout`, `configmap`).
pub struct Outlet {
    name: &'static str,
    destination: String,
    recorder: SharedRecorder,
    failures: u64,
    said: BTreeSet<&'static str>,
    refusing: bool,
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet")
            .field("name", &self.name)
            .field("destination", &self.destination)
            .field("failures", &self.failures)
            .finish_non_exhaustive()
    }
}

impl Outlet {
    /// An outlet that works until it is told otherwise. `destination` is where it writes to, as the log
    /// names it: an endpoint, a ConfigMap.
    #[must_use]
    pub fn new(
        name: &'static str,
        destination: impl Into<String>,
        recorder: SharedRecorder,
    ) -> Self {
        Self {
            name,
            destination: destination.into(),
            recorder,
            failures: 0,
            said: BTreeSet::new(),
            refusing: false,
        }
    }

    /// It failed. `reason` is one of a closed set of words, `error` says the rest.
    pub fn failed(&mut self, reason: &'static str, error: &dyn fmt::Display) {
        self.failures = self.failures.saturating_add(1);
        self.recorder.record(Measurement::ExportFailure {
            outlet: self.name,
            reason,
        });
        if self.said.insert(reason) {
            tracing::warn!(
                outlet = self.name,
                destination = %self.destination,
                reason,
                error = %error,
                "export fails; it is tried again at each interval"
            );
        } else {
            tracing::debug!(
                outlet = self.name,
                destination = %self.destination,
                reason,
                error = %error,
                "export still fails"
            );
        }
    }

    /// It succeeded.
    pub fn succeeded(&mut self) {
        if self.failures > 0 {
            tracing::info!(
                outlet = self.name,
                destination = %self.destination,
                failures = self.failures,
                "export works again"
            );
        }
        self.failures = 0;
        self.said.clear();
    }

    /// Whether the last attempt failed.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// The receiver took the request but refused `points` points of it (0: it took all).
    pub fn refused(&mut self, points: u64, message: &str) {
        if points > 0 {
            self.recorder.record(Measurement::ExportRejected {
                outlet: self.name,
                points,
            });
        }
        let refusing = points > 0;
        if refusing && !self.refusing {
            tracing::warn!(
                outlet = self.name,
                destination = %self.destination,
                points,
                message,
                "the receiver refuses points"
            );
        } else if !refusing && self.refusing {
            tracing::info!(
                outlet = self.name,
                destination = %self.destination,
                "the receiver takes all points again"
            );
        } else if !message.is_empty() {
            tracing::debug!(outlet = self.name, message, "the receiver says");
        }
        self.refusing = refusing;
    }
}
