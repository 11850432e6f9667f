//! What the program is for, played through on real servers.

mod away;
mod gke_pools;
mod jobset_life;
mod node_pool;
mod outages;
mod outlets;
mod soak;
