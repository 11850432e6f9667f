//! The direction of imports: a room imports only rooms above it, and the crates that belong to a
//! room are named in no other.

use std::fs;
use std::path::{Path, PathBuf};

/// Reading order: a room may import what stands before it.
const ROOMS: [&str; 20] = [
    "clock",
    "measure",
    "model",
    "config",
    "watch",
    "node_pools",
    "observed",
    "availability",
    "summary",
    "history",
    "snapshot",
    "fleet",
    "instruments",
    "export",
    "bind",
    "lead",
    "serve",
    "logs",
    "run",
    "cli",
];

/// Crates and the rooms that own them.
const OWNED: [(&str, &[&str]); 6] = [
    (
        "kube",
        &["watch", "node_pools", "bind", "lead", "export/report"],
    ),
    (
        "k8s_openapi",
        &["watch", "node_pools", "bind", "lead", "export/report"],
    ),
    ("opentelemetry", &["instruments", "export", "logs"]),
    ("prometheus", &["export"]),
    ("object_store", &["history"]),
    ("axum", &["serve"]),
];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn without_comments(text: &str) -> String {
    text.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

/// The words that follow `prefix` in a text, `{a, b::c}` taken apart.
fn named<'a>(text: &'a str, prefix: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices(prefix) {
        let before = text[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = &text[at + prefix.len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut word = 0;
            for (at, c) in group.char_indices() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => {
                        found.push(group[word..at].trim());
                        break;
                    }
                    '}' => depth -= 1,
                    ',' if depth == 0 => {
                        found.push(group[word..at].trim());
                        word = at + 1;
                    }
                    _ => {}
                }
            }
        } else {
            found.push(rest);
        }
    }
    let end = |word: &str| {
        word.find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(word.len())
    };
    found.into_iter().map(|word| &word[..end(word)]).collect()
}

#[test]
fn imports_point_upward_only() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    let mut seen = 0;
    for path in sources(&src) {
        let relative = path.strip_prefix(&src).unwrap().with_extension("");
        let room = relative.iter().next().unwrap().to_str().unwrap().to_owned();
        if room == "lib" || room == "main" {
            continue;
        }
        let Some(place) = ROOMS.iter().position(|known| *known == room) else {
            wrong.push(format!("{} is in no room of the map", relative.display()));
            continue;
        };
        seen += 1;
        let text = without_comments(&fs::read_to_string(&path).unwrap());
        for import in named(&text, "crate::") {
            let Some(other) = ROOMS.iter().position(|known| *known == import) else {
                continue;
            };
            if other > place {
                wrong.push(format!(
                    "{} imports {import}, which comes after it",
                    relative.display()
                ));
            }
        }
        for (owned, owners) in OWNED {
            let names = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            let used = text.contains(&format!("{owned}::"))
                && names
                    .into_iter()
                    .any(|word| word == owned || word.starts_with(&format!("{owned}_")));
            let here = relative.display().to_string();
            let named_alone = named(&text, &format!("{owned}::"));
            if used
                && !named_alone.is_empty()
                && !owners.iter().any(|owner| here.starts_with(owner))
            {
                wrong.push(format!("{here} names {owned}, which belongs to {owners:?}"));
            }
        }
    }
    assert!(
        seen > 10,
        "the test found only {seen} files: it looks in the wrong place"
    );
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_test_of_the_map_can_fail() {
    assert_eq!(named("use crate::{a::b, c};", "crate::"), ["a", "c"]);
    assert_eq!(
        named("use crate::fleet::Fleet; mycrate::y", "crate::"),
        ["fleet"]
    );
}
