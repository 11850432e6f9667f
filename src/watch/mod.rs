//! (room of watch)
