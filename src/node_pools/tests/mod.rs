//! The polling on a paused clock, and the GKE source against a stand-in that answers by a script.

mod gke;
mod polling;
mod stand_in;
