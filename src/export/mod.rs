//! The outlets: one meter provider with one shared reader, from which the Prometheus outlet and
//! the OTLP push both collect.
//!
//! - [`provider`] builds it all; [`reader`] is the reader, and the lock under which a collection
//!   reads one snapshot at one `now`; [`recorder`] takes measurements.
//! - [`text`] is the Prometheus outlet.

pub mod provider;
pub mod reader;
pub mod recorder;
pub mod text;

mod families;
mod labels;
mod lines;

#[cfg(test)]
mod tests;
