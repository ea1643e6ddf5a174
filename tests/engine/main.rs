//! The engine as its users meet it: real nodes, real threads, short real times.

mod builder;
mod kit;
mod node;
