//! Builds the configuration types from the schema.
fn main() {}
