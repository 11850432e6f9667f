//! What the schema's comments say is what the program does.

use crate::config::reference::{markdown, rows};
use crate::config::schema::Kind;
use crate::config::{Config, parse};

/// A document in which one setting has a value, the groups above it switched on.
fn document(path: &str, value: &str) -> String {
    let mut text = String::new();
    let names = path.split('.').collect::<Vec<_>>();
    for (depth, name) in names.iter().enumerate() {
        let indent = "  ".repeat(depth);
        let end = if depth + 1 == names.len() {
            format!(" {value}")
        } else {
            String::new()
        };
        text += &[&indent, *name, ":", &end, "\n"].concat();
    }
    text
}

/// The literals in backticks of a comment that consists of nothing else.
fn literals(default: &str) -> Option<Vec<&str>> {
    let parts = default
        .split(", ")
        .map(|part| part.strip_prefix('`')?.strip_suffix('`'));
    parts.collect()
}

#[test]
fn every_documented_default_is_the_one_that_holds() {
    // A receiver without an endpoint and a source that is off hold no values to compare.
    let on = "otlp: {endpoint: 'http://c:1'}\ntraces: {enabled: true}\nnodePools: {gke: {enabled: true}}\n";
    let base = parse("base", on).unwrap();
    let mut compared = 0;
    for row in rows() {
        let Some(literals) = literals(row.field.default) else {
            continue;
        };
        let value = match row.field.kind {
            Kind::TextList => format!("[{}]", literals.join(", ")),
            Kind::Text => format!("{:?}", literals.concat()),
            _ => literals.concat(),
        };
        if row.path.ends_with(".enabled") {
            let text = document(&row.path, &value);
            assert_eq!(
                parse("default", &text).unwrap(),
                Config::default(),
                "{text}"
            );
        } else {
            let (group, rest) = row.path.split_once('.').unwrap_or(("", &row.path));
            let text = match group {
                "otlp" => format!(
                    "otlp: {{endpoint: 'http://c:1', {rest}: {value}}}\ntraces: {{enabled: true}}\nnodePools: {{gke: {{enabled: true}}}}\n"
                ),
                "traces" => format!(
                    "otlp: {{endpoint: 'http://c:1'}}\ntraces: {{enabled: true, {rest}: {value}}}\nnodePools: {{gke: {{enabled: true}}}}\n"
                ),
                "nodePools" => {
                    let (source, rest) = rest.split_once('.').unwrap();
                    let other = if source == "gke" {
                        ""
                    } else {
                        "gke: {enabled: true}, "
                    };
                    format!(
                        "otlp: {{endpoint: 'http://c:1'}}\ntraces: {{enabled: true}}\nnodePools: {{{other}{source}: {{enabled: true, {rest}: {value}}}}}\n"
                    )
                }
                _ => format!("{on}{}", document(&row.path, &value)),
            };
            assert_eq!(parse("default", &text).unwrap(), base, "{text}");
        }
        compared += 1;
    }
    assert_eq!(compared, 29, "settings with a literal default");
}

#[test]
fn every_setting_says_its_default_and_every_group_none() {
    for row in rows() {
        let group = matches!(row.field.kind, Kind::Section(_));
        assert_eq!(row.field.default.is_empty(), group, "{}", row.path);
        assert!(
            row.field.meaning.ends_with('.'),
            "{}: {}",
            row.path,
            row.field.meaning
        );
    }
}

#[test]
fn every_word_that_a_form_names_is_taken() {
    let mut words = 0;
    for row in rows().iter().filter(|row| row.field.form.contains('`')) {
        for word in row.field.form.split('`').skip(1).step_by(2) {
            let enabled = if row.path.starts_with("traces.") {
                "  enabled: false\n"
            } else {
                ""
            };
            parse("word", &format!("{}{enabled}", document(&row.path, word))).unwrap();
            words += 1;
        }
    }
    assert_eq!(words, 9);
}

#[test]
fn the_reference_has_a_row_for_every_field_of_the_schema() {
    let schema = include_str!("../../../proto-config/megamon/config/v1alpha1/config.proto");
    let fields = schema.lines().map(str::trim).filter(|line| {
        line.ends_with(';')
            && line.contains(" = ")
            && !line.starts_with("syntax")
            && !line.starts_with("//")
    });
    // TLS is a group of two receivers, so its own three fields are there twice.
    let tls = 3;
    let table = markdown();
    assert_eq!(rows().len(), fields.count() + tls);
    assert_eq!(table.lines().count(), rows().len() + 2);
    for row in rows() {
        assert!(
            table.contains(&format!("\n| `{}` | ", row.path)),
            "{}",
            row.path
        );
    }
    let row = "| `otlp.interval` | duration | `30s` | Time between two pushes, 100 ms to 1 day. |";
    assert!(table.lines().any(|line| line == row), "{table}");
    for line in table.lines().skip(2) {
        assert_eq!(line.matches('|').count(), 5, "{line}");
    }
}
