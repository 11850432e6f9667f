//! Tests of the configuration as a whole.

mod documentation;
mod migration;
mod precedence;
mod problems;

use std::path::PathBuf;

/// A fixture by its name.
fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/config")
        .join(name)
}
