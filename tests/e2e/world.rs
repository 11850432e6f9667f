//! A control plane, a Collector and the program, and the one check that every step of a scenario
//! ends with: whole families, in a scrape, in what the Collector received and in what it shows.

use std::time::Duration;

use serde_json::{Value, json};

use crate::ledger::{FAMILIES, Ledger, Span};
use crate::never_back::NeverBack;
use crate::objects::{self, NAMESPACE, jobset_path, node_path, placed};
use crate::program::{End, Program, Settings};
use crate::samples::{collector_exposition, newest_push};
use crate::servers::api::{Api, JOBSETS, Recording};
use crate::servers::collector::Collector;
use crate::servers::control_plane::{ControlPlane, Parts};
use crate::servers::gke::Gke;
use crate::servers::{eventually, now};

/// Within this a state that has settled is shown, on a machine that is busy.
const SETTLED: Duration = Duration::from_mins(1);

/// Everything a scenario plays in. The program ends before what it uses.
pub(crate) struct World {
    /// The program.
    pub(crate) program: Program,
    /// The Collector that it pushes to.
    pub(crate) collector: Collector,
    /// Every version of the JobSets, where they are installed.
    pub(crate) jobsets: Option<Recording>,
    /// Every version of the nodes.
    pub(crate) nodes: Recording,
    /// What should be published.
    pub(crate) ledger: Ledger,
    /// From when to when the program was away while JobSets changed.
    pub(crate) away: Option<(f64, f64)>,
    /// What has been shown and must not go back.
    pub(crate) never_back: NeverBack,
    /// The cluster.
    pub(crate) plane: ControlPlane,
}

impl World {
    /// Starts everything.
    pub(crate) async fn start(parts: Parts, gke: Option<&Gke>, settings: &Settings) -> Self {
        let (plane, collector) = tokio::join!(ControlPlane::start(parts), Collector::start());
        let jobsets = if parts.jobset {
            Some(plane.api.record(&format!("{JOBSETS}/jobsets")).await)
        } else {
            None
        };
        Self {
            program: Program::start(&plane, Some(&collector), gke, settings).await,
            collector,
            jobsets,
            nodes: plane.api.record("/api/v1/nodes").await,
            ledger: Ledger::default(),
            away: None,
            never_back: NeverBack::default(),
            plane,
        }
    }

    /// The API.
    pub(crate) fn api(&self) -> &Api {
        &self.plane.api
    }

    /// Every version of the JobSets.
    pub(crate) fn jobsets(&self) -> &Recording {
        self.jobsets.as_ref().expect("JobSets are installed")
    }

    /// One scrape that shows the ledger and nothing else.
    pub(crate) async fn scrape_shows_it(&mut self, step: &str) {
        let Self {
            program,
            ledger,
            never_back,
            ..
        } = self;
        eventually(SETTLED, &format!("{step}: the scrape"), async || {
            let observed = program.scrape().await?;
            if let Err(back) = never_back.check(&observed) {
                panic!("{step}: {back}");
            }
            ledger.compare(&observed)
        })
        .await;
    }

    /// What was pushed from now on shows the ledger and nothing else.
    pub(crate) async fn collector_shows_it(&mut self, step: &str) {
        let begun = now();
        let Self {
            collector, ledger, ..
        } = self;
        eventually(SETTLED, &format!("{step}: the push"), async || {
            let observed = newest_push(&collector.requests())?;
            if observed.now.0 < begun {
                return Err(format!("no push for {:.1} s", now() - observed.now.1));
            }
            ledger.compare(&observed)
        })
        .await;
        let what = format!("{step}: the Collector's Prometheus exporter");
        eventually(SETTLED, &what, async || {
            let text = collector.scrape().await?;
            ledger.compare(&collector_exposition(&text, &FAMILIES)?)
        })
        .await;
    }

    /// The check of a step, and again after each of these restarts.
    pub(crate) async fn check(&mut self, step: &str, restarts: &[End]) {
        self.scrape_shows_it(step).await;
        self.collector_shows_it(step).await;
        for end in restarts {
            self.program.restart(*end).await;
            let step = format!("{step}, after {end:?}");
            self.scrape_shows_it(&step).await;
            self.collector_shows_it(&step).await;
        }
    }

    /// Creates nodes and waits until they are Ready. Returns when the first was created and since
    /// when all have been Ready.
    pub(crate) async fn join_nodes(
        &self,
        nodes: &[&str],
        pool: &str,
        jobset: Option<&str>,
    ) -> (Span, Span) {
        for name in nodes {
            let node = objects::node(name, pool, jobset);
            self.api().create("/api/v1/nodes", &node).await;
        }
        let mut oldest: Option<Span> = None;
        for name in nodes {
            let node = eventually(SETTLED, "the node", async || self.nodes.latest(name)).await;
            let at = objects::created(&node);
            oldest = Some(oldest.map_or(at, |oldest| oldest.min(at)));
        }
        let (_, since) = self.nodes_are(nodes, "True").await;
        (oldest.expect("nodes"), since)
    }

