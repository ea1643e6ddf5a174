//! A client of the etcd v3 API, for Kontiki and for etcd itself.

pub mod proto;
