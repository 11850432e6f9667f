//! Which of several origins counts: flag, then environment, then file, then default.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::fixture;
use crate::config::{
    Availability, Cluster, Config, Flags, Gke, History, LabelPools, Limits, Log, LogFormat,
    NodePools, Otlp, Report, Tls, Traces, Workloads, check, load,
};

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

/// What `tests/config/full.yaml` means.
fn full() -> Config {
    Config {
        prefix: "fleet.megamon".to_owned(),
        metrics_address: "127.0.0.1:9090".parse().unwrap(),
        probe_address: "[::1]:9091".parse().unwrap(),
        otlp: Some(Otlp {
            endpoint: "https://collector.example:4317".to_owned(),
            interval: Duration::from_secs(90),
            timeout: Duration::from_millis(2500),
            headers: map(&[("authorization", "Bearer secret"), ("x-tenant", "12")]),
            gzip: true,
            tls: Tls {
                ca: Some("/tls/ca.pem".into()),
                certificate: Some("/tls/client.pem".into()),
                key: Some("/tls/client.key".into()),
            },
        }),
        traces: Some(Traces {
            otlp: Otlp {
                timeout: Duration::from_secs(1),
                headers: map(&[("x-scope", "megamon")]),
                ..Otlp::at("http://tempo:4317")
            },
            sample_ratio: 0.25,
        }),
        cluster: Cluster {
            kubeconfig: Some("/etc/kubeconfig".into()),
            context: Some("fleet".to_owned()),
            name: Some("fleet-1".to_owned()),
        },
        resource: map(&[("service.namespace", "fleet")]),
        history: History {
            url: "memory:".to_owned(),
            commit_interval: Duration::from_millis(250),
            retention: Duration::from_hours(7 * 24),
        },
        node_pools: NodePools {
            labels: Some(LabelPools {
                labels: vec!["example.com/pool".to_owned()],
                resources: vec!["example.com/accelerator".to_owned()],
                sizes: [("pool-1".to_owned(), 16)].into(),
                empty_after: Duration::from_hours(2),
            }),
            gke: Some(Gke {
                project: Some("project-1".to_owned()),
                location: Some("us-central1".to_owned()),
                cluster: Some("cluster-1".to_owned()),
                endpoint: Some("http://127.0.0.1:8090".to_owned()),
                interval: Duration::from_secs(5),
            }),
        },
        workloads: Workloads {
            jobsets: false,
            slices: true,
            leader_worker_sets: true,
        },
        availability: Availability {
            unknown_threshold: 0.5,
            unknown_deadline: Duration::from_mins(1),
        },
        limits: Limits {
            objects_per_family: 20,
        },
        report: Report {
            interval: Duration::from_secs(10),
            stdout: true,
            config_map: Some(("megamon-system".to_owned(), "megamon-report".to_owned())),
        },
        log: Log {
            format: LogFormat::Json,
            level: "info,megamon::watch=debug".to_owned(),
        },
    }
}

#[test]
fn every_setting_of_a_file_arrives() {
    assert_eq!(check(&fixture("full.yaml")).unwrap(), full());
}

#[test]
fn no_secret_is_printed() {
    let text = format!("{:?}", full());
    assert!(
        text.contains("authorization") && !text.contains("secret"),
        "{text}"
    );
}

/// One row: variables, flags, and what they change of the file's configuration.
type Row = (
    &'static [(&'static str, &'static str)],
    Flags,
    fn(&mut Config),
);

fn otlp(config: &mut Config) -> &mut Otlp {
    config.otlp.as_mut().unwrap()
}

fn traces(config: &mut Config) -> &mut Traces {
    config.traces.as_mut().unwrap()
}

fn run(base: &Config, file: &str, table: Vec<Row>) {
    for (variables, flags, change) in table {
        let environment = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let mut expected = base.clone();
        change(&mut expected);
        let file: PathBuf = fixture(file);
        let config = load(Some(&file), &flags, &environment).unwrap();
        assert_eq!(config, expected, "{variables:?} {flags:?}");
    }
}

