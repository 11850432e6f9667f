//! MegaMon: availability, interruptions, recovery and provisioning of accelerator fleets on
//! Kubernetes, kept durably and published as OpenTelemetry metrics.
//!
//! The flow has one direction, and reading order is import order: a module imports only modules
//! above it in this list (`tests/spec/map.rs` enforces it).
//!
//! ```text
//! Kubernetes, cloud APIs
//!   -> watch, node_pools   wire objects to facts
//!   -> observed            the sole owner of the current state; joins; yields changes
//!   -> availability        up or down, expected or not, and since when
//!   -> summary             pure fold of events and a `now`
//!   -> history             durable event log; its snapshots hold folds
//!   -> snapshot            one immutable state that readers hold
//!   -> fleet               one turn: observe, judge, append, fold, publish
//!   -> instruments         the table of what is published
//!   -> export, serve       Prometheus, OTLP, report; HTTP
//!   wired together in run
//! ```

pub mod availability;
pub mod cli;
pub mod clock;
pub mod config;
pub mod export;
pub mod fleet;
pub mod history;
pub mod instruments;
pub mod logs;
pub mod measure;
pub mod model;
pub mod node_pools;
pub mod observed;
pub mod run;
pub mod serve;
pub mod snapshot;
pub mod summary;
pub mod watch;