    /// Waits until the nodes' Ready condition is this; the first and the last instant at which one
    /// became it.
    pub(crate) async fn nodes_are(&self, nodes: &[&str], status: &str) -> (Span, Span) {
        let (mut first, mut last): (Option<Span>, Option<Span>) = (None, None);
        for name in nodes {
            let what = format!("the node {name} is {status}");
            let at = eventually(SETTLED, &what, async || {
                objects::ready_is(&self.nodes.latest(name)?, status)
            })
            .await;
            first = Some(first.map_or(at, |first| first.min(at)));
            last = Some(last.map_or(at, |last| last.max(at)));
        }
        (first.expect("nodes"), last.expect("nodes"))
    }

    /// A node's kubelet says that it is not ready, or is again; since when.
    pub(crate) async fn set_ready(&self, node: &str, ready: bool) -> Span {
        let mark = if ready { Value::Null } else { json!("true") };
        let patch = json!({"metadata": {"annotations": {"e2e/not-ready": mark}}});
        let patched = self.api().merge(&node_path(node), &patch).await;
        patched.expect("the node is annotated");
        let status = if ready { "True" } else { "False" };
        self.nodes_are(&[node], status).await.1
    }

    /// Deletes a node and says when its end was seen.
    pub(crate) async fn delete_node(&self, node: &str) -> Span {
        self.api().delete(&node_path(node)).await;
        let at = eventually(SETTLED, "the node is deleted", async || {
            match self.nodes.of(node).pop() {
                Some(seen) if seen.deleted => Ok(seen.at),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        Span::seen(at)
    }

    /// Waits until the newest version of a JobSet is as wanted.
    pub(crate) async fn jobset_is(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        eventually(SETTLED, &format!("the JobSet {name} {what}"), async || {
            let jobset = self.jobsets().latest(name)?;
            if wanted(&jobset) {
                Ok(jobset)
            } else {
                Err(format!("its status: {}", jobset["status"]))
            }
        })
        .await
    }

    /// Brings a JobSet's entry, and which leader pods run on which pool, up to what the API has.
    pub(crate) async fn account_for_jobset(&mut self, name: &str) {
        let entry = objects::jobset_entry(&self.jobsets().of(name), self.away);
        self.ledger.add(&format!("jobset {name}"), entry);
        self.account_for_pods().await;
    }

    /// Brings the leader pods on pools up to what the API has.
    pub(crate) async fn account_for_pods(&mut self) {
        let mut scheduled = std::collections::BTreeSet::new();
        for pod in self.pods().await {
            if let Some((node, job, jobset, true)) = placed(&pod) {
                let node = self.nodes.latest(&node).expect("the pod's node");
                let pool = &node["metadata"]["labels"]["cloud.google.com/gke-nodepool"];
                let pool = pool.as_str().expect("the node's pool").to_owned();
                scheduled.insert([pool, job, jobset]);
            }
        }
        self.ledger.scheduled = scheduled;
    }

    /// The pods.
    pub(crate) async fn pods(&self) -> Vec<Value> {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods");
        self.api().list(&path).await
    }

    /// A pod ends, as its kubelet would say.
    pub(crate) async fn end_pod(&self, pod: &Value, phase: &str) {
        let name = pod["metadata"]["name"].as_str().expect("a name");
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}/status");
        let patch = json!({"status": {"phase": phase}});
        let patched = self.api().merge(&path, &patch).await;
        patched.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Every pod of a JobSet succeeds, and it completes.
    pub(crate) async fn complete(&self, jobset: &str) {
        for pod in self.pods().await {
            if pod["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] == jobset {
                self.end_pod(&pod, "Succeeded").await;
            }
        }
        let done = |jobset: &Value| jobset["status"]["terminalState"] == "Completed";
        self.jobset_is(jobset, "completes", done).await;
    }

    /// New pods find no place on these nodes, or do again.
    pub(crate) async fn cordon(&self, nodes: &[&str], cordoned: bool) {
        for node in nodes {
            let patch = json!({"spec": {"unschedulable": cordoned}});
            let patched = self.api().merge(&node_path(node), &patch).await;
            patched.unwrap_or_else(|error| panic!("{error}"));
        }
        // The scheduler goes by the node as it was last told of it.
        let tainted = |node: &Value| {
            node.to_string()
                .contains("node.kubernetes.io/unschedulable")
        };
        for node in nodes {
            eventually(SETTLED, "the node is cordoned", async || {
                if tainted(&self.nodes.latest(node)?["spec"]) == cordoned {
                    Ok(())
                } else {
                    Err((*node).to_owned())
                }
            })
            .await;
        }
    }

    /// Deletes a JobSet and waits until its pods are gone too.
    pub(crate) async fn delete_jobset(&self, name: &str) {
        self.api().delete(&jobset_path(name)).await;
        eventually(SETTLED, "the JobSet is gone", async || {
            match self.jobsets().latest(name) {
                Err(_) => Ok(()),
                Ok(jobset) => Err(jobset["metadata"].to_string()),
            }
        })
        .await;
        eventually(SETTLED, "its pods are gone", async || {
            let left = self.pods().await;
            let of_it =
                |pod: &&Value| pod["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] == name;
            match left.iter().filter(of_it).count() {
                0 => Ok(()),
                left => Err(format!("{left} pods are left")),
            }
        })
        .await;
    }

    /// Waits until a whole second has passed since an instant: the API's times are whole seconds.
    pub(crate) async fn next_second(&self) {
        let until = now() + 1.1;
        eventually(SETTLED, "the clock moves", async || {
            if now() > until {
                Ok(())
            } else {
                Err(String::new())
            }
        })
        .await;
    }
}