#[test]
fn flag_before_environment_before_file() {
    let none = Flags::default;
    let some = |value: &str| Some(value.to_owned());
    let table: Vec<Row> = vec![
        (&[], none(), |_| {}),
        (&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")], none(), |_| {}),
        (
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "https://e:1")],
            none(),
            |c| {
                otlp(c).endpoint = "https://e:1".to_owned();
                traces(c).otlp.endpoint = "https://e:1".to_owned();
            },
        ),
        (
            &[
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://e:1"),
                ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "https://m:2/"),
                ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://t:3"),
            ],
            none(),
            |c| {
                otlp(c).endpoint = "https://m:2".to_owned();
                traces(c).otlp.endpoint = "https://t:3".to_owned();
            },
        ),
        (
            &[("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "https://m:2")],
            Flags {
                otlp_endpoint: some("https://f:4"),
                ..none()
            },
            |c| otlp(c).endpoint = "https://f:4".to_owned(),
        ),
        (&[("OTEL_METRIC_EXPORT_INTERVAL", "1500")], none(), |c| {
            otlp(c).interval = Duration::from_millis(1500);
        }),
        (
            &[("OTEL_METRIC_EXPORT_INTERVAL", "1500")],
            Flags {
                otlp_interval: some("2s"),
                ..none()
            },
            |c| otlp(c).interval = Duration::from_secs(2),
        ),
        (
            &[
                ("OTEL_EXPORTER_OTLP_TIMEOUT", "700"),
                ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "800"),
                ("OTEL_EXPORTER_OTLP_COMPRESSION", "none"),
                ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ],
            none(),
            |c| {
                otlp(c).timeout = Duration::from_millis(700);
                otlp(c).gzip = false;
                traces(c).otlp.timeout = Duration::from_millis(800);
            },
        ),
        (
            &[(
                "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
                "Authorization=Basic%20x,y=1, z = a=b ,",
            )],
            none(),
            |c| {
                otlp(c).headers = map(&[
                    ("authorization", "Basic x"),
                    ("x-tenant", "12"),
                    ("y", "1"),
                    ("z", "a=b"),
                ]);
            },
        ),
        (
            &[
                ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/e/ca"),
                ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/e/c"),
                ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/e/k"),
            ],
            none(),
            |c| {
                let tls = Tls {
                    ca: Some("/e/ca".into()),
                    certificate: Some("/e/c".into()),
                    key: Some("/e/k".into()),
                };
                otlp(c).tls = tls.clone();
                traces(c).otlp.tls = tls;
            },
        ),
        (
            &[
                (
                    "OTEL_RESOURCE_ATTRIBUTES",
                    "service.name=a,service.namespace=b%2Cc",
                ),
                ("OTEL_SERVICE_NAME", "s"),
            ],
            none(),
            |c| c.resource = map(&[("service.name", "s"), ("service.namespace", "b,c")]),
        ),
        (&[("OTEL_SDK_DISABLED", "TRUE")], none(), |c| {
            c.otlp = None;
            c.traces = None;
        }),
        (&[("OTEL_SDK_DISABLED", "false")], none(), |_| {}),
        (&[("OTEL_METRICS_EXPORTER", "none")], none(), |c| {
            c.otlp = None;
        }),
        (&[("OTEL_METRICS_EXPORTER", "prometheus")], none(), |c| {
            c.otlp = None;
        }),
        (
            &[("OTEL_METRICS_EXPORTER", "prometheus,otlp")],
            none(),
            |_| {},
        ),
        (
            &[("OTEL_METRICS_EXPORTER", "none")],
            Flags {
                otlp_endpoint: some("https://f:4"),
                ..none()
            },
            |c| otlp(c).endpoint = "https://f:4".to_owned(),
        ),
        (&[("OTEL_TRACES_EXPORTER", "none")], none(), |c| {
            c.traces = None;
        }),
        (
            &[
                ("OTEL_TRACES_EXPORTER", "none"),
                ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t:1"),
            ],
            none(),
            |c| c.traces = None,
        ),
        (&[("KUBECONFIG", "/a:/b")], none(), |c| {
            c.cluster.kubeconfig = None;
        }),
        (
            &[("KUBECONFIG", "/a:/b")],
            Flags {
                kubeconfig: some("/f"),
                ..none()
            },
            |c| c.cluster.kubeconfig = Some("/f".into()),
        ),
        (&[("RUST_LOG", "debug")], none(), |c| {
            c.log.level = "debug".to_owned();
        }),
        (
            &[("RUST_LOG", "debug")],
            Flags {
                log_level: some("warn"),
                log_format: some("human"),
                ..none()
            },
            |c| {
                c.log.level = "warn".to_owned();
                c.log.format = LogFormat::Human;
            },
        ),
        (
            &[],
            Flags {
                metric_prefix: some("f"),
                metrics_address: some(":1"),
                probe_address: some("[::]:2"),
                context: some("f"),
                cluster_name: some("f"),
                history: some("file:///f"),
                ..none()
            },
            |c| {
                c.prefix = "f".to_owned();
                c.metrics_address = "0.0.0.0:1".parse().unwrap();
                c.probe_address = "[::]:2".parse().unwrap();
                c.cluster.context = Some("f".to_owned());
                c.cluster.name = Some("f".to_owned());
                c.history.url = "file:///f".to_owned();
            },
        ),
    ];
    run(&full(), "full.yaml", table);
}

