//! Our own adapters pass the suites for adapters, and broken ones do not.

mod careless;
mod log_store;
mod snapshot_store;
mod transport;
