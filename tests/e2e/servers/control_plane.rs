//! A whole Kubernetes control plane: etcd, the API server, and on demand the controller manager,
//! the scheduler, kwok in the place of kubelets, and the JobSet controller with its webhooks.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rcgen::ExtendedKeyUsagePurpose;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::api::Api;
use super::pki::Pki;
use super::process::Process;
use super::{eventually, free_port, http, installed, scratch};

/// Nothing here takes longer, on a machine that builds something else at the same time.
const PATIENCE: Duration = Duration::from_secs(90);

/// What runs beside etcd and the API server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    /// The controller manager and the scheduler.
    pub(crate) controllers: bool,
    /// kwok: nodes become Ready, pods run.
    pub(crate) kwok: bool,
    /// The JobSet CRD, controller and webhooks.
    pub(crate) jobset: bool,
    /// A node whose kubelet is silent goes Unknown after 6 s, else after 5 min.
    pub(crate) quick_unknown: bool,
}

impl Parts {
    /// Everything.
    pub(crate) const ALL: Self = Self {
        controllers: true,
        kwok: true,
        jobset: true,
        quick_unknown: false,
    };
    /// Nodes that live and die.
    pub(crate) const NODES: Self = Self {
        controllers: true,
        kwok: true,
        jobset: false,
        quick_unknown: true,
    };
    /// The API alone.
    pub(crate) const API: Self = Self {
        controllers: false,
        kwok: false,
        jobset: false,
        quick_unknown: false,
    };
}

/// A running control plane. Its servers end when it is dropped, those that use others first.
pub(crate) struct ControlPlane {
    /// The API, as the administrator.
    pub(crate) api: Api,
    parts: Parts,
    jobset: Option<Process>,
    kwok: Option<Process>,
    scheduler: Option<Process>,
    controller_manager: Option<Process>,
    api_server: Option<Process>,
    _etcd: Process,
    pki: Pki,
    port: u16,
    etcd_port: u16,
    folder: TempDir,
}

