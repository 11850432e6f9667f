//! A real OpenTelemetry Collector: OTLP/gRPC in, a file and a Prometheus endpoint out.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::control_plane::{answers, wait_ready};
use super::process::Process;
use super::{free_port, http, installed, scratch};

/// The time between two pushes in these tests.
pub(crate) const PUSH_INTERVAL: Duration = Duration::from_secs(1);

/// A Collector that can be stopped and started again on the same ports.
pub(crate) struct Collector {
    process: Option<Process>,
    grpc: u16,
    prometheus: u16,
    health: u16,
    folder: TempDir,
}

impl Collector {
    /// Starts it and waits until it is ready.
    pub(crate) async fn start() -> Self {
        let mut collector = Self {
            process: None,
            grpc: free_port(),
            prometheus: free_port(),
            health: free_port(),
            folder: scratch(),
        };
        collector.restart().await;
        collector
    }

    /// Starts it again after [`Collector::kill`]; what it wrote before stays.
    pub(crate) async fn restart(&mut self) {
        let loopback = |port: u16| format!("127.0.0.1:{port}");
        let config = json!({
            "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": loopback(self.grpc)}}}},
            "exporters": {
                "file": {"path": self.file(), "append": true, "flush_interval": "100ms"},
                "prometheus": {
                    "endpoint": loopback(self.prometheus),
                    "metric_expiration": format!("{}s", 2 * PUSH_INTERVAL.as_secs()),
                    "send_timestamps": true,
                },
            },
            "extensions": {"health_check": {"endpoint": loopback(self.health)}},
            "service": {
                // Else it opens a fixed port for its own metrics.
                "telemetry": {"metrics": {"level": "none"}},
                "extensions": ["health_check"],
                "pipelines": {"metrics": {"receivers": ["otlp"], "exporters": ["file", "prometheus"]}},
            },
        });
        let path = self.folder.path().join("config.yaml");
        std::fs::write(&path, config.to_string()).expect("its configuration is written");
        let mut command = Command::new(installed("otelcol", "otelcol"));
        command.arg("--config").arg(&path);
        let mut process = Process::start("otelcol", &mut command, self.folder.path());
        let (http, url) = (http(), format!("http://{}/", loopback(self.health)));
        let ready = async || answers(&http, &url).await;
        wait_ready("the Collector", &mut process, ready).await;
        self.process = Some(process);
    }

    /// Where it takes OTLP over gRPC.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.grpc)
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) {
        self.process.take().expect("the Collector runs").kill();
    }

    /// It takes connections and answers nothing.
    pub(crate) fn pause(&self) {
        let process = self.process.as_ref().expect("the Collector runs");
        process.signal(Signal::STOP);
    }

    /// It goes on.
    pub(crate) fn resume(&self) {
        let process = self.process.as_ref().expect("the Collector runs");
        process.signal(Signal::CONT);
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("received.json")
    }

    /// The requests it received, oldest first, as OTLP JSON; only the newest of a long file.
    pub(crate) fn requests(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.file()).unwrap_or_default();
        let mut newest: Vec<Value> = text
            .lines()
            .rev()
            // The last line may be half written.
            .filter_map(|line| serde_json::from_str(line).ok())
            .take(50)
            .collect();
        newest.reverse();
        newest
    }

    /// What its Prometheus exporter shows.
    pub(crate) async fn scrape(&self) -> Result<String, String> {
        let url = format!("http://127.0.0.1:{}/metrics", self.prometheus);
        let answer = http().get(&url).send().await;
        let answer = answer.map_err(|error| format!("{url}: {error}"))?;
        answer.text().await.map_err(|error| error.to_string())
    }
}
