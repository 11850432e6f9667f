//! The harness itself, without the program: that the servers are the real thing and do what the
//! scenarios rely on.

use std::time::Duration;

use serde_json::{Value, json};

use crate::objects::{self, NAMESPACE, jobset_path};
use crate::samples::{collector_exposition, newest_push};
use crate::servers::api::JOBSETS;
use crate::servers::collector::Collector;
use crate::servers::control_plane::{ControlPlane, Parts};
use crate::servers::gke::Gke;
use crate::servers::prometheus::{Prometheus, promtool_check_metrics};
use crate::servers::{eventually, free_port, http};

const PATIENCE: Duration = Duration::from_mins(1);

/// A JobSet is defaulted by the webhooks, made into Jobs and pods, scheduled, run, restarted when
/// a pod fails, completed when all succeed, and its nodes go Unknown when their kubelets are gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_jobset_lives_on_the_control_plane() {
    let mut parts = Parts::ALL;
    parts.quick_unknown = true;
    let mut plane = ControlPlane::start(parts).await;
    let nodes = plane.api.record("/api/v1/nodes").await;
    let list = format!("{JOBSETS}/namespaces/{NAMESPACE}/jobsets");
    let jobsets = plane.api.record(&list).await;
    let made = plane.api.create(&list, &objects::jobset("train", 1)).await;
    let startup = made["spec"]["startupPolicy"]["startupPolicyOrder"].clone();
    assert_eq!(startup, "AnyOrder", "the webhook gives defaults");
    for name in ["a-0", "a-1"] {
        let node = objects::node(name, "a", Some("train"));
        plane.api.create("/api/v1/nodes", &node).await;
    }
    eventually(PATIENCE, "the JobSet runs", async || {
        if objects::jobset_up(&jobsets.latest("train")?) {
            Ok(())
        } else {
            Err(jobsets.latest("train")?["status"].to_string())
        }
    })
    .await;

    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let end = async |phase: &str, count: usize| {
        for pod in plane.api.list(&pods).await.iter().take(count) {
            let name = pod["metadata"]["name"].as_str().expect("a name");
            let patch = json!({"status": {"phase": phase}});
            let path = format!("{pods}/{name}/status");
            plane.api.merge(&path, &patch).await.expect("the pod ends");
        }
    };
    end("Failed", 1).await;
    eventually(PATIENCE, "the JobSet is restarted and runs", async || {
        let jobset = jobsets.latest("train")?;
        if objects::jobset_up(&jobset) && jobset["status"]["restarts"] == 1 {
            Ok(())
        } else {
            Err(jobset["status"].to_string())
        }
    })
    .await;
    let entry = objects::jobset_entry(&jobsets.of("train"), None);
    assert!(
        entry.is_up(),
        "an interruption and a recovery were recorded"
    );

    end("Succeeded", 2).await;
    eventually(PATIENCE, "the JobSet completes", async || {
        let status = jobsets.latest("train")?["status"].clone();
        if status["terminalState"] == "Completed" {
            Ok(())
        } else {
            Err(status.to_string())
        }
    })
    .await;
    plane.api.delete(&jobset_path("train")).await;

    plane.kill_kwok();
    let is = async |status: &str| {
        eventually(PATIENCE, &format!("the nodes are {status}"), async || {
            objects::ready_is(&nodes.latest("a-0")?, status)?;
            objects::ready_is(&nodes.latest("a-1")?, status)
        })
        .await
    };
    is("Unknown").await;
    plane.start_kwok();
    is("True").await;
    let listed = plane.kubectl(&["get", "nodes", "-o", "name"]);
    assert_eq!(listed.as_deref(), Ok("node/a-0\nnode/a-1\n"));
}

/// The API server comes back on the same port with the same data.
#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_is_stopped_and_started_again() {
    let mut plane = ControlPlane::start(Parts::API).await;
    let nodes = plane.api.record("/api/v1/nodes").await;
    let create = async |plane: &ControlPlane, name: &str| {
        let node = objects::node(name, "a", None);
        plane.api.create("/api/v1/nodes", &node).await;
        eventually(PATIENCE, "the node is seen", async || nodes.latest(name)).await;
    };
    create(&plane, "a-0").await;
    plane.kill_api_server();
    plane.api.ready().await.expect_err("it is down");
    plane.start_api_server().await;
    create(&plane, "a-1").await;
    plane.pause_api_server();
    let hung = tokio::time::timeout(Duration::from_secs(1), plane.api.ready()).await;
    assert!(
        hung.is_err(),
        "a paused API server answers nothing: {hung:?}"
    );
    plane.resume_api_server();
    create(&plane, "a-2").await;
    assert_eq!(plane.api.list("/api/v1/nodes").await.len(), 3);
}

