//! The catalogue: every instrument there is, fleet and own, in the order of the contract.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::{family, own};
use crate::model::Family;

/// The group of the instruments that are about the program itself.
pub const OWN: &str = "own";

/// The instrumentation scope of every instrument here.
pub const INSTRUMENTATION_SCOPE: &str = "megamon";

/// What an instrument measures with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A value that goes up and down.
    Gauge,
    /// A count that starts at 0 with the process.
    Counter,
    /// A distribution, which starts empty with the process.
    Histogram,
}

impl Kind {
    /// `gauge`, `counter` or `histogram`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Histogram => "histogram",
        }
    }
}

/// Whose series an instrument's are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The fleet's: the same after a restart or a change of leader.
    Fleet,
    /// This process's.
    Own,
}

/// One instrument.
#[derive(Clone, Debug)]
pub struct Instrument {
    /// Name below the prefix, such as `jobset.up.time`.
    pub name: Cow<'static, str>,
    /// Kind.
    pub kind: Kind,
    /// Unit in UCUM: `s`, an annotation such as `{event}`, or empty.
    pub unit: &'static str,
    /// What a value means.
    pub description: Cow<'static, str>,
    /// Keys of the attributes that a series may have, sorted.
    pub attributes: &'static [&'static str],
    /// Availability family that it belongs to, else [`OWN`].
    pub family: &'static str,
    /// Whose series these are.
    pub scope: Scope,
    /// Bucket boundaries of a histogram, in its unit.
    pub boundaries: &'static [f64],
}

impl Instrument {
    /// The instrument's OpenTelemetry name under a prefix.
    #[must_use]
    pub fn otel_name(&self, prefix: &str) -> String {
        format!("{prefix}.{}", self.name)
    }

    /// The name of its family in a Prometheus scrape under a prefix, such as
    /// `megamon_alpha_jobset_up_time_seconds`.
    #[must_use]
    pub fn prometheus_name(&self, prefix: &str) -> String {
        super::names::prometheus(
            &self.otel_name(prefix),
            self.unit,
            self.kind == Kind::Counter,
        )
    }
}

static CATALOGUE: LazyLock<Vec<Instrument>> = LazyLock::new(|| {
    let mut all = Vec::new();
    for of in Family::ALL {
        all.extend(family::READINGS.iter().map(|reading| reading.of(of)));
    }
    all.extend([
        family::CONDITION,
        family::SCHEDULED,
        family::PROVISIONING_DURATION,
    ]);
    all.extend(own::ALL.iter().map(|instrument| (*instrument).clone()));
    all
});

/// Every instrument, in the order of the contract.
#[must_use]
pub fn catalogue() -> &'static [Instrument] {
    &CATALOGUE
}
