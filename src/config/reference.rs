//! The settings as a Markdown table, made from the schema, so that documentation cannot fall behind.

use std::fmt::Write as _;

use super::schema::{self, Field, Kind};

/// One row of the reference.
#[derive(Debug)]
pub(super) struct Row {
    /// Path of the setting, such as `otlp.interval`.
    pub(super) path: String,
    /// The setting.
    pub(super) field: &'static Field,
}

/// Every setting, in the order of the schema, groups before what is in them.
pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    collect("", schema::ROOT, &mut rows);
    rows
}

fn collect(above: &str, message: &str, rows: &mut Vec<Row>) {
    for field in schema::fields(message) {
        let path = format!("{above}{}", field.name);
        rows.push(Row {
            path: path.clone(),
            field,
        });
        if let Kind::Section(message) = field.kind {
            collect(&format!("{path}."), message, rows);
        }
    }
}

/// The table: a row for each setting with its path, type, default and meaning.
#[must_use]
pub fn markdown() -> String {
    let mut table = String::from("| Setting | Type | Default | Meaning |\n|---|---|---|---|\n");
    for Row { path, field } in rows() {
        let kind = match (field.kind, field.form) {
            (Kind::Section(_), _) => "group",
            (Kind::Text, "") => "text",
            (Kind::Text, form) => form,
            (Kind::Switch, _) => "`true` or `false`",
            (Kind::Whole, _) => "whole number",
            (Kind::Number, _) => "number",
            (Kind::TextList, _) => "list of text",
            (Kind::TextMap, _) => "text by name",
            (Kind::WholeMap, _) => "whole numbers by name",
        };
        let cell = |text: &str| text.replace('|', "\\|");
        let (default, meaning) = (cell(field.default), cell(field.meaning));
        let row = writeln!(table, "| `{path}` | {kind} | {default} | {meaning} |");
        // Writing into a string cannot fail.
        debug_assert!(row.is_ok());
    }
    table
}
