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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::{Level, Metadata, Subscriber, span};

    use super::*;
    use crate::measure::Recorder;

    /// Counts what is said to people.
    #[derive(Clone, Default)]
    struct Said(Arc<Mutex<Vec<Level>>>);

    impl Subscriber for Said {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() <= Level::INFO
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

        fn event(&self, event: &tracing::Event<'_>) {
            self.0.lock().unwrap().push(*event.metadata().level());
        }

        fn enter(&self, _: &span::Id) {}

        fn exit(&self, _: &span::Id) {}
    }

    #[derive(Default)]
    struct Counted(Mutex<Vec<(&'static str, u64)>>);

    impl Recorder for Counted {
        fn record(&self, measurement: Measurement<'_>) {
            self.0.lock().unwrap().push(match measurement {
                Measurement::ExportFailure { reason, .. } => (reason, 1),
                Measurement::ExportRejected { points, .. } => ("rejected", points),
                other => panic!("{other:?}"),
            });
        }
    }

    #[test]
    fn every_failure_is_counted_and_every_change_is_said_once() {
        let (said, counted) = (Said::default(), Arc::new(Counted::default()));
        let mut outlet = Outlet::new("otlp", "http://collector", counted.clone());
        tracing::subscriber::with_default(said.clone(), || {
            outlet.succeeded();
            for reason in [
                "timeout",
                "timeout",
                "unavailable",
                "timeout",
                "unavailable",
            ] {
                outlet.failed(reason, &"why");
            }
            outlet.succeeded();
            outlet.succeeded();
            outlet.failed("timeout", &"why");
            for points in [0, 3, 4, 0, 0] {
                outlet.refused(points, "old");
            }
        });
        let (warn, info) = (Level::WARN, Level::INFO);
        let expected = [warn, warn, info, warn, warn, info];
        assert_eq!(*said.0.lock().unwrap(), expected);
        let counted = counted.0.lock().unwrap();
        let timeouts = counted.iter().filter(|(word, _)| *word == "timeout");
        assert_eq!(timeouts.count(), 4);
        assert_eq!(
            counted
                .iter()
                .filter(|(word, _)| *word == "unavailable")
                .count(),
            2
        );
        assert_eq!(
            counted[counted.len() - 2..],
            [("rejected", 3), ("rejected", 4)]
        );
    }
}
