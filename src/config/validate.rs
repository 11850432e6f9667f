//! Settings as written become the configuration as meant. Every field of every message is taken
//! apart here, so that a new one cannot be forgotten; every problem is kept, not just the first.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::forms::{self, Fault};
use super::problem::{Origin, Path, Problem};
use super::schema::{Settings, settings};
use super::{
    Availability, Cluster, Config, Gke, History, LabelPools, Limits, Log, LogFormat, NodePools,
    Report, Workloads,
};

const MILLISECOND: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// How often something may be done.
const INTERVAL: RangeInclusive<Duration> = Duration::from_millis(100)..=DAY;
/// How long something may be kept: a hundred years are for ever.
const KEPT: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_hours(100 * 365 * 24);

/// What is known of where settings were given, and what was found wrong with them.
pub(super) struct Reading<'a> {
    pub(super) origins: &'a BTreeMap<Path, Origin>,
    pub(super) problems: Vec<Problem>,
    /// Sections that are off: what the environment says about them does not matter.
    pub(super) off: Vec<Path>,
}

impl Reading<'_> {
    /// Where a setting was given, or else the group that it would belong to.
    fn origin(&self, path: &Path) -> Origin {
        let mut above = Some(path.clone());
        while let Some(path) = above {
            if let Some(origin) = self.origins.get(&path) {
                return origin.clone();
            }
            above = path.parent();
        }
        Origin::Default
    }

    pub(super) fn problem(&mut self, path: impl Into<Path>, (what, expected): Fault) {
        let path = path.into();
        self.problems.push(Problem {
            origin: self.origin(&path),
            path,
            what,
            expected,
        });
    }

    /// Reads a text, if there is one.
    pub(super) fn parsed<T>(
        &mut self,
        path: impl Into<Path>,
        text: Option<String>,
        parse: impl Fn(&str) -> Result<T, Fault>,
    ) -> Option<T> {
        let text = text?;
        let path = path.into();
        match forms::text(&text).and_then(|text| parse(&text)) {
            Ok(value) => Some(value),
            Err(fault) => {
                self.problem(path, fault);
                None
            }
        }
    }

    pub(super) fn text(&mut self, path: &str, text: Option<String>) -> Option<String> {
        self.parsed(path, text, forms::text)
    }

    pub(super) fn file(&mut self, path: &str, text: Option<String>) -> Option<PathBuf> {
        self.text(path, text).map(PathBuf::from)
    }

    pub(super) fn duration(
        &mut self,
        path: &str,
        text: Option<String>,
        range: &RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let duration = self.parsed(path, text.clone(), forms::duration)?;
        if range.contains(&duration) {
            return Some(duration);
        }
        let (least, most) = (range.start(), range.end());
        let bounds = match (least.is_zero(), most == KEPT.end()) {
            (true, true) => "less than a hundred years".to_owned(),
            (true, false) => format!("at most {}", forms::duration_text(*most)),
            (false, _) => format!(
                "{} to {}",
                forms::duration_text(*least),
                forms::duration_text(*most)
            ),
        };
        let what = format!("{:?} is out of range", text.unwrap_or_default());
        self.problem(path, (what, bounds));
        None
    }

    pub(super) fn share(&mut self, path: &str, share: Option<f64>) -> Option<f64> {
        let share = share?;
        if (0.0..=1.0).contains(&share) {
            return Some(share);
        }
        let what = format!("{share} is out of range");
        self.problem(path, (what, "a number from 0 to 1".to_owned()));
        None
    }

    fn count(&mut self, path: &str, count: Option<u32>, most: u32) -> Option<usize> {
        let count = count?;
        if (1..=most).contains(&count) {
            return usize::try_from(count).ok();
        }
        let expected = format!("a whole number from 1 to {most}");
        self.problem(path, (format!("{count} is out of range"), expected));
        None
    }

    /// Names of Kubernetes, each once; `None` where none is given.
    fn names(&mut self, path: &str, names: Vec<String>) -> Option<Vec<String>> {
        let path = Path::from(path);
        let mut seen = BTreeSet::new();
        let mut read = Vec::new();
        for (index, name) in names.into_iter().enumerate() {
            let path = path.index(index);
            if !seen.insert(name.clone()) {
                let what = format!("{name:?} is named twice");
                self.problem(path, (what, "it once".to_owned()));
            } else if let Some(name) = self.parsed(path, Some(name), forms::qualified) {
                read.push(name);
            }
        }
        if seen.is_empty() {
            if self.origins.contains_key(&path) {
                let what = "is an empty list".to_owned();
                let expected = "at least one name, or leave it out for the default";
                self.problem(path, (what, expected.to_owned()));
            }
            return None;
        }
        Some(read)
    }

    /// A group that is off by default does nothing unless it is enabled: whoever writes one without
    /// saying so is asked.
    pub(super) fn asks_for_enabled(&mut self, section: &str, enabled: Option<bool>) {
        let path = Path::from(section);
        let in_file = |(known, origin): (&Path, &Origin)| {
            *known != path && known.is_within(&path) && matches!(origin, Origin::File { .. })
        };
        if enabled.is_none() && self.origins.iter().any(in_file) {
            let what = "has settings but is not enabled".to_owned();
            self.problem(path, (what, "enabled: true or enabled: false".to_owned()));
        }
    }
}