impl ControlPlane {
    /// Starts it and waits until all parts are ready.
    pub(crate) async fn start(parts: Parts) -> Self {
        let folder = scratch();
        let at = folder.path();
        let pki = Pki::create(&at.join("pki"));
        let (port, etcd_port) = (free_port(), free_port());
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "e2e",
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "admin"}}],
            "clusters": [{"name": "e2e", "cluster": {
                "server": format!("https://127.0.0.1:{port}"), "certificate-authority": pki.path("ca.crt")}}],
            "users": [{"name": "admin", "user": {
                "client-certificate": pki.path("admin.crt"), "client-key": pki.path("admin.key")}}],
        });
        // JSON is YAML too.
        let path = at.join("kubeconfig");
        std::fs::write(&path, kubeconfig.to_string()).expect("the kubeconfig is written");
        let etcd = start_etcd(at, etcd_port);
        let mut plane = Self {
            api: Api::connect(&path).await,
            parts,
            jobset: None,
            kwok: None,
            scheduler: None,
            controller_manager: None,
            api_server: None,
            _etcd: etcd,
            pki,
            port,
            etcd_port,
            folder,
        };
        plane.start_api_server().await;
        if parts.jobset {
            plane.install_jobset_crd().await;
        }
        if parts.controllers {
            plane.start_controllers();
        }
        if parts.kwok {
            plane.start_kwok();
        }
        if parts.jobset {
            plane.start_jobset().await;
        }
        if parts.controllers {
            let account = "/api/v1/namespaces/default/serviceaccounts/default";
            eventually(PATIENCE, "the controllers work", async || {
                plane.api.get(account).await
            })
            .await;
        }
        plane
    }

    /// The administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    fn logs(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Runs kubectl; what it prints, or what it complains of.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        let output = Command::new(installed("kubectl", "kubectl"))
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(arguments)
            .output()
            .map_err(|error| error.to_string())?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    /// Starts the API server (again, on the same port and data) and waits until it is ready.
    pub(crate) async fn start_api_server(&mut self) {
        let mut command = Command::new(installed("kube", "kube-apiserver"));
        command
            .arg(format!(
                "--etcd-servers=http://127.0.0.1:{}",
                self.etcd_port
            ))
            .arg(flag("cert-dir", &self.folder.path().join("pki")))
            .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
            .arg(format!("--secure-port={}", self.port))
            .arg("--endpoint-reconciler-type=none")
            .arg(flag("tls-cert-file", &self.pki.path("server.crt")))
            .arg(flag("tls-private-key-file", &self.pki.path("server.key")))
            .arg(flag("client-ca-file", &self.pki.path("ca.crt")))
            .arg(format!(
                "--service-account-issuer=https://127.0.0.1:{}/",
                self.port
            ))
            .arg(flag("service-account-key-file", &self.pki.path("sa.pub")))
            .arg(flag(
                "service-account-signing-key-file",
                &self.pki.path("sa.key"),
            ))
            .arg("--service-cluster-ip-range=10.0.0.0/24")
            .arg("--authorization-mode=Node,RBAC")
            // Without a controller manager no namespace has a service account to check for.
            .arg("--disable-admission-plugins=ServiceAccount");
        let mut server = Process::start("kube-apiserver", &mut command, &self.logs());
        let ready = async || self.api.ready().await;
        wait_ready("the API server", &mut server, ready).await;
        self.api_server = Some(server);
    }

    /// Ends the API server at once; its data stay.
    pub(crate) fn kill_api_server(&mut self) {
        self.api_server.take().expect("the API server runs").kill();
    }

    /// The API server stops working on anything, with its connections open.
    pub(crate) fn pause_api_server(&self) {
        let server = self.api_server.as_ref().expect("the API server runs");
        server.signal(Signal::STOP);
    }

    /// The API server goes on.
    pub(crate) fn resume_api_server(&self) {
        let server = self.api_server.as_ref().expect("the API server runs");
        server.signal(Signal::CONT);
    }

    fn start_controllers(&mut self) {
        let mut command = Command::new(installed("kube", "kube-controller-manager"));
        command
            .arg(flag("kubeconfig", &self.kubeconfig()))
            .args([
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
                "--secure-port=0",
            ])
            .arg(flag("cert-dir", &self.folder.path().join("pki")))
            .arg("--use-service-account-credentials=false")
            .arg(flag(
                "service-account-private-key-file",
                &self.pki.path("sa.key"),
            ))
            .arg(flag("root-ca-file", &self.pki.path("ca.crt")))
            .args(["--kube-api-qps=500", "--kube-api-burst=500"]);
        // A pod whose node is deleted stays: no test waits for the minute after which it would go.
        command.arg("--controllers=*,-pod-garbage-collector-controller");
        if self.parts.quick_unknown {
            command.args(["--node-monitor-period=1s", "--node-monitor-grace-period=6s"]);
        } else {
            command.arg("--node-monitor-grace-period=5m");
        }
        let logs = self.logs();
        let manager = Process::start("kube-controller-manager", &mut command, &logs);
        self.controller_manager = Some(manager);
        let mut command = Command::new(installed("kube", "kube-scheduler"));
        command
            .arg(flag("kubeconfig", &self.kubeconfig()))
            .args([
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
                "--secure-port=0",
            ])
            .arg(flag("cert-dir", &self.folder.path().join("pki")))
            .args(["--kube-api-qps=500", "--kube-api-burst=500"]);
        self.scheduler = Some(Process::start("kube-scheduler", &mut command, &logs));
    }

    /// Starts kwok (again): the kubelets live.
    pub(crate) fn start_kwok(&mut self) {
        let stages = self.folder.path().join("kwok-stages.yaml");
        let text = include_str!("../../servers/kwok-stages.yaml");
        std::fs::write(&stages, text).expect("the stages are written");
        let lease = if self.parts.quick_unknown { 4 } else { 40 };
        let mut command = Command::new(installed("kwok", "kwok"));
        command
            .arg(flag("kubeconfig", &self.kubeconfig()))
            .arg(flag("config", &stages))
            .arg("--manage-all-nodes=true")
            .arg(format!("--node-lease-duration-seconds={lease}"))
            // It looks for its own configuration in the home folder.
            .env("HOME", self.folder.path());
        self.kwok = Some(Process::start("kwok", &mut command, &self.logs()));
    }

    /// Ends kwok at once: the kubelets are silent.
    pub(crate) fn kill_kwok(&mut self) {
        self.kwok.take().expect("kwok runs").kill();
    }

    /// Installs the CRD and waits until it is served.
    pub(crate) async fn install_jobset_crd(&self) {
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        for crd in documents(&installed("jobset", "crd.yaml")) {
            self.api.create(crds, &crd).await;
        }
        let list = format!("{}/jobsets", super::api::JOBSETS);
        eventually(PATIENCE, "the JobSet CRD", async || {
            self.api.get(&list).await
        })
        .await;
    }

    /// Starts the JobSet controller; its webhooks are registered once it answers.
    async fn start_jobset(&mut self) {
        let (webhooks, health) = (free_port(), free_port());
        let certificates = self.folder.path().join("pki/jobset");
        std::fs::create_dir_all(&certificates).expect("the folder of its certificate");
        let usage = ExtendedKeyUsagePurpose::ServerAuth;
        self.pki.issue("jobset/tls", "jobset-webhook", None, usage);
        let config = json!({
            "apiVersion": "config.jobset.x-k8s.io/v1alpha1", "kind": "Configuration",
            "leaderElection": {"leaderElect": false},
            "internalCertManagement": {"enable": false},
            "webhook": {"host": "127.0.0.1", "port": webhooks, "certDir": certificates},
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": format!("127.0.0.1:{health}")},
        });
        let path = self.folder.path().join("jobset.yaml");
        std::fs::write(&path, config.to_string()).expect("its configuration is written");
        let namespace = json!({"metadata": {"name": "jobset-system"}});
        self.api.create("/api/v1/namespaces", &namespace).await;
        let mut command = Command::new(installed("jobset", "jobset"));
        command
            .arg(flag("config", &path))
            .env("KUBECONFIG", self.kubeconfig());
        let mut server = Process::start("jobset", &mut command, &self.logs());
        let http = http();
        wait_ready("the JobSet controller", &mut server, async || {
            answers(&http, &format!("http://127.0.0.1:{health}/readyz")).await
        })
        .await;
        self.jobset = Some(server);
        let ca = self.pki.ca();
        for mut hooks in documents(&installed("jobset", "webhooks.yaml")) {
            let resource = point_webhooks_here(&mut hooks, webhooks, ca);
            let path = format!("/apis/admissionregistration.k8s.io/v1/{resource}");
            self.api.create(&path, &hooks).await;
        }
        // A JobSet that no webhook has defaulted makes the controller panic: wait until one does.
        let probe = json!({
            "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
            "metadata": {"name": "probe", "namespace": "default"},
            "spec": {"replicatedJobs": [{"name": "probe", "template": {"spec": {"template": {
                "spec": {"restartPolicy": "Never", "containers": [{"name": "probe", "image": "probe"}]}}}}}]},
        });
        let list = format!(
            "{}/namespaces/default/jobsets?dryRun=All",
            super::api::JOBSETS
        );
        eventually(PATIENCE, "the JobSet webhooks", async || {
            let kind = "application/json";
            let made = self
                .api
                .request(http::Method::POST, &list, kind, Some(&probe));
            let made = made.await?;
            if made["spec"]["successPolicy"].is_object() {
                return Ok(());
            }
            Err(format!("a new JobSet is not defaulted: {made}"))
        })
        .await;
    }
}

