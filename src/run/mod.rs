//! The program: builds what the configuration asks for, wires the rooms together, and ends them in
//! order.
//!
//! ```text
//!  SIGTERM -> watches end -> what is pending is appended -> one last push -> servers close
//! ```
//!
//! The death of any task ends the process with its error.

mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use jiff::SignedDuration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::clock::{SharedClock, WallClock};
use crate::config::Config;
use crate::export::otlp::{self, Identity, Push};
use crate::export::provider::{self, Metrics};
use crate::export::report::{ConfigMapReport, StdoutReport};
use crate::export::text;
use crate::export::traces::Traces;
use crate::fleet;
use crate::history::Store;
use crate::instruments::{self, Scope};
use crate::logs;
use crate::measure::{Ignore, SharedRecorder};
use crate::model::{Family, Source};
use crate::node_pools::{self, GkePools, PollNow, Polling};
use crate::observed;
use crate::serve::{self, MetricsState, ProbeState};
use crate::snapshot::Published;
use crate::watch::{self, Feed, Target};

/// Observations that wait for the state loop before the watches are held up.
const QUEUE: usize = 1024;
/// How long the drain of each step may take.
const DRAIN: Duration = Duration::from_secs(15);

/// The tasks of one step of the drain, by name.
type Tasks = JoinSet<(&'static str, anyhow::Result<()>)>;

fn spawn(
    tasks: &mut Tasks,
    name: &'static str,
    work: impl Future<Output = anyhow::Result<()>> + Send + 'static,
) {
    tasks.spawn(async move { (name, work.await) });
}

/// Runs until SIGTERM or SIGINT, or until a task dies.
pub async fn run(config: Config) -> anyhow::Result<()> {
    let clock: SharedClock = Arc::new(WallClock);
    let process = uuid::Uuid::new_v4().to_string();
    let identity = Identity::new(
        "",
        &process,
        cluster_name(&config).as_deref(),
        &cloud(&config),
        &config.resource,
    );
    let traces = match &config.traces {
        Some(traces) => Some(Traces::new(traces, &identity.own).context("traces")?),
        None => None,
    };
    let log = logs::init(&config.log, traces.as_ref())?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "megamon starts");
    let done = serve_all(&config, clock, &process, identity, log).await;
    if let Some(traces) = traces {
        traces.shutdown().await;
    }
    match &done {
        Ok(()) => tracing::info!("megamon ends"),
        Err(error) => tracing::error!(error = format!("{error:#}"), "megamon ends"),
    }
    done
}

