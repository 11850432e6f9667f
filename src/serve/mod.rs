//! (room of serve)
