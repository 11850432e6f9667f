//! What should be published: the ledger of what a test did to each object and when, and the
//! series that follow from it by the metric contract.
//!
//! Written from the contract and with nothing of the program's, so that the two can disagree. A
//! time that a test knows exactly (the API says it in whole seconds) is a point; one that it only
//! knows to lie between two instants is a [`Span`], and so is everything computed from it.

use std::collections::{BTreeMap, BTreeSet};

use crate::samples::{Observed, Series};

/// An instant in seconds since the epoch, or a length in seconds, between two bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    low: f64,
    high: f64,
}

/// What rounding in text and between nanoseconds and doubles may come to.
pub(crate) const ROUNDING: f64 = 1e-3;

impl Span {
    /// Known exactly.
    pub(crate) fn exact(at: f64) -> Self {
        Self { low: at, high: at }
    }

    /// Known to lie between two values.
    pub(crate) fn between(low: f64, high: f64) -> Self {
        Self { low, high }
    }

    /// Within the time that a watch may take to tell of it, here or there.
    pub(crate) fn seen(at: f64) -> Self {
        const WATCH: f64 = 2.0;
        Self {
            low: at - WATCH,
            high: at + WATCH,
        }
    }

    /// The later of two instants.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            low: self.low.max(other.low),
            high: self.high.max(other.high),
        }
    }

    /// The earlier of two instants.
    pub(crate) fn min(self, other: Self) -> Self {
        Self {
            low: self.low.min(other.low),
            high: self.high.min(other.high),
        }
    }

    /// One of two instants, or between them.
    pub(crate) fn either(one: Self, other: Self) -> Self {
        Self {
            low: one.low.min(other.low),
            high: one.high.max(other.high),
        }
    }

    /// Seconds later.
    pub(crate) fn plus(self, seconds: f64) -> Self {
        Self {
            low: self.low + seconds,
            high: self.high + seconds,
        }
    }

    /// From an earlier instant to this one; never negative.
    fn since(self, earlier: Self) -> Self {
        Self {
            low: (self.low - earlier.high).max(0.0),
            high: (self.high - earlier.low).max(0.0),
        }
    }

    fn add(self, other: Self) -> Self {
        Self {
            low: self.low + other.low,
            high: self.high + other.high,
        }
    }

    fn over(self, count: f64) -> Self {
        Self {
            low: self.low / count,
            high: self.high / count,
        }
    }

    fn holds(self, value: f64) -> bool {
        self.low - ROUNDING <= value && value <= self.high + ROUNDING
    }
}

/// A change of an object's `up`.
#[derive(Clone, Copy, Debug)]
struct Event {
    up: bool,
    expected: bool,
    at: Span,
}

/// Where a node pool's provisioning stands by the test's own account.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Failed {
    /// Not at all.
    No,
    /// At that instant.
    At(Span),
}

/// One object of a family as it should be shown.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    family: &'static str,
    labels: BTreeMap<String, String>,
    events: Vec<Event>,
    /// Nodes or Jobs that there should be.
    pub(crate) expected: i64,
    /// How many are ready.
    pub(crate) ready: i64,
    /// How many are in a state nobody knows.
    pub(crate) unknown: i64,
    /// Chips it asks for; 0 shows no series.
    pub(crate) chips: i64,
    /// A down is or would be expected.
    pub(crate) expected_down: bool,
    /// The conditions that are True.
    pub(crate) conditions: BTreeSet<&'static str>,
    /// Nothing is known of its past.
    pub(crate) found: bool,
    /// A node pool's provisioning failed.
    pub(crate) failed: Failed,
    /// Only its provisioning is shown any more.
    pub(crate) only_provisioning: bool,
}