async fn serve_all(
    config: &Config,
    clock: SharedClock,
    process: &str,
    identity: Identity,
    log: logs::Handle,
) -> anyhow::Result<()> {
    let published = Arc::new(Published::new(clock.now()));
    let settings = provider::Settings {
        prefix: config.prefix.clone(),
        objects_per_family: config.limits.objects_per_family,
        resource: identity.own.clone(),
    };
    let metrics = Metrics::build(settings, published.clone(), clock.clone())?;
    let recorder: SharedRecorder = metrics.recorder.clone();
    let metrics_listener = serve::bind(config.metrics_address, "metricsAddress").await?;
    let probe_listener = serve::bind(config.probe_address, "probeAddress").await?;
    let client = watch::connect(&config.cluster).await?;
    let store = Store::open(&config.history.url)?;

    // Each step of the drain has its token; nothing outlives its step by more than `DRAIN`.
    let (watching, publishing, serving) = (
        CancellationToken::new(),
        CancellationToken::new(),
        CancellationToken::new(),
    );
    let (mut watches, mut outlets, mut servers) = (Tasks::new(), Tasks::new(), Tasks::new());
    let (sender, receiver) = mpsc::channel(QUEUE);
    let poll = PollNow::default();
    let targets = Target::of(config);
    let settings = fleet_settings(config, &targets);
    let families: Vec<Family> = settings.families.iter().copied().collect();

    // Watches.
    let feed = Feed {
        client: client.clone(),
        sender: sender.clone(),
        clock: clock.clone(),
        recorder: recorder.clone(),
        shutdown: watching.clone(),
        options: watch::Options::default(),
    };
    for target in targets {
        let (name, feed) = (target.source().name(), feed.clone());
        spawn(&mut watches, name, async move {
            watch::follow(target, feed).await;
            Ok(())
        });
    }
    if let Some(gke) = config.node_pools.gke.clone() {
        let polling = Polling {
            interval: gke.interval,
            now: poll.clone(),
            sender: sender.clone(),
            clock: clock.clone(),
            shutdown: watching.clone(),
        };
        let source = GkePools::new(gke, recorder.clone());
        spawn(&mut watches, "node pools", async move {
            node_pools::poll(source, polling).await;
            Ok(())
        });
    }
    drop((sender, feed));

    // State: ends by itself once the watches have ended and what they saw is durable.
    let (named, deployment) = tokio::sync::oneshot::channel();
    let beat = state::Beat::default();
    let owner = state::Owner {
        config: state::Settings::of(config, process),
        store,
        fleet: settings,
        published: published.clone(),
        clock: clock.clone(),
        recorder: recorder.clone(),
        observations: receiver,
        poll,
        beat: beat.clone(),
        named: Some(named),
    };
    let mut states = Tasks::new();
    spawn(&mut states, "state", owner.run());

    // Outlets.
    if let Some(otlp) = config.otlp.clone() {
        let collect = otlp::collect_from(metrics.collector.clone());
        let (recorder, shutdown) = (recorder.clone(), publishing.clone());
        spawn(&mut outlets, "otlp", async move {
            // The fleet's series bear the deployment's name, which the history knows.
            let named = tokio::select! {
                named = deployment => named.ok(),
                () = shutdown.cancelled() => None,
            };
            let Some(named) = named else { return Ok(()) };
            let mut identity = identity;
            identity
                .fleet
                .insert("service.instance.id".to_owned(), named.to_string());
            let is_fleet = |name: &str| instruments::scope_of(name) == Scope::Fleet;
            Push::new(otlp, identity, collect, is_fleet, recorder)?
                .run(shutdown)
                .await;
            Ok(())
        });
    }
    let interval = config.report.interval;
    if config.report.stdout {
        let report =
            StdoutReport::new(published.clone(), interval, clock.clone(), recorder.clone());
        let shutdown = publishing.clone();
        spawn(&mut outlets, "report to stdout", async move {
            report.run(shutdown).await;
            Ok(())
        });
    }
    if let Some(place) = config.report.config_map.clone() {
        let (published, clock, recorder) = (published.clone(), clock.clone(), recorder.clone());
        let report = ConfigMapReport::new(client, place, published, interval, clock, recorder);
        let shutdown = publishing.clone();
        spawn(&mut outlets, "report to a ConfigMap", async move {
            report.run(shutdown).await;
            Ok(())
        });
    }

    // Servers. The server counts failed scrapes itself.
    let text = Arc::new(text::Prometheus::new(
        metrics.collector.clone(),
        Arc::new(Ignore),
    ));
    let scrape: serve::Scrape = Arc::new(move |format| {
        let format = match format {
            serve::Format::Text => text::Format::Text,
            serve::Format::OpenMetrics => text::Format::OpenMetrics,
        };
        text.scrape(format).map_err(|error| error.to_string())
    });
    let port = config.probe_address.port();
    let metrics_state = MetricsState::new(
        scrape,
        published.clone(),
        clock.clone(),
        port,
        recorder.clone(),
    );
    let level = log.clone();
    let probe_state = ProbeState::new(published.clone(), &families, Arc::new(move || beat.check()))
        .with_log_level(
            Arc::new(move || level.filter()),
            Arc::new(move |filter| log.set_filter(filter).map_err(|error| error.to_string())),
        );
    let shutdown = serving.clone();
    spawn(&mut servers, "metrics server", async move {
        serve::metrics(metrics_listener, metrics_state, shutdown).await;
        Ok(())
    });
    let shutdown = serving.clone();
    spawn(&mut servers, "probe server", async move {
        serve::probes(probe_listener, probe_state, shutdown).await;
        Ok(())
    });
    tracing::info!(
        metrics = %config.metrics_address,
        probes = %config.probe_address,
        history = config.history.url,
        otlp = config.otlp.as_ref().map(|otlp| otlp.endpoint.as_str()),
        "serving"
    );

    let died = tokio::select! {
        signal = signal() => {
            tracing::info!(signal = signal?, "asked to end");
            None
        }
        Some(done) = watches.join_next() => Some(done),
        Some(done) = states.join_next() => Some(done),
        Some(done) = outlets.join_next(), if !outlets.is_empty() => Some(done),
        Some(done) = servers.join_next() => Some(done),
    };
    watching.cancel();
    drain(watches).await;
    drain(states).await;
    publishing.cancel();
    drain(outlets).await;
    serving.cancel();
    drain(servers).await;
    match died {
        None => Ok(()),
        Some(Ok((name, Err(error)))) => Err(error.context(format!("the task {name:?} died"))),
        Some(Ok((name, Ok(())))) => anyhow::bail!("the task {name:?} ended by itself"),
        Some(Err(error)) => Err(error).context("a task died"),
    }
}

