//! A real Prometheus that scrapes one target, and promtool.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::control_plane::{answers, wait_ready};
use super::process::Process;
use super::{free_port, http, installed, scratch};

/// A Prometheus that scrapes every second.
pub(crate) struct Prometheus {
    _process: Process,
    port: u16,
    _folder: TempDir,
}

impl Prometheus {
    /// Starts it on a target `HOST:PORT` and waits until it is ready.
    pub(crate) async fn start(target: &str) -> Self {
        let (folder, port) = (scratch(), free_port());
        let config = json!({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
            "scrape_configs": [{"job_name": "megamon", "static_configs": [{"targets": [target]}]}],
        });
        let path = folder.path().join("prometheus.yml");
        std::fs::write(&path, config.to_string()).expect("its configuration is written");
        let mut command = Command::new(installed("prometheus", "prometheus"));
        command
            .arg(format!("--config.file={}", path.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.path().join("data").display()
            ))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"));
        let mut process = Process::start("prometheus", &mut command, folder.path());
        let (http, url) = (http(), format!("http://127.0.0.1:{port}/-/ready"));
        let ready = async || answers(&http, &url).await;
        wait_ready("Prometheus", &mut process, ready).await;
        Self {
            _process: process,
            port,
            _folder: folder,
        }
    }

    /// The result of an instant query.
    pub(crate) async fn query(&self, query: &str) -> Result<Vec<Value>, String> {
        let url = format!("http://127.0.0.1:{}/api/v1/query", self.port);
        let request = http().get(&url).query(&[("query", query)]);
        let answer = request.send().await.map_err(|error| error.to_string())?;
        let answer: Value = answer.json().await.map_err(|error| error.to_string())?;
        let result = answer["data"]["result"].as_array().cloned();
        result.ok_or_else(|| format!("{query}: {answer}"))
    }

    /// The one number that an instant query comes to.
    pub(crate) async fn number(&self, query: &str) -> Result<f64, String> {
        let result = self.query(query).await?;
        let text = match result.as_slice() {
            [one] => one["value"][1].as_str().map(str::parse),
            _ => None,
        };
        match text {
            Some(Ok(number)) => Ok(number),
            _ => Err(format!("{query}: {result:?}")),
        }
    }
}

/// What `promtool check metrics` has to say of an exposition, line by line.
pub(crate) fn promtool_check_metrics(exposition: &str) -> Vec<String> {
    let mut child = Command::new(installed("prometheus", "promtool"))
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool starts");
    let mut input = child.stdin.take().expect("its input is a pipe");
    let written = input.write_all(exposition.as_bytes());
    drop(input);
    let output = child.wait_with_output().expect("promtool ends");
    written.expect("promtool reads it all");
    let mut lines: Vec<String> = [output.stdout, output.stderr]
        .iter()
        .flat_map(|text| {
            let text = String::from_utf8_lossy(text);
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .filter(|line| !line.trim().is_empty())
        .collect();
    if lines.is_empty() && !output.status.success() {
        lines.push(format!("promtool ended with {}", output.status));
    }
    lines
}
