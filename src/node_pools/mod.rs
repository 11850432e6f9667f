//! (room of node_pools)