async fn drain(mut tasks: Tasks) {
    let all = async {
        while let Some(done) = tasks.join_next().await {
            match done {
                Ok((_, Ok(()))) => {}
                Ok((name, Err(error))) => {
                    tracing::error!(task = name, error = format!("{error:#}"), "ended badly");
                }
                Err(error) => tracing::error!(%error, "a task died"),
            }
        }
    };
    if tokio::time::timeout(DRAIN, all).await.is_err() {
        tracing::warn!(
            seconds = DRAIN.as_secs(),
            "something did not end in time and is left behind"
        );
    }
}

async fn signal() -> anyhow::Result<&'static str> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut term = signal(SignalKind::terminate()).context("SIGTERM cannot be caught")?;
    let mut int = signal(SignalKind::interrupt()).context("SIGINT cannot be caught")?;
    Ok(tokio::select! {
        _ = term.recv() => "SIGTERM",
        _ = int.recv() => "SIGINT",
    })
}

fn cluster_name(config: &Config) -> Option<String> {
    let gke = config
        .node_pools
        .gke
        .as_ref()
        .and_then(|gke| gke.cluster.clone());
    config.cluster.name.clone().or(gke)
}

/// What the configuration says of the cloud, under the semantic conventions' names.
fn cloud(config: &Config) -> BTreeMap<String, String> {
    let mut known = BTreeMap::new();
    if let Some(gke) = &config.node_pools.gke {
        let mut add = |key: &str, value: &str| known.insert(key.to_owned(), value.to_owned());
        add("cloud.provider", "gcp");
        add("cloud.platform", "gcp_kubernetes_engine");
        if let Some(project) = &gke.project {
            add("cloud.account.id", project);
        }
        if let Some(location) = &gke.location {
            // A zone is a region, a dash and a letter.
            let zone = location
                .rsplit('-')
                .next()
                .is_some_and(|last| last.len() == 1);
            add(
                if zone {
                    "cloud.availability_zone"
                } else {
                    "cloud.region"
                },
                location,
            );
        }
    }
    known
}

fn fleet_settings(config: &Config, targets: &[Target]) -> fleet::Settings {
    let labels = config.node_pools.labels.as_ref();
    let mut sources: BTreeSet<Source> = targets.iter().map(Target::source).collect();
    if config.node_pools.gke.is_some() {
        sources.insert(Source::NodePoolApi);
    }
    let workloads = config.workloads;
    let pools = labels.is_some() || config.node_pools.gke.is_some();
    let published = [
        (Family::JobSet, workloads.jobsets),
        (Family::JobSetNodes, workloads.jobsets && !workloads.slices),
        (Family::NodePool, pools),
        (Family::Slice, workloads.slices),
        (Family::Lws, workloads.leader_worker_sets),
    ];
    let span = |duration| SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    fleet::Settings {
        observed: observed::Settings {
            label_pools: labels.is_some(),
            api_pools: config.node_pools.gke.is_some(),
            pool_sizes: labels
                .map(|labels| labels.sizes.clone())
                .unwrap_or_default(),
            slice_mode: workloads.slices,
        },
        sources,
        families: published
            .into_iter()
            .filter(|(_, on)| *on)
            .map(|(family, _)| family)
            .collect(),
        unknown_threshold: config.availability.unknown_threshold,
        unknown_deadline: span(config.availability.unknown_deadline),
        empty_after: labels.map_or(SignedDuration::from_hours(1), |labels| {
            span(labels.empty_after)
        }),
        commit_interval: span(config.history.commit_interval),
    }
}
