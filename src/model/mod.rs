//! The words of the fleet: what is observed (facts), what is judged (availability), what is kept
//! (events). Plain values; this room knows no crate beyond serde and a time type.

mod attributes;
mod availability;
mod event;
mod facts;
mod family;
mod topology;

pub use attributes::Attributes;
pub use availability::{Availability, Counts};
pub use event::{Bounds, Event, ObjectKey};
pub use facts::{
    JobSet, LeaderWorkerSet, Node, NodePool, Observation, Operation, Owner, Pod, Readiness, Slice,
    Source, Undecodable, Update,
};
pub use family::Family;
pub use topology::{Topology, machine_chips};
