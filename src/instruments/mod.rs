//! What is published, as one closed table: for each instrument its name, kind, unit, description,
//! attributes, family, and how its values are read off a snapshot.
//!
//! - [`catalogue`] is the table; documentation, alerts and dashboards are checked against it.
//! - [`readout`] is what one collection publishes: a snapshot at one `now`, below the series limits.
//! - [`observe`] makes the instruments of the table, whose callbacks only read that.

pub mod catalogue;
pub mod names;
pub mod observe;
pub mod own;
pub mod readout;
pub mod render;

mod attributes;
mod family;
mod limit;
mod value;

pub use catalogue::{Instrument, Kind, OWN, Scope, catalogue};
pub use names::scope_of;

#[cfg(test)]
pub(crate) mod tests;
