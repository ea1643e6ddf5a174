//! placeholder
mod batch;
mod check;
mod disk;
mod error;
mod frame;
mod inspect;
mod map;
mod meta;
mod open;
mod options;
mod preamble;
mod prepare;
mod reader;
mod replay;
mod sector;
mod segment;
mod state;
mod stream;
mod wal;

pub use disk::{Access, Disk, DiskFile, DiskLock, RealDisk};
pub use error::{CreateError, Damage, DiskError, OpenError, OptionsError, WalError};
pub use inspect::{
    EntryReport, HardStateReport, LogReport, MetaCopyReport, Report, SegmentReport, Verdict,
    inspect, inspect_on,
};
pub use open::Recovered;
pub use options::{Identity, Options, Owner, Preparation};
pub use reader::WalReader;
pub use wal::Wal;
