//! The README: its tables are what the program prints, and what it names exists.
//!
//! With `MEGAMON_BLESS=1` the tables are written anew instead of compared.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use jiff::{SignedDuration, Timestamp};
use megamon::config;
use megamon::instruments;
use megamon::instruments::render::{Form, render};
use megamon::model::{Event, Family};
use megamon::summary::Fold;

const PREFIX: &str = "megamon.alpha";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn readme() -> String {
    fs::read_to_string(root().join("README.md")).unwrap()
}

/// Where the text between the marks of a section begins and ends.
fn section(text: &str, name: &str) -> std::ops::Range<usize> {
    let (begin, end) = (
        format!("<!-- {name}:begin -->\n"),
        format!("<!-- {name}:end -->"),
    );
    for mark in [&begin, &end] {
        let found = text.matches(mark.as_str()).count();
        assert_eq!(found, 1, "README.md has {mark:?} {found} times");
    }
    let range = text.find(&begin).unwrap() + begin.len()..text.find(&end).unwrap();
    assert!(range.start <= range.end, "{name} ends before it begins");
    range
}

#[test]
fn readme_tables_are_what_the_program_prints() {
    let mut text = readme();
    for (name, expected, command) in [
        (
            "settings",
            config::reference::markdown(),
            "megamon config reference",
        ),
        (
            "series",
            render(PREFIX, Form::Markdown),
            "megamon catalog --format markdown",
        ),
    ] {
        let range = section(&text, name);
        if std::env::var_os("MEGAMON_BLESS").is_some() {
            text.replace_range(range, &expected);
            fs::write(root().join("README.md"), &text).unwrap();
            continue;
        }
        let differs = text[range.clone()]
            .lines()
            .zip(expected.lines())
            .find(|(is, should)| is != should);
        assert!(
            text[range] == expected,
            "the {name} in README.md are not what `{command}` prints; first difference: \
             {differs:?}; MEGAMON_BLESS=1 writes them anew"
        );
    }
}

/// A text's code: each line of its fenced blocks, with the block's language, and each of its spans.
struct Code<'a> {
    blocks: Vec<(&'a str, Vec<&'a str>)>,
    spans: Vec<&'a str>,
}

fn code(text: &str) -> Code<'_> {
    let mut code = Code {
        blocks: Vec::new(),
        spans: Vec::new(),
    };
    let mut fenced = false;
    for line in text.lines() {
        if let Some(language) = line.strip_prefix("```") {
            fenced = !fenced;
            if fenced {
                code.blocks.push((language, Vec::new()));
            }
        } else if fenced {
            code.blocks.last_mut().unwrap().1.push(line);
        } else {
            code.spans.extend(line.split('`').skip(1).step_by(2));
        }
    }
    assert!(!fenced, "a fenced block of README.md does not end");
    code
}

/// The words of a text that begin with `prefix` and go on with letters of a name.
fn words<'a>(text: &'a str, prefix: &str, of_name: impl Fn(char) -> bool) -> BTreeSet<&'a str> {
    text.match_indices(prefix)
        .map(|(at, _)| {
            let rest = &text[at..];
            let end = rest.find(|c| !of_name(c)).unwrap_or(rest.len());
            &rest[..end]
        })
        .collect()
}

#[test]
fn readme_series_exist() {
    let known: BTreeSet<String> = instruments::catalogue()
        .iter()
        .flat_map(|instrument| {
            let name = instrument.prometheus_name(PREFIX);
            let histogram = instrument.kind == instruments::Kind::Histogram;
            let parts = ["_bucket", "_sum", "_count"].map(|part| format!("{name}{part}"));
            let parts = parts.into_iter().filter(move |_| histogram);
            std::iter::once(name.clone()).chain(parts)
        })
        .collect();
    let text = readme();
    let named = words(&text, "megamon_alpha_", |c| {
        c.is_ascii_alphanumeric() || c == '_'
    });
    assert!(named.len() > 100, "only {} series are named", named.len());
    let unknown: Vec<_> = named
        .into_iter()
        .filter(|name| !known.contains(*name))
        .collect();
    assert!(unknown.is_empty(), "no such series: {unknown:?}");
}

/// Settings by their paths.
fn settings() -> BTreeSet<String> {
    let reference = config::reference::markdown();
    let rows = reference.lines().filter_map(|row| row.strip_prefix("| `"));
    rows.map(|row| row.split('`').next().unwrap().to_owned())
        .collect()
}

