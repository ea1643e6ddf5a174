//! Raft in stories: small clusters, told line by line. See `teller.rs` for what can be said.

mod book;
mod group;
mod post;
mod teller;
mod words;

mod check_quorum;
mod commit;
mod compaction;
mod conflicts;
mod durability;
mod elections;
mod flow;
mod joint;
mod learners;
mod lease;
mod logs;
mod membership;
mod pre_vote;
mod promotion;
mod reads;
mod removed;
mod repair;
mod requests;
mod snapshots;
mod stall;
mod starting;
mod transfer;
mod votes;