/// The configuration that settings mean. Where a setting is wrong its default stands in, and the
/// problem is in `reading`.
pub(super) fn config(settings: Settings, reading: &mut Reading<'_>) -> Config {
    let Settings {
        prefix,
        metrics_address,
        probe_address,
        otlp,
        traces,
        cluster,
        resource,
        history,
        node_pools,
        workloads,
        availability,
        limits,
        report,
        log,
    } = settings;
    let default = Config::default();
    let prefix = reading.parsed("prefix", prefix, forms::prefix);
    let metrics_address = reading.parsed("metricsAddress", metrics_address, forms::address);
    let probe_address = reading.parsed("probeAddress", probe_address, forms::address);
    let (otlp, traces) = super::receivers::receivers(otlp, traces, reading);
    let config = Config {
        prefix: prefix.unwrap_or(default.prefix),
        metrics_address: metrics_address.unwrap_or(default.metrics_address),
        probe_address: probe_address.unwrap_or(default.probe_address),
        otlp,
        traces,
        cluster: cluster_of(cluster.unwrap_or_default(), reading),
        resource: resource_of(resource, reading),
        history: history_of(history.unwrap_or_default(), reading),
        node_pools: node_pools_of(node_pools.unwrap_or_default(), reading),
        workloads: workloads_of(workloads.unwrap_or_default()),
        availability: availability_of(availability.unwrap_or_default(), reading),
        limits: limits_of(limits.unwrap_or_default(), reading),
        report: report_of(report.unwrap_or_default(), reading),
        log: log_of(log.unwrap_or_default(), reading),
    };
    if forms::collide(config.metrics_address, config.probe_address) {
        let (metrics, probe) = (config.metrics_address, config.probe_address);
        let given = reading.origins.contains_key(&"probeAddress".into());
        let (path, one, other) = if given {
            ("probeAddress", probe, metrics)
        } else {
            ("metricsAddress", metrics, probe)
        };
        let what = format!("{one} cannot be served beside {other}");
        reading.problem(path, (what, "another port".to_owned()));
    }
    config
}

fn cluster_of(cluster: settings::Cluster, reading: &mut Reading<'_>) -> Cluster {
    let settings::Cluster {
        kubeconfig,
        context,
        name,
    } = cluster;
    Cluster {
        kubeconfig: reading.file("cluster.kubeconfig", kubeconfig),
        context: reading.text("cluster.context", context),
        name: reading.text("cluster.name", name),
    }
}

fn resource_of(
    resource: BTreeMap<String, String>,
    reading: &mut Reading<'_>,
) -> BTreeMap<String, String> {
    for key in resource.keys().filter(|key| key.trim().is_empty()) {
        let what = "an attribute has no name".to_owned();
        let path = Path::from("resource").name(key);
        reading.problem(path, (what, "a name such as service.namespace".to_owned()));
    }
    resource
}

fn history_of(history: settings::History, reading: &mut Reading<'_>) -> History {
    let settings::History {
        url,
        commit_interval,
        retention,
    } = history;
    let default = History::default();
    let url = reading.parsed("history.url", url, forms::history);
    let commit = Duration::ZERO..=MINUTE;
    let commit_interval = reading.duration("history.commitInterval", commit_interval, &commit);
    let retention = reading.duration("history.retention", retention, &KEPT);
    History {
        url: url.unwrap_or(default.url),
        commit_interval: commit_interval.unwrap_or(default.commit_interval),
        retention: retention.unwrap_or(default.retention),
    }
}

fn node_pools_of(node_pools: settings::NodePools, reading: &mut Reading<'_>) -> NodePools {
    let settings::NodePools { labels, gke } = node_pools;
    NodePools {
        labels: label_pools_of(labels.unwrap_or_default(), reading),
        gke: gke_of(gke.unwrap_or_default(), reading),
    }
}

fn label_pools_of(pools: settings::LabelPools, reading: &mut Reading<'_>) -> Option<LabelPools> {
    let settings::LabelPools {
        enabled,
        labels,
        resources,
        sizes,
        empty_after,
    } = pools;
    let default = LabelPools::default();
    let labels = reading.names("nodePools.labels.labels", labels);
    let resources = reading.names("nodePools.labels.resources", resources);
    for (pool, _) in sizes.iter().filter(|(_, size)| **size == 0) {
        let path = Path::from("nodePools.labels.sizes").name(pool);
        let expected = "how many nodes the pool should have, at least 1";
        reading.problem(path, ("0 is no size".to_owned(), expected.to_owned()));
    }
    let empty_after = reading.duration("nodePools.labels.emptyAfter", empty_after, &KEPT);
    enabled.unwrap_or(true).then(|| LabelPools {
        labels: labels.unwrap_or(default.labels),
        resources: resources.unwrap_or(default.resources),
        sizes: sizes
            .into_iter()
            .map(|(pool, size)| (pool, size.into()))
            .collect(),
        empty_after: empty_after.unwrap_or(default.empty_after),
    })
}