impl Entry {
    /// An object of `jobset`, `jobset_nodes` or `nodepool` whose first event is a down.
    pub(crate) fn new(family: &'static str, labels: &[(&str, &str)], first: Span) -> Self {
        let mut all = BTreeMap::from([("otel_scope_name".to_owned(), "megamon".to_owned())]);
        all.extend(
            labels
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned())),
        );
        Self {
            family,
            labels: all,
            events: vec![Event {
                up: false,
                expected: false,
                at: first,
            }],
            expected: 0,
            ready: 0,
            unknown: 0,
            chips: 0,
            expected_down: false,
            conditions: BTreeSet::new(),
            found: false,
            failed: Failed::No,
            only_provisioning: false,
        }
    }

    /// Its counts.
    pub(crate) fn counts(&mut self, ready: i64, unknown: i64) {
        self.ready = ready;
        self.unknown = unknown;
    }

    /// It came up; never before its last event.
    pub(crate) fn up(&mut self, at: Span) {
        self.push(true, false, at);
    }

    /// It went down, unexpectedly; never before its last event.
    pub(crate) fn down(&mut self, at: Span) {
        self.push(false, false, at);
    }

    /// It went down as expected; never before its last event.
    pub(crate) fn expected_down(&mut self, at: Span) {
        self.push(false, true, at);
    }

    /// Nothing is known of its past: it was down and up at the instant it was seen.
    pub(crate) fn found_at(&mut self, seen: Span) {
        self.found = true;
        self.events.clear();
        for up in [false, true] {
            self.events.push(Event {
                up,
                expected: false,
                at: seen,
            });
        }
    }

    /// Whether its last event is an up.
    pub(crate) fn is_up(&self) -> bool {
        self.last().up
    }

    fn last(&self) -> Event {
        *self.events.last().expect("an entry has a first event")
    }

    fn push(&mut self, up: bool, expected: bool, at: Span) {
        assert_ne!(self.is_up(), up, "the test's own ledger: twice the same");
        let at = at.max(self.last().at);
        self.events.push(Event { up, expected, at });
    }

    /// Its series at `now`.
    fn series(&self, now: Span, into: &mut BTreeMap<Series, Span>) {
        let prefix = format!("megamon_alpha_{}", self.family);
        let mut put = |name: &str, value: Span| {
            into.insert((format!("{prefix}_{name}"), self.labels.clone()), value);
        };
        #[expect(clippy::cast_precision_loss, reason = "small counts")]
        let count = |count: i64| Span::exact(count as f64);
        let zero = Span::exact(0.0);
        let (mut up, mut down) = (zero, zero);
        let (mut initial, mut between_recovery, mut between_interruption) = (None, None, None);
        let (mut latest_recovery, mut latest_interruption) = (None, None);
        let (mut interruptions, mut recoveries) = (0, 0);
        let ends = self.events.iter().skip(1).copied().map(Some);
        for (event, next) in self.events.iter().zip(ends.chain([None])) {
            let length = next.map_or(now, |next| next.at).since(event.at);
            let total = if event.up { &mut up } else { &mut down };
            *total = total.add(length);
            let Some(next) = next else { continue };
            if next.up && initial.is_none() {
                initial = Some(length);
            } else if next.up {
                between_recovery = Some(between_recovery.unwrap_or(zero).add(length));
                latest_recovery = Some(length);
                recoveries += i64::from(!event.expected);
            } else {
                between_interruption = Some(between_interruption.unwrap_or(zero).add(length));
                latest_interruption = Some(length);
                interruptions += i64::from(!next.expected);
            }
        }
        if !self.only_provisioning {
            put("up", count(i64::from(self.is_up())));
            put("expected", count(self.expected));
            put("ready", count(self.ready));
            put("unknown", count(self.unknown));
            put("expected_down", count(i64::from(self.expected_down)));
            if self.chips > 0 {
                put("tpu_chip_count", count(self.chips));
            }
            put("up_time_seconds", up);
            put("down_time_seconds", down);
            put("interruption_count", count(interruptions));
            put("recovery_count", count(recoveries));
            if let Some(initial) = initial.filter(|_| !self.found) {
                put("down_time_initial_seconds", initial);
            }
            if let (Some(total), Some(latest)) = (between_recovery, latest_recovery) {
                put("down_time_between_recovery_seconds", total);
                put("down_time_between_recovery_latest_seconds", latest);
                #[expect(clippy::cast_precision_loss, reason = "small counts")]
                if recoveries > 0 {
                    let mean = total.over(recoveries as f64);
                    put("down_time_between_recovery_mean_seconds", mean);
                }
            }
            if let (Some(total), Some(latest)) = (between_interruption, latest_interruption) {
                #[expect(clippy::cast_precision_loss, reason = "small counts")]
                if interruptions > 0 {
                    put("up_time_between_interruption_seconds", total);
                    let mean = total.over(interruptions as f64);
                    put("up_time_between_interruption_mean_seconds", mean);
                }
                put("up_time_between_interruption_latest_seconds", latest);
            }
        }
        for condition in &self.conditions {
            let mut labels = self.labels.clone();
            labels.insert("condition".to_owned(), (*condition).to_owned());
            into.insert((format!("{prefix}_condition"), labels), count(1));
        }
        if self.family == "nodepool" && !self.found {
            let first = self.events.first().expect("an entry has a first event").at;
            let (state, duration) = match (initial, self.failed) {
                (Some(initial), _) => ("success", initial),
                (None, Failed::At(at)) => ("failed", at.since(first)),
                (None, Failed::No) => ("provisioning", now.since(first)),
            };
            let mut labels = self.labels.clone();
            labels.insert("provisioning_state".to_owned(), state.to_owned());
            let name = format!("{prefix}_provisioning_duration_seconds");
            into.insert((name, labels), duration);
        }
    }
}

/// Everything that should be published of the families jobset, jobset.nodes and nodepool.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    entries: BTreeMap<String, Entry>,
    /// Leader pods on pools: pool, Job, JobSet.
    pub(crate) scheduled: BTreeSet<[String; 3]>,
}

/// What belongs to the families that are compared whole.
pub(crate) const FAMILIES: [&str; 2] = ["megamon_alpha_jobset_", "megamon_alpha_nodepool_"];

