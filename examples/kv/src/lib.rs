//! A replicated key-value store on Kontiki that speaks the etcd v3 API.

pub mod admin;
pub mod backup;
pub mod config;
pub mod ports;
pub mod proto;
pub mod server;
pub mod store;
