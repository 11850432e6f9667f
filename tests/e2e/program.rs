//! The program under test: the real binary, with a configuration file, on free ports, with a
//! history in a folder that outlives each of its runs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::samples::{Observed, Samples};
use crate::servers::collector::{Collector, PUSH_INTERVAL};
use crate::servers::control_plane::{ControlPlane, answers, wait_ready};
use crate::servers::gke::Gke;
use crate::servers::process::{Process, last_lines};
use crate::servers::{free_port, http, now, scratch};

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// SIGTERM: it drains.
    Terminate,
    /// SIGKILL: it has no say.
    Kill,
}

/// The settings in which the tests differ.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// How long a node counts as Unknown.
    pub(crate) unknown_deadline: Duration,
    /// How long a label pool may be empty before its history closes.
    pub(crate) empty_after: Duration,
    /// Whether JobSets are watched.
    pub(crate) jobsets: bool,
    /// What is logged.
    pub(crate) log: &'static str,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            unknown_deadline: Duration::from_mins(3),
            empty_after: Duration::from_hours(1),
            jobsets: true,
            log: "info,megamon=debug",
        }
    }
}

/// The program, running or stopped.
pub(crate) struct Program {
    process: Option<Process>,
    kubeconfig: PathBuf,
    metrics: u16,
    probes: u16,
    runs: u32,
    http: reqwest::Client,
    folder: TempDir,
}

impl Program {
    /// Starts it and waits until `/readyz` is 200.
    pub(crate) async fn start(
        plane: &ControlPlane,
        collector: Option<&Collector>,
        gke: Option<&Gke>,
        settings: &Settings,
    ) -> Self {
        let folder = scratch();
        let (metrics, probes) = (free_port(), free_port());
        let config = configuration(folder.path(), [metrics, probes], collector, gke, settings);
        let text = serde_saphyr::to_string(&config).expect("YAML");
        std::fs::write(folder.path().join("config.yaml"), text).expect("it is written");
        let mut program = Self {
            process: None,
            kubeconfig: plane.kubeconfig(),
            metrics,
            probes,
            runs: 0,
            http: http(),
            folder,
        };
        program.run().await;
        program
    }

    /// Runs it (again) on the same configuration and history and waits until it is ready.
    pub(crate) async fn run(&mut self) {
        self.launch();
        let mut process = self.process.take().expect("just launched");
        let ready = async || self.ready().await;
        wait_ready("megamon", &mut process, ready).await;
        self.process = Some(process);
    }

    /// Runs it and waits for nothing.
    pub(crate) fn launch(&mut self) {
        self.runs += 1;
        // Another build of the program, such as the one that is shipped, where one is named.
        let program = std::env::var_os("MEGAMON_PROGRAM");
        let program = program.unwrap_or_else(|| env!("CARGO_BIN_EXE_megamon").into());
        let mut command = Command::new(program);
        command
            .arg("run")
            .arg("--config")
            .arg(self.folder.path().join("config.yaml"))
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .env_remove("KUBECONFIG");
        for (name, _) in std::env::vars_os() {
            // The settings of whoever runs the tests are not those of the test.
            if name.to_string_lossy().starts_with("OTEL_") {
                command.env_remove(name);
            }
        }
        let name = format!("megamon-{}", self.runs);
        self.process = Some(Process::start(&name, &mut command, self.folder.path()));
    }

    /// Ends it.
    pub(crate) fn stop(&mut self, end: End) {
        let process = self.process.take().expect("megamon runs");
        match end {
            End::Kill => process.kill(),
            End::Terminate => {
                let log = process.log().to_owned();
                let status = process.terminate(Duration::from_secs(20));
                let status = status.unwrap_or_else(|error| panic!("{error}"));
                let lines = last_lines(&log, 20);
                assert!(status.success(), "SIGTERM ended it with {status}:\n{lines}");
            }
        }
    }

    /// Ends it and runs it again on the same history.
    pub(crate) async fn restart(&mut self, end: End) {
        self.stop(end);
        self.run().await;
    }

    /// What it has cost so far.
    pub(crate) fn cost(&self) -> Cost {
        let id = self.process.as_ref().expect("megamon runs").id();
        Cost::of(id)
    }

