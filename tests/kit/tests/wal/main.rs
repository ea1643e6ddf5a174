//! The write-ahead log on a disk that forgets, tears and changes what it was given.

mod compaction;
mod copies;
mod crash;
mod damage;
mod faults;
mod golden;
mod model;
mod opening;
mod reading;
mod recover;
mod repair;
mod scrub;
mod snapshots;
mod survey;
