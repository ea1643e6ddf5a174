//! Random histories of whole clusters. A failure prints its seed and one command that replays it.

mod joint;
mod partial_partitions;
mod storms;
