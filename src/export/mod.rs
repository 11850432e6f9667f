//! (room of export)
