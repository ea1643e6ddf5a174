//! The write-ahead log of Kontiki. Blocking std; it never touches tokio, a network or a clock.

mod disk;
mod error;
mod options;
mod wal;

pub use disk::{Access, Disk, DiskFile, DiskLock, RealDisk};
pub use error::{CreateError, Damage, DiskError, OpenError, OptionsError, WalError};
pub use options::{Identity, Options, Owner, Preparation};
pub use wal::{Recovered, Wal, WalReader};