/// What is sent to the Collector is read back from its file and from its Prometheus exporter, and
/// Prometheus scrapes that.
#[tokio::test(flavor = "multi_thread")]
async fn a_collector_receives_and_prometheus_scrapes() {
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
    use opentelemetry_proto::tonic::common::v1::{
        AnyValue, InstrumentationScope, KeyValue, any_value,
    };
    use opentelemetry_proto::tonic::metrics::v1::{
        Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, metric, number_data_point,
    };

    let mut collector = Collector::start().await;
    let request = || {
        let nanoseconds = jiff::Timestamp::now().as_nanosecond();
        let point = NumberDataPoint {
            attributes: vec![KeyValue {
                key: "nodepool.name".to_owned(),
                value: Some(AnyValue {
                    value: Some(any_value::Value::StringValue("a".to_owned())),
                }),
                ..Default::default()
            }],
            time_unix_nano: u64::try_from(nanoseconds).expect("after 1970"),
            value: Some(number_data_point::Value::AsInt(1)),
            ..Default::default()
        };
        let gauge = Gauge {
            data_points: vec![point],
        };
        let metric = Metric {
            name: "megamon.alpha.nodepool.up".to_owned(),
            data: Some(metric::Data::Gauge(gauge)),
            ..Default::default()
        };
        let scope = InstrumentationScope {
            name: "megamon".to_owned(),
            ..Default::default()
        };
        let metrics = ScopeMetrics {
            scope: Some(scope),
            metrics: vec![metric],
            ..Default::default()
        };
        ExportMetricsServiceRequest {
            resource_metrics: vec![ResourceMetrics {
                scope_metrics: vec![metrics],
                ..Default::default()
            }],
        }
    };
    let send = async |endpoint: String| {
        let mut client = MetricsServiceClient::connect(endpoint)
            .await
            .expect("it listens");
        client.export(request()).await.expect("it takes metrics");
    };
    let name = "megamon_alpha_nodepool_up";
    let labels = [("nodepool_name", "a"), ("otel_scope_name", "megamon")];
    for _ in 0..2 {
        send(collector.endpoint()).await;
        eventually(PATIENCE, "the file", async || {
            newest_push(&collector.requests())?
                .samples
                .value(name, &labels)
        })
        .await;
        eventually(PATIENCE, "the exporter", async || {
            let text = collector.scrape().await?;
            let shown = collector_exposition(&text, &["megamon_alpha_nodepool_"])?;
            shown.samples.value(name, &labels)
        })
        .await;
        // What is not pushed again is gone two intervals later.
        eventually(PATIENCE, "it expires", async || {
            if collector.scrape().await?.contains(name) {
                Err("it is still shown".to_owned())
            } else {
                Ok(())
            }
        })
        .await;
        collector.kill();
        collector.restart().await;
    }

    let port = free_port();
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await;
    let page = "# HELP up_now Up.\n# TYPE up_now gauge\nup_now{name=\"a\"} 1\n";
    let app = axum::Router::new().route("/metrics", axum::routing::get(async move || page));
    let serving = tokio::spawn(async move {
        axum::serve(listener.expect("a free port"), app)
            .await
            .expect("it serves");
    });
    let prometheus = Prometheus::start(&format!("127.0.0.1:{port}")).await;
    eventually(PATIENCE, "Prometheus has it", async || {
        match prometheus.number("up_now").await? {
            1.0 => Ok(()),
            other => Err(other.to_string()),
        }
    })
    .await;
    serving.abort();
    assert_eq!(promtool_check_metrics(page), Vec::<String>::new());
    let bad = promtool_check_metrics("# TYPE a_count gauge\na_count 1\n");
    assert!(!bad.is_empty(), "promtool complains of what it should");
}

/// The stand-in answers as scripted.
#[tokio::test(flavor = "multi_thread")]
async fn the_gke_api_answers_as_scripted() {
    let gke = Gke::start().await;
    let url = format!(
        "{}/v1/projects/{}/locations/{}/clusters/{}/nodePools",
        gke.endpoint(),
        Gke::PROJECT,
        Gke::LOCATION,
        Gke::CLUSTER
    );
    let http = http();
    let get = async || {
        let answer = http.get(&url).send().await.expect("it listens");
        let status = answer.status().as_u16();
        (status, answer.json::<Value>().await.expect("JSON"))
    };
    assert_eq!(get().await, (200, json!({"nodePools": []})));
    gke.create_pool("a", "2026-01-01T00:00:00Z");
    gke.set_status("a", "RUNNING");
    let (_, pools) = get().await;
    assert_eq!(pools["nodePools"][0]["status"], "RUNNING");
    gke.failing(true);
    assert_eq!(get().await.0, 503);
    gke.failing(false);
    gke.remove_pool("a");
    assert_eq!(get().await, (200, json!({"nodePools": []})));
    assert_eq!(gke.calls(), 4);
}
