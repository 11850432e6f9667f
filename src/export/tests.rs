//! Tests of the outlets, on fleets built by hand.

mod encoding;
mod fleet;
mod published;
mod series;
