//! Arguments in, output and exit code out.

use super::{CONFIGURATION, FAILURE, SUCCESS, USAGE, dispatch};

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
    let table: &[(&[&str], u8)] = &[
        (&["--version"], SUCCESS),
        (&["--help"], SUCCESS),
        (&["run", "--help"], SUCCESS),
        (&["run", "--version"], SUCCESS),
        (&[], USAGE),
        (&["walk"], USAGE),
        (&["run", "--bogus"], USAGE),
        (&["run", "--config"], USAGE),
        (&["config"], USAGE),
        (&["config", "check"], USAGE),
        (&["catalog", "--format", "xml"], USAGE),
        (&["config", "check", &full], SUCCESS),
        (&["config", "check", &wrong], CONFIGURATION),
        (&["config", "check", "/nowhere/config.yaml"], CONFIGURATION),
        (&["config", "migrate", &old], SUCCESS),
        (
            &["config", "migrate", "/nowhere/config.json"],
            CONFIGURATION,
        ),
        (&["config", "reference"], SUCCESS),
        (&["run", "--config", &wrong], CONFIGURATION),
        (&["run", "--config", "/nowhere/config.yaml"], CONFIGURATION),
        (&["run", "--metrics-address", "x"], CONFIGURATION),
    ];
    for (arguments, code) in table {
        let (exit, out, err) = megamon(arguments);
        assert_eq!(exit, *code, "{arguments:?}: {out}{err}");
        let to_err = *code != SUCCESS && arguments.get(1) != Some(&"check")
            || *code == USAGE
            || arguments.get(1) == Some(&"migrate");
        assert_eq!(!err.is_empty(), to_err, "{arguments:?}: {err}");
        let _ = FAILURE;
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
    let (_, _, err) = megamon(&["run", "--history", "s3://bucket/path"]);
    assert_eq!(
        err,
        "--history: s3:// is not supported by this version, expected file:///absolute/path or memory:\n"
    );
}
