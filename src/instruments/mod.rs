//! (room of instruments)