fn gke_of(gke: settings::GkePools, reading: &mut Reading<'_>) -> Option<Gke> {
    let settings::GkePools {
        enabled,
        project,
        location,
        cluster,
        endpoint,
        interval,
    } = gke;
    reading.asks_for_enabled("nodePools.gke", enabled);
    let default = Gke::default();
    let gke = Gke {
        project: reading.text("nodePools.gke.project", project),
        location: reading.text("nodePools.gke.location", location),
        cluster: reading.text("nodePools.gke.cluster", cluster),
        endpoint: reading.parsed("nodePools.gke.endpoint", endpoint, forms::endpoint),
        interval: reading
            .duration("nodePools.gke.interval", interval, &INTERVAL)
            .unwrap_or(default.interval),
    };
    enabled.unwrap_or(false).then_some(gke)
}

fn workloads_of(workloads: settings::Workloads) -> Workloads {
    let settings::Workloads {
        jobsets,
        slices,
        leader_worker_sets,
    } = workloads;
    let default = Workloads::default();
    Workloads {
        jobsets: jobsets.unwrap_or(default.jobsets),
        slices: slices.unwrap_or(default.slices),
        leader_worker_sets: leader_worker_sets.unwrap_or(default.leader_worker_sets),
    }
}

fn availability_of(rule: settings::Availability, reading: &mut Reading<'_>) -> Availability {
    let settings::Availability {
        unknown_threshold,
        unknown_deadline,
    } = rule;
    let default = Availability::default();
    let threshold = reading.share("availability.unknownThreshold", unknown_threshold);
    let range = Duration::ZERO..=DAY;
    let deadline = reading.duration("availability.unknownDeadline", unknown_deadline, &range);
    Availability {
        unknown_threshold: threshold.unwrap_or(default.unknown_threshold),
        unknown_deadline: deadline.unwrap_or(default.unknown_deadline),
    }
}

fn limits_of(limits: settings::Limits, reading: &mut Reading<'_>) -> Limits {
    let settings::Limits { objects_per_family } = limits;
    let objects = reading.count("limits.objectsPerFamily", objects_per_family, 1_000_000);
    Limits {
        objects_per_family: objects.unwrap_or(Limits::default().objects_per_family),
    }
}

fn report_of(report: settings::Report, reading: &mut Reading<'_>) -> Report {
    let settings::Report {
        interval,
        stdout,
        config_map,
    } = report;
    let default = Report::default();
    let interval = reading.duration("report.interval", interval, &INTERVAL);
    let settings::ConfigMap { namespace, name } = config_map.unwrap_or_default();
    let half = match (&namespace, &name) {
        (Some(_), None) => Some(("report.configMap.name", "the name of the ConfigMap")),
        (None, Some(_)) => Some((
            "report.configMap.namespace",
            "the namespace of the ConfigMap",
        )),
        _ => None,
    };
    if let Some((path, expected)) = half {
        let fault = ("is missing".to_owned(), expected.to_owned());
        reading.problem(path, fault);
    }
    let namespace = reading.parsed("report.configMap.namespace", namespace, forms::object_name);
    let name = reading.parsed("report.configMap.name", name, forms::object_name);
    Report {
        interval: interval.unwrap_or(default.interval),
        stdout: stdout.unwrap_or(default.stdout),
        config_map: namespace.zip(name),
    }
}

fn log_of(log: settings::Log, reading: &mut Reading<'_>) -> Log {
    const FORMATS: [(&str, LogFormat); 3] = [
        ("auto", LogFormat::Auto),
        ("human", LogFormat::Human),
        ("json", LogFormat::Json),
    ];
    let settings::Log { format, level } = log;
    let default = Log::default();
    let format = reading.parsed("log.format", format, |text| forms::word(text, &FORMATS));
    let level = reading.parsed("log.level", level, forms::log_filter);
    Log {
        format: format.unwrap_or(default.format),
        level: level.unwrap_or(default.level),
    }
}

/// Bounds of the settings of an OTLP receiver.
pub(super) mod bounds {
    use super::{Duration, HOUR, MILLISECOND, RangeInclusive};

    /// Time between two pushes.
    pub(in super::super) const INTERVAL: RangeInclusive<Duration> = super::INTERVAL;
    /// Longest time for one request.
    pub(in super::super) const TIMEOUT: RangeInclusive<Duration> =
        MILLISECOND.saturating_mul(10)..=HOUR;
}
