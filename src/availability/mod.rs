//! Up or down, expected or not, and since when: pure rules over changes, deadlines and first
//! sight. Every true time of an event comes from here and from nowhere else.
//!
//! An object's [`Track`] holds what is known of it in time: a sealed state, and the dated steps
//! since. Sealing puts the steps in the order in which they *happened* and reads the events off:
//!
//! ```text
//!  sealed state      steps, by the API's own times                        seal
//!      |--------- A not ready --- B not ready --- A ready ------------------|
//!   up, expected 2    ^ down, dated by A                                    (C's deletion: seen)
//! ```
//!
//! so that the order in which the facts of several nodes arrive within one commit does not matter.

mod deadlines;
mod first_sight;
mod lives;
mod members;
mod steps;
mod track;

pub use deadlines::Deadlines;
pub use first_sight::{Start, known};
pub use lives::{failed_at, state_changed_at};
pub use members::{MemberSteps, member_steps, ready_at_watermark};
pub use steps::{Delta, Flip, State, Step, replay};
pub use track::{Sealed, Track};
