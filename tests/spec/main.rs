//! The rules as specifications: vectors, the cases of the contract, properties, the map of rooms.

#![expect(unreachable_pub, reason = "a test crate has no outside")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may panic"
)]

mod cases;
mod log;
mod map;
mod properties;
mod readme;
mod vectors;
mod world;