impl Ledger {
    /// A new object, under a name of the test's own.
    pub(crate) fn add(&mut self, name: &str, entry: Entry) -> &mut Entry {
        self.entries.insert(name.to_owned(), entry);
        self.get(name)
    }

    /// Puts an entry in, new or changed.
    pub(crate) fn get(&mut self, name: &str) -> &mut Entry {
        self.entries
            .get_mut(name)
            .unwrap_or_else(|| panic!("the test's own ledger has no {name}"))
    }

    /// An object whose series have ended.
    pub(crate) fn remove(&mut self, name: &str) {
        self.entries.remove(name);
    }

    /// Holds whole families against the ledger: what is missing, what is more than it, and what is
    /// out of bounds.
    pub(crate) fn compare(&self, observed: &Observed) -> Result<(), String> {
        let now = Span::between(observed.now.0, observed.now.1);
        let mut expected = BTreeMap::new();
        for entry in self.entries.values() {
            entry.series(now, &mut expected);
        }
        for [pool, job, jobset] in &self.scheduled {
            let labels = [
                ("job_name", job.as_str()),
                ("jobset_name", jobset),
                ("nodepool_name", pool),
                ("otel_scope_name", "megamon"),
            ];
            let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
            let name = "megamon_alpha_nodepool_job_scheduled".to_owned();
            expected.insert((name, labels.into()), Span::exact(1.0));
        }
        let mut wrong = Vec::new();
        let mut tell = |line: String| wrong.push(line);
        let all = &observed.samples.0;
        for (series, bounds) in &expected {
            match all.get(series) {
                None => tell(format!("missing: {series:?}, expected {bounds:?}")),
                Some(value) if !bounds.holds(*value) => {
                    tell(format!("{series:?} is {value}, expected {bounds:?}"));
                }
                Some(_) => {}
            }
        }
        for prefix in FAMILIES {
            for (series, value) in observed.samples.family(prefix) {
                if !expected.contains_key(series) {
                    tell(format!("surplus: {series:?} is {value}"));
                }
            }
        }
        if wrong.is_empty() {
            return Ok(());
        }
        let more = wrong.len().saturating_sub(30);
        wrong.truncate(30);
        if more > 0 {
            wrong.push(format!("and {more} more"));
        }
        Err(wrong.join("\n"))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::samples::Samples;

    pub(crate) fn observed(ledger: &Ledger, at: f64) -> Observed {
        let mut samples = BTreeMap::new();
        for entry in ledger.entries.values() {
            entry.series(Span::exact(at), &mut samples);
        }
        Observed {
            samples: Samples(samples.into_iter().map(|(s, v)| (s, v.low)).collect()),
            now: (at, at),
        }
    }

    /// One pool: down at 100, up at 110, down at 150, up at 170.
    pub(crate) fn pool() -> Ledger {
        let mut ledger = Ledger::default();
        let labels = [("nodepool_name", "a")];
        let entry = ledger.add("a", Entry::new("nodepool", &labels, Span::exact(100.0)));
        entry.up(Span::exact(110.0));
        entry.down(Span::exact(150.0));
        entry.up(Span::exact(170.0));
        entry.expected = 2;
        entry.counts(2, 0);
        ledger
    }

    #[test]
    fn the_ledger_computes_what_the_contract_says() {
        let observed = observed(&pool(), 200.0);
        for (name, value) in [
            ("up", 1.0),
            ("up_time_seconds", 70.0),
            ("down_time_seconds", 30.0),
            ("interruption_count", 1.0),
            ("recovery_count", 1.0),
            ("down_time_initial_seconds", 10.0),
            ("down_time_between_recovery_seconds", 20.0),
            ("down_time_between_recovery_mean_seconds", 20.0),
            ("up_time_between_interruption_seconds", 40.0),
            ("provisioning_duration_seconds", 10.0),
        ] {
            let name = format!("megamon_alpha_nodepool_{name}");
            assert_eq!(observed.samples.value(&name, &[]), Ok(value), "{name}");
        }
    }

    #[test]
    fn a_stale_a_missing_and_a_wrong_series_are_each_found() {
        let ledger = pool();
        let good = observed(&ledger, 200.0);
        assert_eq!(ledger.compare(&good), Ok(()));
        let series = |name: &str| {
            let found = good.samples.0.keys().find(|(have, _)| have.ends_with(name));
            found.expect("it is there").clone()
        };
        let mut stale = good.clone();
        let (name, mut labels) = series("_nodepool_up");
        labels.insert("nodepool_name".to_owned(), "gone".to_owned());
        stale.samples.0.insert((name, labels), 1.0);
        let mut missing = good.clone();
        missing.samples.0.remove(&series("_ready"));
        let mut wrong = good.clone();
        wrong.samples.0.insert(series("_down_time_seconds"), 31.0);
        for (observed, word) in [(stale, "surplus"), (missing, "missing"), (wrong, "is 31")] {
            let found = ledger.compare(&observed).expect_err(word);
            assert!(
                found.contains(word) && found.lines().count() == 1,
                "{found}"
            );
        }
    }
}
