//! The engine as its users meet it: real nodes, real threads, short real times.

mod builder;
mod kit;
mod leadership;
mod members;
mod node;
mod sessions;
mod snapshots;
