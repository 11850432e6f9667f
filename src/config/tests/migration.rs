//! The Go program's configuration becomes this one's.

use std::time::Duration;

use super::fixture;
use crate::config::{Cluster, Config, Gke, NodePools, Report, Workloads, migrate, parse};

#[test]
fn an_empty_file_takes_that_programs_defaults() {
    let migrated = migrate::file(&fixture("old-empty.json")).unwrap();
    let expected = Config {
        prefix: "megamon".to_owned(),
        node_pools: NodePools {
            labels: None,
            gke: Some(Gke {
                interval: Duration::from_secs(10),
                ..Gke::default()
            }),
        },
        report: Report {
            interval: Duration::from_secs(10),
            ..Report::default()
        },
        ..Config::default()
    };
    assert_eq!(parse("new.yaml", &migrated.yaml).unwrap(), expected);
    assert_eq!(
        migrated.notes,
        [
            "EventsBucketName: is not set, so there is no former history; it is kept at file:///var/lib/megamon/history"
        ]
    );
}

#[test]
fn a_full_file_is_carried_over_and_the_rest_is_said() {
    let migrated = migrate::file(&fixture("old-full.json")).unwrap();
    let expected = Config {
        prefix: "megamon.alpha".to_owned(),
        metrics_address: "127.0.0.1:9090".parse().unwrap(),
        probe_address: "0.0.0.0:9091".parse().unwrap(),
        cluster: Cluster {
            name: Some("fleet-1".to_owned()),
            ..Cluster::default()
        },
        node_pools: NodePools {
            labels: None,
            gke: Some(Gke {
                project: Some("fleet-project".to_owned()),
                location: Some("us-east5".to_owned()),
                cluster: Some("fleet-1".to_owned()),
                endpoint: None,
                interval: Duration::from_secs(3),
            }),
        },
        workloads: Workloads {
            jobsets: true,
            slices: true,
            leader_worker_sets: true,
        },
        availability: crate::config::Availability {
            unknown_threshold: 0.2,
            ..crate::config::Availability::default()
        },
        report: Report {
            interval: Duration::from_secs(3),
            stdout: true,
            config_map: Some(("fleet".to_owned(), "report".to_owned())),
        },
        ..Config::default()
    };
    assert_eq!(parse("new.yaml", &migrated.yaml).unwrap(), expected);
    assert!(
        migrated
            .yaml
            .contains("# history:\n#   url: \"gs://fleet-megamon/events/fleet-1\"\n"),
        "{}",
        migrated.yaml
    );
    assert_eq!(
        migrated.notes,
        [
            "Experiments: is no known key and is left out",
            "DisableNodePoolJobLabelling: labelling Jobs with their node pool is not supported by this version",
            "EnableLeaderElection: leader election is not supported by this version: run one replica",
            "SecureMetrics: protected no metrics there, and does not here: /metrics is served as plain HTTP",
            "EnableSimulation: is left out: there is no simulation here",
            "EnableHTTP2: is left out: metrics are served over HTTP/1.1",
            "SliceOwnerMapConfigMapRef.Namespace: is left out: the owners of slices are kept with the history",
            "SliceOwnerMapConfigMapRef.Name: is left out: the owners of slices are kept with the history",
            "OptionalControllerSuffix: is left out: nothing here has controllers that need a name",
            "EventsBucketName, EventsBucketPath: gs://fleet-megamon/events/fleet-1 is not supported by this version and is left as a comment; the history is kept at file:///var/lib/megamon/history",
        ]
    );
}

#[test]
fn the_path_of_the_bucket_follows_the_cluster() {
    for (gke, url) in [
        (r#"{"ClusterName": "c"}"#, "gs://b/megamon/clusters/c"),
        ("{}", "gs://b/megamon/clusters/<cluster>"),
    ] {
        let old = format!(r#"{{"eventsbucketname": "b", "GKE": {gke}}}"#);
        let migrated = migrate::migrate("old.json", &old).unwrap();
        assert!(
            migrated.yaml.contains(&format!("{url:?}")),
            "{}",
            migrated.yaml
        );
        parse("new.yaml", &migrated.yaml).unwrap();
    }
}

#[test]
fn the_report_goes_where_that_program_put_it() {
    let old = r#"{"Exporters": ["configmap"]}"#;
    let migrated = migrate::migrate("old.json", old).unwrap();
    let report = parse("new.yaml", &migrated.yaml).unwrap().report;
    assert_eq!(
        report.config_map,
        Some(("megamon-system".to_owned(), "megamon-report".to_owned()))
    );
}

#[test]
fn what_that_program_would_not_have_taken_is_refused() {
    for (old, said) in [
        ("[]", "1:1: document: a list is here, expected an object"),
        (r#"{"GKE": 1}"#, "1:9: GKE: 1 is here, expected an object"),
        (
            r#"{"MetricsPrefix": 1}"#,
            "1:19: MetricsPrefix: 1 is here, expected text",
        ),
        (
            r#"{"SliceEnabled": "x"}"#,
            "1:18: SliceEnabled: \"x\" is here, expected true or false",
        ),
        (
            r#"{"Exporters": ["otel"]}"#,
            "1:16: Exporters: \"otel\" is no exporter, expected stdout or configmap",
        ),
        (
            r#"{"UnknownCountThreshold": 2}"#,
            "1:27: UnknownCountThreshold: 2 is here, expected a number from 0 to 1",
        ),
        (
            r#"{"AggregationIntervalSeconds": 0}"#,
            "1:32: AggregationIntervalSeconds: 0 is here, expected a whole number of seconds, 1 to 86400",
        ),
    ] {
        let problems = migrate::migrate("old.json", old).unwrap_err();
        assert_eq!(problems.to_string(), format!("old.json:{said}"));
    }
}

#[test]
fn an_address_that_cannot_be_carried_is_said() {
    let old = r#"{"MetricsAddr": "0", "EventsBucketName": "b", "MetricsPrefix": null}"#;
    let migrated = migrate::migrate("old.json", old).unwrap();
    assert_eq!(
        migrated.notes.first().unwrap(),
        "MetricsAddr: \"0\" is no address here, expected an IP address and port, such as 0.0.0.0:8080; 0.0.0.0:8080 is used"
    );
    let config = parse("new.yaml", &migrated.yaml).unwrap();
    assert_eq!(config.metrics_address, Config::default().metrics_address);
    assert_eq!(config.prefix, "megamon");
}