#[test]
fn without_settings_nothing_is_pushed_unless_an_endpoint_is_given() {
    let none = Flags::default;
    let on = |c: &mut Config| c.otlp = Some(Otlp::at("http://e:1"));
    let table: Vec<Row> = vec![
        (&[], none(), |_| {}),
        (&[("OTEL_METRICS_EXPORTER", "otlp")], none(), |_| {}),
        (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://e:1")], none(), on),
        (
            &[("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://e:1")],
            none(),
            on,
        ),
        (
            &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://e:1")],
            none(),
            |c| {
                c.traces = Some(Traces {
                    otlp: Otlp::at("http://e:1"),
                    sample_ratio: 1.0,
                });
            },
        ),
        (
            &[
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://e:1"),
                ("OTEL_TRACES_EXPORTER", "otlp"),
            ],
            none(),
            |c| {
                c.otlp = Some(Otlp::at("http://e:1"));
                c.traces = Some(Traces {
                    otlp: Otlp::at("http://e:1"),
                    sample_ratio: 1.0,
                });
            },
        ),
        (
            &[
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://e:1"),
                ("OTEL_SDK_DISABLED", "true"),
            ],
            none(),
            |_| {},
        ),
    ];
    run(&Config::default(), "old-empty.json", table);
}

#[test]
fn traces_follow_the_metrics_but_show_their_token_to_no_other_receiver() {
    let base = "otlp: {endpoint: 'https://c:1', timeout: 3s, compression: gzip, headers: {a: b}, tls: {ca: /ca}}\n";
    let read = |text: &str| {
        let config = crate::config::parse("c.yaml", &format!("{base}traces: {text}")).unwrap();
        config.traces.unwrap().otlp
    };
    let same = Otlp {
        timeout: Duration::from_secs(3),
        gzip: true,
        headers: map(&[("a", "b")]),
        tls: Tls {
            ca: Some("/ca".into()),
            ..Tls::default()
        },
        ..Otlp::at("https://c:1")
    };
    assert_eq!(read("{enabled: true}"), same);
    let other = Otlp {
        endpoint: "https://t:2".to_owned(),
        headers: BTreeMap::new(),
        tls: Tls::default(),
        ..same
    };
    assert_eq!(read("{enabled: true, endpoint: 'https://t:2'}"), other);
}
