//! Tests of the outlets.
