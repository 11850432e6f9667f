//! The outlets: one meter provider with one shared reader, from which the Prometheus outlet and
//! the OTLP push both collect; the reports; the traces.
//!
//! - [`provider`] builds it all; [`reader`] is the reader, and the lock under which a collection
//!   reads one snapshot at one `now`; [`recorder`] takes measurements.
//! - [`text`] is the Prometheus outlet, [`otlp`] the push, [`report`] the report exporters.

mod families;
mod labels;
mod lines;
pub mod otlp;
mod outlet;
pub mod provider;
pub mod reader;
pub mod recorder;
pub mod report;
pub mod text;
pub mod traces;

#[cfg(test)]
mod tests;

pub use outlet::Outlet;
