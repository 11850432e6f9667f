//! Arguments in, output and exit code out.

use super::{CONFIGURATION, SUCCESS, USAGE, dispatch};

/// Exit code, standard output, standard error.
fn megamon(arguments: &[&str]) -> (u8, String, String) {
    let arguments = ["megamon"].iter().chain(arguments).map(Into::into);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = dispatch(arguments, &|_| None, &mut out, &mut err).unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (code, text(out), text(err))
}

fn fixture(name: &str) -> String {
    format!("{}/tests/config/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn exit_codes() {
    let (full, wrong, old) = (
        fixture("full.yaml"),
        fixture("wrong.yaml"),
        fixture("old-full.json"),
    );
    // Arguments, exit code, whether something is said on standard output and on standard error.
    let table: &[(&[&str], u8, bool, bool)] = &[
        (&["--version"], SUCCESS, true, false),
        (&["--help"], SUCCESS, true, false),
        (&["run", "--help"], SUCCESS, true, false),
        (&["run", "--version"], SUCCESS, true, false),
        (&[], USAGE, false, true),
        (&["walk"], USAGE, false, true),
        (&["run", "--bogus"], USAGE, false, true),
        (&["run", "--config"], USAGE, false, true),
        (&["config"], USAGE, false, true),
        (&["config", "check"], USAGE, false, true),
        (&["catalog", "--format", "xml"], USAGE, false, true),
        (&["config", "check", &full], SUCCESS, true, false),
        (&["config", "check", &wrong], CONFIGURATION, true, false),
        (
            &["config", "check", "/nowhere/config.yaml"],
            CONFIGURATION,
            true,
            false,
        ),
        (&["config", "migrate", &old], SUCCESS, true, true),
        (
            &["config", "migrate", "/nowhere/config.json"],
            CONFIGURATION,
            false,
            true,
        ),
        (&["config", "reference"], SUCCESS, true, false),
        (&["run", "--config", &wrong], CONFIGURATION, false, true),
        (
            &["run", "--config", "/nowhere/config.yaml"],
            CONFIGURATION,
            false,
            true,
        ),
        (
            &["run", "--config", &full, "--metrics-address", "x"],
            CONFIGURATION,
            false,
            true,
        ),
    ];
    for (arguments, code, says, complains) in table {
        let (exit, out, err) = megamon(arguments);
        assert_eq!(exit, *code, "{arguments:?}: {out}{err}");
        let said = (!out.is_empty(), !err.is_empty());
        assert_eq!(said, (*says, *complains), "{arguments:?}: {out}{err}");
    }
}

#[test]
fn check_says_that_a_file_is_fine_in_one_line() {
    let full = fixture("full.yaml");
    let (_, out, _) = megamon(&["config", "check", &full]);
    assert_eq!(out, format!("{full}: fine\n"));
}

#[test]
fn check_says_every_problem_in_a_line() {
    let (_, out, _) = megamon(&["config", "check", &fixture("wrong.yaml")]);
    assert_eq!(out.lines().count(), 14, "{out}");
}

#[test]
fn a_migrated_file_passes_the_check() {
    let folder = tempfile::tempdir().unwrap();
    for old in ["old-full.json", "old-empty.json"] {
        let (code, yaml, notes) = megamon(&["config", "migrate", &fixture(old)]);
        assert_eq!(code, SUCCESS, "{notes}");
        let file = folder.path().join("config.yaml");
        std::fs::write(&file, yaml).unwrap();
        let (code, out, _) = megamon(&["config", "check", file.to_str().unwrap()]);
        assert_eq!(code, SUCCESS, "{out}");
    }
}

#[test]
fn a_flag_that_is_wrong_is_named() {
    let (_, _, err) = megamon(&[
        "run",
        "--config",
        &fixture("full.yaml"),
        "--history",
        "s3://bucket/path",
    ]);
    assert_eq!(
        err,
        "--history: s3:// is not supported by this version, expected file:///absolute/path or memory:\n"
    );
}