    /// `HOST:PORT` of its metrics.
    pub(crate) fn metrics_address(&self) -> String {
        format!("127.0.0.1:{}", self.metrics)
    }

    /// Whether `/readyz` is 200, else what it says.
    pub(crate) async fn ready(&self) -> Result<(), String> {
        let url = format!("http://127.0.0.1:{}/readyz", self.probes);
        answers(&self.http, &url).await
    }

    /// The text of a scrape.
    pub(crate) async fn scrape_text(&self) -> Result<String, String> {
        let url = format!("http://{}/metrics", self.metrics_address());
        let answer = self.http.get(&url).send().await;
        let answer = answer.map_err(|error| format!("{url}: {error:?}"))?;
        let answer = answer
            .error_for_status()
            .map_err(|error| error.to_string())?;
        answer.text().await.map_err(|error| error.to_string())
    }

    /// A scrape, with the instants between which its `now` lies.
    pub(crate) async fn scrape(&self) -> Result<Observed, String> {
        let before = now();
        let text = self.scrape_text().await?;
        let after = now();
        Ok(Observed {
            samples: Samples::of_text(&text)?,
            now: (before, after),
        })
    }

    /// The log of its newest run.
    pub(crate) fn log(&self) -> String {
        let path = self
            .folder
            .path()
            .join(format!("megamon-{}.log", self.runs));
        std::fs::read_to_string(path).unwrap_or_default()
    }
}

/// What a process costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// CPU time in seconds.
    pub(crate) cpu: f64,
    /// Resident memory in MiB.
    pub(crate) resident_mib: f64,
}

impl Cost {
    /// From `/proc`.
    fn of(id: u32) -> Self {
        let read = |file: &str| {
            let path = format!("/proc/{id}/{file}");
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
        };
        let stat = read("stat");
        // The name in parentheses may hold spaces; user and system time are the 12th and 13th after.
        let (_, fields) = stat.rsplit_once(')').expect("a process's stat");
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks: f64 = ticks
            .map(|ticks| ticks.parse::<f64>().expect("a number"))
            .sum();
        let status = read("status");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident = resident.and_then(|rest| rest.split_whitespace().next());
        let kibibytes: f64 = resident.map_or(0.0, |number| number.parse().expect("a number"));
        Self {
            // A tick is a hundredth of a second on Linux.
            cpu: ticks / 100.0,
            resident_mib: kibibytes / 1024.0,
        }
    }

    /// The CPU time since then, and the memory now.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            cpu: self.cpu - earlier.cpu,
            resident_mib: self.resident_mib,
        }
    }
}

/// The configuration file.
fn configuration(
    folder: &Path,
    [metrics, probes]: [u16; 2],
    collector: Option<&Collector>,
    gke: Option<&Gke>,
    settings: &Settings,
) -> Value {
    let mut config = json!({
        "prefix": "megamon.alpha",
        "metricsAddress": format!("127.0.0.1:{metrics}"),
        "probeAddress": format!("127.0.0.1:{probes}"),
        "cluster": {"name": "e2e"},
        "history": {
            "url": format!("file://{}", folder.join("history").display()),
            "commitInterval": "100ms",
        },
        "nodePools": {"labels": {
            "enabled": gke.is_none(),
            "emptyAfter": format!("{}ms", settings.empty_after.as_millis()),
        }},
        "workloads": {"jobsets": settings.jobsets},
        "availability": {"unknownDeadline": format!("{}ms", settings.unknown_deadline.as_millis())},
        "log": {"format": "json", "level": settings.log},
    });
    if let Some(collector) = collector {
        config["otlp"] = json!({
            "endpoint": collector.endpoint(),
            "interval": format!("{}ms", PUSH_INTERVAL.as_millis()),
            "timeout": "2s",
        });
    }
    if let Some(gke) = gke {
        config["nodePools"]["gke"] = json!({
            "enabled": true,
            "project": Gke::PROJECT,
            "location": Gke::LOCATION,
            "cluster": Gke::CLUSTER,
            "endpoint": gke.endpoint(),
            "interval": "500ms",
        });
    }
    config
}