/// A dotted name in code that begins like a setting or an instrument is one.
#[test]
fn readme_dotted_names_exist() {
    let catalogue = instruments::catalogue();
    let mut known = settings();
    known.extend(catalogue.iter().map(|of| of.name.to_string()));
    known.extend(Family::ALL.iter().map(|family| family.name().to_owned()));
    let first = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let firsts: BTreeSet<String> = known.iter().map(|name| first(name)).collect();
    let attributes = catalogue.iter().flat_map(|of| of.attributes);
    known.extend(attributes.map(|attribute| (*attribute).to_owned()));
    // Those of every family are also named without it.
    let of_families = catalogue.iter().filter_map(|of| {
        let name = of.name.strip_prefix(of.family)?;
        name.strip_prefix('.')
    });
    known.extend(of_families.map(str::to_owned));
    let text = readme();
    let unknown: Vec<_> = code(&text)
        .spans
        .into_iter()
        .filter(|span| {
            let dotted = span.contains('.')
                && span
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '_');
            dotted && firsts.contains(&first(span)) && !known.contains(*span)
        })
        .collect();
    assert!(
        unknown.is_empty(),
        "neither settings nor series nor attributes: {unknown:?}"
    );
}

fn help(command: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_megamon"))
        .args(command)
        .arg("--help")
        .output()
        .unwrap();
    assert!(output.status.success(), "{command:?} has no help");
    String::from_utf8(output.stdout).unwrap()
}

/// The flags of a text, `--` included.
fn flags(text: &str) -> BTreeSet<&str> {
    let mut flags = words(text, "--", |c| c.is_ascii_lowercase() || c == '-');
    // A dash alone, or one that draws a line, is no flag.
    flags.retain(|flag| flag.len() > 2 && !flag.starts_with("---"));
    flags
}

/// What of a line of code is said to `megamon`: what follows its name, or `--` after `cargo run`.
fn said_to_megamon(line: &str) -> Option<&str> {
    let line = line.split(" #").next().unwrap_or_default().trim();
    if line.starts_with("--") {
        return Some(line);
    }
    if line.starts_with("cargo run ") {
        return line.split_once(" -- ").map(|(_, said)| said);
    }
    line.strip_prefix("megamon ")
}

#[test]
fn readme_flags_and_commands_exist() {
    let run = help(&["run"]);
    let known: BTreeSet<String> = [
        &[][..],
        &["run"],
        &["config"],
        &["config", "check"],
        &["config", "migrate"],
        &["config", "reference"],
        &["catalog"],
    ]
    .into_iter()
    .flat_map(|command| {
        let help = help(command);
        let flags = flags(&help).into_iter().map(str::to_owned);
        flags.collect::<Vec<_>>()
    })
    .collect();
    let text = readme();
    let Code { blocks, spans } = code(&text);
    let lines = blocks.iter().flat_map(|(_, lines)| lines.iter().copied());
    let said: Vec<&str> = lines.chain(spans).filter_map(said_to_megamon).collect();
    let shown: BTreeSet<&str> = said.iter().flat_map(|said| flags(said)).collect();
    let unknown: Vec<_> = shown
        .iter()
        .filter(|flag| !known.contains(**flag))
        .collect();
    assert!(unknown.is_empty(), "no such flags: {unknown:?}");
    let left_out: Vec<_> = flags(&run)
        .into_iter()
        .filter(|flag| !["--help", "--version"].contains(flag) && !shown.contains(flag))
        .collect();
    assert!(
        left_out.is_empty(),
        "flags of `megamon run` that README.md does not name: {left_out:?}"
    );
    for command in [
        "run",
        "config check",
        "config migrate",
        "config reference",
        "catalog",
    ] {
        assert!(
            said.iter().any(|said| said.starts_with(command)),
            "README.md does not name `megamon {command}`"
        );
    }
}

#[test]
fn readme_names_every_variable_that_is_read() {
    let of_name = |c: char| c.is_ascii_uppercase() || c == '_';
    let source = fs::read_to_string(root().join("src/config/layers.rs")).unwrap();
    let text = readme();
    let (read, named) = (
        words(&source, "OTEL_", of_name),
        words(&text, "OTEL_", of_name),
    );
    assert!(read.len() > 20, "the source names only {read:?}");
    assert_eq!(
        named, read,
        "README.md (left) and src/config/layers.rs differ"
    );
}

