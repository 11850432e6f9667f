//! What is said of a configuration that is wrong, word for word.

use proptest::prelude::*;

use super::fixture;
use crate::config::load::load_or;
use crate::config::{Config, Flags, Problems, check, load, parse};

fn said(result: Result<Config, Problems>) -> Vec<String> {
    match result {
        Ok(_) => Vec::new(),
        Err(problems) => problems.0.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn every_problem_of_a_text_is_said() {
    // YAML in one line each; what is said, without the file's name.
    let table: &[(&str, &[&str])] = &[
        ("", &[]),
        ("# nothing\n", &[]),
        ("{}", &[]),
        ("otlp:\n", &[]),
        ("metrics_address: 127.0.0.1:1", &[]),
        ("metricsAddress: ':9'", &[]),
        ("resource: {a.b/c: d}", &[]),
        ("otlp: {interval: 1h30m}", &[]),
        ("otlp: {enabled: false, endpoint: http://c:1}", &[]),
        // The shape.
        (
            "- a",
            &["1:1: document: a list is here, expected a group of settings"],
        ),
        (
            "7",
            &["1:1: document: 7 is a number, expected a group of settings"],
        ),
        (
            "prefix: 7",
            &["1:9: prefix: 7 is a number, expected text: put it in quotes"],
        ),
        (
            "prefix: [a]",
            &["1:9: prefix: a list is here, expected text"],
        ),
        (
            "prefix:",
            &["1:1: prefix: has no value, expected text, or leave it out for the default"],
        ),
        (
            "prefix: ''",
            &["1:9: prefix: is empty, expected text, or leave it out for the default"],
        ),
        (
            "prefx: a",
            &["1:1: prefx: is no setting here, expected prefix"],
        ),
        (
            "log: {colour: red}",
            &["1:7: log.colour: is no setting here, expected one of format, level"],
        ),
        (
            "limits: {objects-per-family: 1}",
            &["1:10: limits.objects-per-family: is no setting here, expected objectsPerFamily"],
        ),
        (
            "a.b: 1",
            &[
                "1:1: [\"a.b\"]: is no setting here, expected one of prefix, metricsAddress, probeAddress, otlp, traces, cluster, resource, history, nodePools, workloads, availability, limits, report, log",
            ],
        ),
        (
            "prefix: a\nprefix: b",
            &["2:1: prefix: is given twice, first in line 1, expected it once"],
        ),
        (
            "probeAddress: 1.1.1.1:1\nprobe_address: 1.1.1.1:1",
            &["2:1: probeAddress: is given twice, first in line 1, expected it once"],
        ),
        (
            "resource: {a: b, a: c}",
            &["1:18: resource.a: is given twice, first in line 1, expected it once"],
        ),
        (
            "resource: {a: true}",
            &["1:15: resource.a: is true or false, expected text: put it in quotes"],
        ),
        (
            "limits: 10",
            &["1:9: limits: 10 is a number, expected a group of settings"],
        ),
        (
            "workloads: {slices: yes}",
            &["1:21: workloads.slices: \"yes\" is text, expected true or false"],
        ),
        (
            "otlp: {interval: 30}",
            &[
                "1:18: otlp.interval: 30 is a number, expected a number with ms, s, m, h or d, such as 30s",
            ],
        ),
        (
            "limits: {objectsPerFamily: -1}",
            &[
                "1:28: limits.objectsPerFamily: -1 is out of range, expected a whole number from 0 to 4294967295",
            ],
        ),
        (
            "limits: {objectsPerFamily: '5'}",
            &[
                "1:28: limits.objectsPerFamily: \"5\" is text, expected a whole number from 0 to 4294967295",
            ],
        ),
        (
            "nodePools: {labels: {labels: a}}",
            &["1:30: nodePools.labels.labels: \"a\" is text, expected a list of text"],
        ),
        (
            "nodePools: {labels: {labels: [a, 7]}}",
            &["1:34: nodePools.labels.labels[1]: 7 is a number, expected text: put it in quotes"],
        ),
        (
            "availability: {unknownThreshold: most}",
            &["1:34: availability.unknownThreshold: \"most\" is text, expected a number"],
        ),
        // The values.
        (
            "otlp: {endpoint: 'http://user:secret@c:1'}",
            &[
                "1:18: otlp.endpoint: has more than a host and a port, expected http:// or https:// with a host and a port, such as http://collector:4317",
            ],
        ),
        (
            "probeAddress: ':7'\nmetricsAddress: ':7'",
            &[
                "1:15: probeAddress: 0.0.0.0:7 cannot be served beside 0.0.0.0:7, expected another port",
            ],
        ),
        (
            "prefix: 1st",
            &[
                "1:9: prefix: \"1st\" is no metric prefix, expected at most 100 letters, digits, _ . - /, from a letter to a letter, digit or _",
            ],
        ),
        (
            "metricsAddress: localhost:8080",
            &[
                "1:17: metricsAddress: \"localhost:8080\" is no address, expected an IP address and port, such as 0.0.0.0:8080",
            ],
        ),
        (
            "metricsAddress: 127.0.0.1:8081",
            &[
                "1:17: metricsAddress: 127.0.0.1:8081 cannot be served beside 0.0.0.0:8081, expected another port",
            ],
        ),
        (
            "otlp: {interval: 10 parsecs}",
            &[
                "1:18: otlp.interval: \"10 parsecs\" is no duration, expected a number with ms, s, m, h or d, such as 30s",
            ],
        ),
        (
            "otlp: {interval: 10ms}",
            &["1:18: otlp.interval: \"10ms\" is out of range, expected 100ms to 1d"],
        ),
        (
            "otlp: {endpoint: 'collector:4317'}",
            &[
                "1:18: otlp.endpoint: \"collector:4317\" has no scheme, expected http:// or https:// with a host and a port, such as http://collector:4317",
            ],
        ),
        (
            "otlp: {endpoint: 'http://c:4318/v1/metrics'}",
            &[
                "1:18: otlp.endpoint: \"http://c:4318/v1/metrics\" has a path, which gRPC does not use, expected http:// or https:// with a host and a port, such as http://collector:4317",
            ],
        ),
        (
            "otlp: {endpoint: 'http://c:port'}",
            &[
                "1:18: otlp.endpoint: \"http://c:port\" has no valid port, expected http:// or https:// with a host and a port, such as http://collector:4317",
            ],
        ),
        (
            "otlp: {protocol: http/protobuf}",
            &["1:18: otlp.protocol: \"http/protobuf\" is not supported, expected grpc"],
        ),
        (
            "otlp: {compression: zstd}",
            &["1:21: otlp.compression: \"zstd\" is not known, expected none or gzip"],
        ),
        (
            "otlp: {enabled: true}",
            &[
                "1:17: otlp.enabled: is enabled without an endpoint, expected an endpoint such as http://collector:4317",
            ],
        ),
        (
            "otlp: {headers: {a b: secret}}",
            &[
                "1:23: otlp.headers[\"a b\"]: \"a b\" is no name of a header, expected letters, digits, - and _, not grpc-… and not …-bin",
            ],
        ),
        (
            "otlp: {headers: {a: sécret}}",
            &[
                "1:21: otlp.headers.a: the value of \"a\" cannot be sent, expected printable ASCII characters",
            ],
        ),
        (
            "otlp: {tls: {certificate: /c}}",
            &[
                "1:13: otlp.tls.key: is missing, expected the private key that goes with the certificate",
            ],
        ),
        (
            "otlp: {endpoint: 'http://c:1', tls: {ca: /c}}",
            &[
                "1:37: otlp.tls: has settings, but the endpoint is plain text, expected an https:// endpoint, or no TLS settings",
            ],
        ),
        (
            "traces: {endpoint: 'http://c:1'}",
            &[
                "1:9: traces: has settings but is not enabled, expected enabled: true or enabled: false",
            ],
        ),
        (
            "traces: {enabled: true}",
            &[
                "1:19: traces.enabled: is enabled without an endpoint, expected an endpoint such as http://collector:4317",
            ],
        ),
        (
            "traces: {enabled: false, sampleRatio: 2}",
            &["1:39: traces.sampleRatio: 2 is out of range, expected a number from 0 to 1"],
        ),
        (
            "history: {url: /var/lib}",
            &[
                "1:16: history.url: \"/var/lib\" is no URL of a history, expected file:///absolute/path or memory:",
            ],
        ),
        (
            "history: {url: 'file://var/lib'}",
            &[
                "1:16: history.url: \"file://var/lib\" names no absolute path, expected file:///absolute/path or memory:",
            ],
        ),
        (
            "history: {url: 's3://'}",
            &[
                "1:16: history.url: \"s3://\" names no bucket, expected file:///absolute/path or memory:",
            ],
        ),
        (
            "history: {url: 'az://c/p'}",
            &[
                "1:16: history.url: az:// is not supported by this version, expected file:///absolute/path or memory:",
            ],
        ),
        (
            "history: {url: 'ftp://c/p'}",
            &[
                "1:16: history.url: \"ftp://c/p\" has an unknown scheme, expected file:///absolute/path or memory:",
            ],
        ),
        (
            "history: {commitInterval: 2m}",
            &["1:27: history.commitInterval: \"2m\" is out of range, expected at most 1m"],
        ),
        (
            "history: {retention: 99999d}",
            &[
                "1:22: history.retention: \"99999d\" is out of range, expected less than a hundred years",
            ],
        ),
        (
            "limits: {objectsPerFamily: 0}",
            &[
                "1:28: limits.objectsPerFamily: 0 is out of range, expected a whole number from 1 to 1000000",
            ],
        ),
        (
            "nodePools: {labels: {labels: []}}",
            &[
                "1:30: nodePools.labels.labels: is an empty list, expected at least one name, or leave it out for the default",
            ],
        ),
        (
            "nodePools: {labels: {resources: [a/b, a/b, a b]}}",
            &[
                "1:39: nodePools.labels.resources[1]: \"a/b\" is named twice, expected it once",
                "1:44: nodePools.labels.resources[2]: \"a b\" is no name of Kubernetes, expected a name such as cloud.google.com/gke-nodepool",
            ],
        ),
        (
            "nodePools: {labels: {sizes: {p.1: 0}}}",
            &[
                "1:35: nodePools.labels.sizes[\"p.1\"]: 0 is no size, expected how many nodes the pool should have, at least 1",
            ],
        ),
        (
            "nodePools: {gke: {project: p}}",
            &[
                "1:18: nodePools.gke: has settings but is not enabled, expected enabled: true or enabled: false",
            ],
        ),
        (
            "availability: {unknownThreshold: 1.5}",
            &[
                "1:34: availability.unknownThreshold: 1.5 is out of range, expected a number from 0 to 1",
            ],
        ),
        (
            "report: {configMap: {name: A}}",
            &[
                "1:21: report.configMap.namespace: is missing, expected the namespace of the ConfigMap",
                "1:28: report.configMap.name: \"A\" is no name of an object, expected lower-case letters, digits, - and .",
            ],
        ),
        (
            "log: {format: xml}",
            &["1:15: log.format: \"xml\" is not known, expected auto or human or json"],
        ),
        (
            "log: {level: inof}",
            &[
                "1:14: log.level: \"inof\" is no log filter, expected one of off, error, warn, info, debug, trace, or target=level parts",
            ],
        ),
        (
            "log: {level: 'info,megamon=loud'}",
            &[
                "1:14: log.level: \"info,megamon=loud\" is no log filter, expected one of off, error, warn, info, debug, trace, or target=level parts",
            ],
        ),
    ];
    for (text, expected) in table {
        let expected = expected.iter().map(|line| format!("c.yaml:{line}"));
        assert_eq!(
            said(parse("c.yaml", text)),
            expected.collect::<Vec<_>>(),
            "{text}"
        );
    }
}

#[test]
fn what_is_no_document_is_said_with_its_place() {
    for (text, place) in [
        ("prefix: [a", "c.yaml:"),
        ("otlp:\n\tinterval: 3s", "c.yaml:2:"),
        ("{\"prefix\": \"a\"", "c.yaml:"),
        ("prefix: a\n---\nprefix: b", "c.yaml:3:"),
        ("prefix: *nowhere", "c.yaml:1:"),
        ("prefix: .nan", "c.yaml:1:"),
    ] {
        let said = said(parse("c.yaml", text));
        let [line] = said.as_slice() else {
            panic!("{text}: {said:?}");
        };
        assert!(line.starts_with(place), "{line}");
        assert!(line.contains(": document: cannot be read: "), "{line}");
        assert!(
            line.ends_with(", expected one document in YAML or JSON"),
            "{line}"
        );
    }
}

#[test]
fn every_problem_of_a_file_is_said_in_the_order_of_its_lines() {
    let file = fixture("wrong.yaml");
    let name = file.display().to_string();
    let said = said(check(&file));
    let said = said
        .iter()
        .map(|line| line.strip_prefix(&name).unwrap_or(line));
    assert_eq!(
        said.collect::<Vec<_>>(),
        [
            ":2:9: prefix: 7 is a number, expected text: put it in quotes",
            ":3:1: metricsAdress: is no setting here, expected metricsAddress",
            ":6:13: otlp.interval: \"10 parsecs\" is no duration, expected a number with ms, s, m, h or d, such as 30s",
            ":7:3: otlp.intervall: is no setting here, expected interval",
            ":9:15: otlp.headers.x-tenant: is a number, expected text: put it in quotes",
            ":11:8: history.url: gs:// is not supported by this version, expected file:///absolute/path or memory:",
            ":12:3: history.retention: has no value, expected a number with ms, s, m, h or d, such as 30s, or leave it out for the default",
            ":15:5: nodePools.gke: has settings but is not enabled, expected enabled: true or enabled: false",
            ":17:14: nodePools.labels.labels[0]: \"a b\" is no name of Kubernetes, expected a name such as cloud.google.com/gke-nodepool",
            ":18:19: nodePools.labels.sizes.pool: -1 is out of range, expected a whole number from 0 to 4294967295",
            ":20:21: availability.unknownThreshold: 1.5 is out of range, expected a number from 0 to 1",
            ":21:9: limits: 10 is a number, expected a group of settings",
            ":23:10: log.level: \"inof\" is no log filter, expected one of off, error, warn, info, debug, trace, or target=level parts",
            ":24:1: log: is given twice, first in line 22, expected it once",
        ]
    );
}

#[test]
fn json_goes_the_same_way() {
    let file = fixture("wrong.json");
    let name = file.display().to_string();
    let said = said(check(&file));
    let said = said
        .iter()
        .map(|line| line.strip_prefix(&name).unwrap_or(line));
    assert_eq!(
        said.collect::<Vec<_>>(),
        [
            ":2:12: prefix: \"1st\" is no metric prefix, expected at most 100 letters, digits, _ . - /, from a letter to a letter, digit or _",
            ":3:23: otlp.endpoint: \"collector:4317\" has no scheme, expected http:// or https:// with a host and a port, such as http://collector:4317",
            ":3:53: otlp.interval: 30 is a number, expected a number with ms, s, m, h or d, such as 30s",
            ":4:27: workloads.jobsets: \"yes\" is text, expected true or false",
        ]
    );
}

#[test]
fn a_flag_or_variable_is_named_in_the_place_of_a_file() {
    let flags = Flags {
        metrics_address: Some("here".to_owned()),
        history: Some(String::new()),
        otlp_endpoint: Some("http://c:4317".to_owned()),
        ..Flags::default()
    };
    let environment = |name: &str| match name {
        "OTEL_EXPORTER_OTLP_TIMEOUT" => Some("10s".to_owned()),
        "OTEL_EXPORTER_OTLP_PROTOCOL" => Some("http/protobuf".to_owned()),
        "OTEL_EXPORTER_OTLP_HEADERS" => Some("authorization=secret,oops".to_owned()),
        "OTEL_METRICS_EXPORTER" => Some("otpl".to_owned()),
        "RUST_LOG" => Some("loud".to_owned()),
        _ => None,
    };
    assert_eq!(
        said(load(Some(&fixture("full.yaml")), &flags, &environment)),
        [
            "OTEL_METRICS_EXPORTER: \"otpl\" is no exporter, expected otlp or none",
            "OTEL_EXPORTER_OTLP_TIMEOUT: \"10s\" is no time, expected a whole number of milliseconds, such as 10000",
            "OTEL_EXPORTER_OTLP_HEADERS: part 2 is no pair, expected key=value pairs with commas between them",
            "OTEL_EXPORTER_OTLP_PROTOCOL: \"http/protobuf\" is not supported, expected grpc",
            "RUST_LOG: \"loud\" is no log filter, expected one of off, error, warn, info, debug, trace, or target=level parts",
            "--metrics-address: \"here\" is no address, expected an IP address and port, such as 0.0.0.0:8080",
            "--history: is empty, expected text, or leave it out for the default",
        ]
    );
}

#[test]
fn what_the_environment_says_of_a_push_that_is_off_does_not_matter() {
    let environment = |name: &str| match name {
        "OTEL_EXPORTER_OTLP_TIMEOUT" => Some("soon".to_owned()),
        "OTEL_EXPORTER_OTLP_PROTOCOL" => Some("http/protobuf".to_owned()),
        _ => None,
    };
    let file = fixture("old-empty.json");
    let config = load(Some(&file), &Flags::default(), &environment).unwrap();
    assert_eq!(config, Config::default());
}

#[test]
fn a_named_file_must_exist_and_the_default_one_need_not() {
    let flags = Flags::default();
    let (missing, full) = (fixture("missing.yaml"), fixture("full.yaml"));
    let read = |file, default| load_or(file, default, &flags, &|_| None);
    assert_eq!(
        said(read(Some(&missing), &full)),
        [format!(
            "{}: cannot be read: No such file or directory (os error 2), expected a file in YAML or JSON",
            missing.display()
        )]
    );
    assert_eq!(read(None, &missing).unwrap(), Config::default());
    assert_eq!(read(None, &full), read(Some(&full), &missing));
    let folder = fixture("");
    assert_eq!(
        said(read(None, &folder)).len(),
        1,
        "one that is there must be readable"
    );
}

#[test]
fn a_hostile_document_is_refused() {
    let levels = (1..9).map(|level| {
        let below = format!("*a{}", level - 1);
        format!(
            "a{level}: &a{level} [{}]\n",
            [below.as_str(); 10].join(", ")
        )
    });
    let laughs = format!("a0: &a0 [lol]\n{}", levels.collect::<String>());
    for text in ["[".repeat(100_000), "{a: ".repeat(100_000), laughs] {
        assert!(parse("c.yaml", &text).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever becomes of a file, the answer is a configuration or problems with their places.
    #[test]
    fn a_damaged_file_is_answered(at in 0..1600_usize, length in 0..40_usize, with in "[ -~\\n\\t]{0,8}") {
        let text = include_str!("../../../tests/config/full.yaml");
        let (at, end) = (at.min(text.len()), (at + length).min(text.len()));
        let damaged = format!("{}{with}{}", &text[..at], &text[end..]);
        if let Err(problems) = parse("c.yaml", &damaged) {
            prop_assert!(!problems.0.is_empty());
            for problem in problems.0 {
                let line = problem.to_string();
                prop_assert!(line.starts_with("c.yaml:") && line.contains(", expected "), "{line}");
            }
        }
    }
}
