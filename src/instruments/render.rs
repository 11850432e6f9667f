//! The catalogue for people and programs: as a table, in Markdown, as JSON.

use std::fmt::Write as _;

use serde::Serialize;

use super::catalogue::{Kind, Scope, catalogue};

/// How the catalogue is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Aligned columns.
    Table,
    /// A Markdown table.
    Markdown,
    /// A JSON array, an object for each instrument.
    Json,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    name: &'static str,
    otel_name: String,
    prometheus_name: String,
    kind: Kind,
    unit: &'static str,
    attributes: &'static [&'static str],
    description: &'static str,
    family: &'static str,
    scope: Scope,
    #[serde(skip_serializing_if = "<[f64]>::is_empty")]
    boundaries: &'static [f64],
}

/// Writes the whole catalogue, with Prometheus names under `prefix`. Ends with a newline.
#[must_use]
pub fn render(prefix: &str, form: Form) -> String {
    let entries: Vec<Entry> = catalogue()
        .iter()
        .map(|instrument| Entry {
            name: &instrument.name,
            otel_name: instrument.otel_name(prefix),
            prometheus_name: instrument.prometheus_name(prefix),
            kind: instrument.kind,
            unit: instrument.unit,
            attributes: instrument.attributes,
            description: &instrument.description,
            family: instrument.family,
            scope: instrument.scope,
            boundaries: instrument.boundaries,
        })
        .collect();
    match form {
        Form::Json => {
            // Plain strings and finite numbers always serialise.
            let mut text = serde_json::to_string_pretty(&entries).unwrap_or_default();
            text.push('\n');
            text
        }
        Form::Markdown => markdown(&entries),
        Form::Table => table(&entries),
    }
}

fn markdown(entries: &[Entry]) -> String {
    let mut text = String::from(
        "| instrument | in Prometheus | kind, unit | attributes | meaning |\n|---|---|---|---|---|\n",
    );
    for entry in entries {
        let attributes: Vec<String> = entry
            .attributes
            .iter()
            .map(|attribute| format!("`{attribute}`"))
            .collect();
        let _ = writeln!(
            text,
            "| `{}` | `{}` | {} | {} | {} |",
            entry.name,
            entry.prometheus_name,
            kind_and_unit(entry),
            attributes.join(" "),
            entry.description,
        );
    }
    text
}

fn table(entries: &[Entry]) -> String {
    let rows: Vec<[String; 4]> = std::iter::once([
        "INSTRUMENT".to_owned(),
        "KIND, UNIT".to_owned(),
        "ATTRIBUTES".to_owned(),
        "MEANING".to_owned(),
    ])
    .chain(entries.iter().map(|entry| {
        [
            entry.otel_name.clone(),
            kind_and_unit(entry),
            entry.attributes.join(" "),
            entry.description.to_owned(),
        ]
    }))
    .collect();
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(String::len)
            .max()
            .unwrap_or(0)
    };
    let (first, second, third) = (width(0), width(1), width(2));
    let mut text = String::new();
    for [name, kind, attributes, description] in &rows {
        let _ = writeln!(
            text,
            "{name:first$}  {kind:second$}  {attributes:third$}  {description}"
        );
    }
    text
}

fn kind_and_unit(entry: &Entry) -> String {
    if entry.unit.is_empty() {
        entry.kind.name().to_owned()
    } else {
        format!("{}, {}", entry.kind.name(), entry.unit)
    }
}