#[test]
fn readme_paths_exist() {
    let text = readme();
    let mut seen = 0;
    let mut missing = Vec::new();
    let Code { blocks, spans } = code(&text);
    let lines = blocks
        .iter()
        .filter(|(language, _)| *language == "sh")
        .flat_map(|(_, lines)| lines.iter().copied());
    // The first word: a script may have arguments.
    for path in lines.chain(spans).filter_map(|code| code.split(' ').next()) {
        let top = path.split('/').next().unwrap_or_default();
        let ours = ["src", "tests", "proto-config", "charts", ".ci", ".config"].contains(&top);
        let file = ["LICENSE", "Cargo.toml", "deny.toml", "README.md"].contains(&path);
        if !ours && !file {
            continue;
        }
        seen += 1;
        if !root().join(Path::new(path)).exists() {
            missing.push(path);
        }
    }
    assert!(seen > 20, "only {seen} paths were found");
    assert!(missing.is_empty(), "no such files: {missing:?}");
}

/// Links within the README lead to its headings.
#[test]
fn readme_links_lead_somewhere() {
    let text = readme();
    let headings: BTreeSet<String> = text
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            let heading = line.trim_start_matches('#').trim().to_lowercase();
            let kept = heading
                .chars()
                .filter(|c| c.is_alphanumeric() || " -".contains(*c));
            kept.collect::<String>().replace(' ', "-")
        })
        .collect();
    let joined = text.replace('\n', " ");
    for (at, _) in joined.match_indices("](#") {
        let link = joined[at + 3..].split(')').next().unwrap();
        assert!(headings.contains(link), "no heading for the link #{link}");
    }
}

/// Each configuration that is shown is taken.
#[test]
fn readme_configurations_are_taken() {
    let text = readme();
    let settings = settings();
    let mut seen = 0;
    for (language, lines) in code(&text).blocks {
        let first = lines.first().and_then(|line| line.split(':').next());
        if language == "yaml" && first.is_some_and(|first| settings.contains(first)) {
            seen += 1;
            if let Err(problems) = config::parse("README.md", &lines.join("\n")) {
                panic!("{problems}");
            }
        }
    }
    assert!(seen > 0, "no configuration is shown");
}

/// The timeline's numbers are what the fold gives for it.
#[test]
fn readme_timeline_adds_up() {
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let at = |minutes| start + SignedDuration::from_mins(minutes);
    let event = |minutes, up, expected_down| Event {
        up,
        expected_down,
        timestamp: at(minutes),
        bounds: None,
    };
    let events = [
        event(0, false, false),
        event(5, true, false),
        event(65, false, false),
        event(75, true, false),
        event(195, false, true),
    ];
    let summary = Fold::of(&events).unwrap().at(at(200));
    let minutes = |nanos: Option<_>| format!("{} min", nanos.unwrap() / 60_000_000_000);
    let text = readme();
    for (name, value) in [
        ("up.time", minutes(Some(summary.up_time))),
        ("down.time", minutes(Some(summary.down_time))),
        ("interruption.count", summary.interruptions.to_string()),
        ("recovery.count", summary.recoveries.to_string()),
        ("down.time.initial", minutes(summary.down_initial)),
        ("down.time.between.recovery", minutes(summary.down_between)),
        (
            "down.time.between.recovery.mean",
            minutes(summary.down_between_mean),
        ),
        (
            "down.time.between.recovery.latest",
            minutes(summary.down_between_latest),
        ),
        ("up.time.between.interruption", minutes(summary.up_between)),
        (
            "up.time.between.interruption.mean",
            minutes(summary.up_between_mean),
        ),
        (
            "up.time.between.interruption.latest",
            minutes(summary.up_between_latest),
        ),
    ] {
        let row = format!("| `{name}` | {value} |");
        assert!(text.contains(&row), "README.md does not say {row}");
    }
}

#[test]
fn the_tests_of_the_readme_can_fail() {
    assert_eq!(said_to_megamon("megamon run --x # --y"), Some("run --x"));
    assert_eq!(
        said_to_megamon("cargo run --release -- run --x"),
        Some("run --x")
    );
    assert_eq!(said_to_megamon("tests/run.sh --soak"), None);
    assert_eq!(
        flags("run --a-b c --d ---- --"),
        BTreeSet::from(["--a-b", "--d"])
    );
    let text = "a `b` c\n```sh\nd `e`\n```\n`f g`";
    let Code { blocks, spans } = code(text);
    assert_eq!(spans, ["b", "f g"]);
    assert_eq!(blocks, [("sh", vec!["d `e`"])]);
}
