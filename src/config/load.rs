//! Reads the configuration: flag before environment before file before default.

use std::collections::BTreeSet;
use std::io;

use serde_json::Value as Json;

use super::Config;
use super::document::Node;
use super::layers::Flags;
use super::problem::{Origin, Path, Problem, Problems};
use super::schema::Settings;
use super::shape::Gathered;
use super::validate::{self, Reading};

/// The file that is read when none is named, if it exists.
pub const DEFAULT_FILE: &str = "/etc/megamon/config.yaml";

/// Reads the configuration of a run. `file` is one that was named and so must exist, instead of
/// [`DEFAULT_FILE`], which need not; `environment` looks a variable up.
///
/// # Errors
///
/// Everything that is wrong, in the order of the lines of the file.
pub fn load(
    file: Option<&std::path::Path>,
    flags: &Flags,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, Problems> {
    load_or(file, std::path::Path::new(DEFAULT_FILE), flags, environment)
}

/// [`load`] with the default file handed in.
pub(super) fn load_or(
    file: Option<&std::path::Path>,
    default: &std::path::Path,
    flags: &Flags,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, Problems> {
    let named = file.unwrap_or(default);
    let mut gathered = Gathered::default();
    match read(named) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && file.is_none() => {}
        Err(error) => gathered.problems.push(unreadable(named, &error)),
        Ok(text) => gathered.text(&named.display().to_string(), &text),
    }
    gathered.environment(environment);
    gathered.flags(flags);
    gathered.config()
}

/// Checks a file by itself, without flags and environment.
///
/// # Errors
///
/// Everything that is wrong with it.
pub fn check(file: &std::path::Path) -> Result<Config, Problems> {
    let text = read(file).map_err(|error| Problems(vec![unreadable(file, &error)]))?;
    parse(&file.display().to_string(), &text)
}

/// Reads a configuration from a text, without flags and environment; `name` is what its file is
/// called in a problem.
///
/// # Errors
///
/// Everything that is wrong with it.
pub fn parse(name: &str, text: &str) -> Result<Config, Problems> {
    let mut gathered = Gathered::default();
    gathered.text(name, text);
    gathered.config()
}

/// The text of a file.
pub(super) fn read(file: &std::path::Path) -> io::Result<String> {
    std::fs::read_to_string(file)
}

/// The problem of a file that cannot be read.
pub(super) fn unreadable(file: &std::path::Path, error: &io::Error) -> Problem {
    Problem {
        origin: Origin::File {
            name: file.display().to_string(),
            position: None,
        },
        path: Path::default(),
        what: format!("cannot be read: {error}"),
        expected: "a file in YAML or JSON".to_owned(),
    }
}

impl Gathered {
    fn text(&mut self, name: &str, text: &str) {
        match Node::parse(name, text) {
            Ok(node) => self.document(name, &node),
            Err(problem) => self.problems.push(*problem),
        }
    }

    fn config(self) -> Result<Config, Problems> {
        let Self {
            settings,
            origins,
            mut problems,
        } = self;
        let mut reading = Reading {
            origins: &origins,
            problems: Vec::new(),
            off: Vec::new(),
        };
        let config = match serde_json::from_value::<Settings>(Json::Object(settings)) {
            Ok(settings) => validate::config(settings, &mut reading),
            Err(error) => {
                // The table and the types come from one schema, so what passed the one passes the
                // other; should it not, it is said and not ignored.
                reading.problem(Path::default(), (error.to_string(), String::new()));
                Config::default()
            }
        };
        problems.append(&mut reading.problems);
        // What a variable says about a push that is off is somebody else's business.
        problems.retain(|problem| {
            let off = |section| problem.path.is_within(section);
            !matches!(problem.origin, Origin::Variable(_)) || !reading.off.iter().any(off)
        });
        if problems.is_empty() {
            return Ok(config);
        }
        problems.sort_by_key(|problem| match &problem.origin {
            Origin::File { position, .. } => (0, *position),
            Origin::Variable(_) => (1, None),
            Origin::Flag(_) => (2, None),
            Origin::Default => (3, None),
        });
        // One variable can set the same for metrics and traces.
        let mut said = BTreeSet::new();
        problems.retain(|problem| said.insert(problem.to_string()));
        Err(Problems(problems))
    }
}