fn start_etcd(folder: &Path, port: u16) -> Process {
    let peers = free_port();
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    let mut command = Command::new(installed("etcd", "etcd"));
    command
        .arg(flag("data-dir", &folder.join("etcd")))
        .arg("--unsafe-no-fsync")
        .arg(format!("--listen-client-urls={}", url(port)))
        .arg(format!("--advertise-client-urls={}", url(port)))
        .arg(format!("--listen-peer-urls={}", url(peers)))
        .arg(format!("--initial-advertise-peer-urls={}", url(peers)))
        .arg(format!("--initial-cluster=default={}", url(peers)));
    Process::start("etcd", &mut command, &folder.join("log"))
}

fn flag(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}

/// The documents of a YAML file.
fn documents(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("the file is readable");
    let all: Vec<Value> = serde_saphyr::from_multiple(&text).expect("the file is YAML");
    all.into_iter().filter(Value::is_object).collect()
}

/// Webhooks of a service become webhooks of a port here; those for pods look at pods of JobSets
/// alone. Returns the resource of the configuration.
fn point_webhooks_here(hooks: &mut Value, port: u16, ca: &str) -> &'static str {
    let bundle = json!(k8s_openapi::ByteString(ca.as_bytes().to_vec()));
    let (name, resource) = match hooks["kind"].as_str() {
        Some("MutatingWebhookConfiguration") => ("mutating", "mutatingwebhookconfigurations"),
        _ => ("validating", "validatingwebhookconfigurations"),
    };
    hooks["metadata"]["name"] = json!(format!("jobset-{name}"));
    for hook in hooks["webhooks"].as_array_mut().into_iter().flatten() {
        let path = hook["clientConfig"]["service"]["path"].clone();
        let path = path.as_str().expect("a webhook has a path");
        let url = format!("https://127.0.0.1:{port}{path}");
        hook["clientConfig"] = json!({"url": url, "caBundle": bundle});
        if hook["name"]
            .as_str()
            .is_some_and(|name| name.contains("pod"))
        {
            hook["objectSelector"] = json!({"matchExpressions": [
                {"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]});
        }
    }
    resource
}

/// Waits until the probe succeeds; a server that ends meanwhile is said at once.
pub(crate) async fn wait_ready(
    what: &str,
    server: &mut Process,
    mut probe: impl AsyncFnMut() -> Result<(), String>,
) {
    eventually(PATIENCE, what, async || {
        if let Err(ended) = server.alive() {
            panic!("{ended}");
        }
        probe().await
    })
    .await;
}

/// Whether a URL answers 200.
pub(crate) async fn answers(http: &reqwest::Client, url: &str) -> Result<(), String> {
    let answer = http.get(url).send().await;
    let answer = answer.map_err(|error| format!("{url}: {error}"))?;
    if answer.status().is_success() {
        return Ok(());
    }
    let status = answer.status();
    let body = answer.text().await.unwrap_or_default();
    Err(format!("{url}: {status}: {body}"))
}
