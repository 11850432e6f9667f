//! (room of export)

mod outlet;

pub mod otlp;
pub mod report;
pub mod traces;

pub use outlet::Outlet;
