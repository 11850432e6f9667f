//! The rules as specifications: vectors, the cases of the contract, properties, the map of rooms.

#![expect(unreachable_pub, reason = "a test crate has no outside")]

mod cases;
mod log;
mod map;
mod properties;
mod vectors;
mod world;
