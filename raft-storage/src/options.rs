//! Whose log it is, and how it is kept.

use std::fmt;
use std::sync::Arc;

use raft_core::NodeId;

use crate::{Disk, OptionsError, RealDisk};

/// Which node of which cluster a log belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The cluster.
    pub cluster_id: u64,
    /// The node.
    pub node_id: NodeId,
}

/// What is written into a log when it is made, and never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The cluster.
    pub cluster_id: u64,
    /// The node.
    pub node_id: NodeId,
    /// A random number drawn by the caller for this disk. A node whose disk was lost has another
    /// one, so that its peers can tell that its promises are gone.
    pub incarnation: u64,
}

impl Identity {
    /// The part of it that names the node.
    pub fn owner(&self) -> Owner {
        Owner { cluster_id: self.cluster_id, node_id: self.node_id }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} of cluster {:x}", self.node_id, self.cluster_id)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, disk {:x}", self.owner(), self.incarnation)
    }
}

/// How a log is kept. The defaults are for production.
#[derive(Clone, Debug)]
pub struct Options {
    /// The disk. Default: the one of the operating system.
    pub disk: Arc<dyn Disk>,
    /// How large a segment is once the log has grown: a new log begins with
    /// [`FIRST_SEGMENT_BYTES`](Self::FIRST_SEGMENT_BYTES), and each segment is at most four times
    /// as large as the one before. A larger batch gets a segment of its own size. 64 MiB.
    pub segment_bytes: u64,
    /// Who fills the next segment with zeros. Default: a thread of its own.
    pub preparation: Preparation,
    /// What becomes of a log that is damaged. Default: it is repaired.
    pub on_damage: OnDamage,
    /// Where the state is that the log has let go of. Default: in the snapshot beside it.
    pub state_kept: StateKept,
}

/// Where the state is up to the log's base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateKept {
    /// In the snapshot that the log was told of: a log without it is damaged.
    InSnapshot,
    /// With whoever applies the log: a snapshot is of use to others alone, and may be missing.
    Elsewhere,
}

/// What opening does with a damaged log whose promises are certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDamage {
    /// Sets aside what is damaged, goes on with what is not, and notes what the log held.
    Repair,
    /// Changes nothing, and says what is damaged.
    Refuse,
}

/// Who takes the space of the next segment and fills it with zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// A thread beside the writer, ahead of need, so that an append never waits for it.
    Background,
    /// The writer, when the segment is full: every operation in one order, for simulations.
    Inline,
}

impl Options {
    /// The size of the first segment of a log, at most: small, so that a new node starts at once.
    pub const FIRST_SEGMENT_BYTES: u64 = 1 << 20;
    /// The smallest `segment_bytes` that is accepted.
    pub const SEGMENT_BYTES_MIN: u64 = 4096;

    /// The defaults on this disk.
    pub fn on(disk: Arc<dyn Disk>) -> Self {
        Self {
            disk,
            segment_bytes: 64 << 20,
            preparation: Preparation::Background,
            on_damage: OnDamage::Repair,
            state_kept: StateKept::InSnapshot,
        }
    }

    /// Refuses settings that cannot work.
    ///
    /// # Errors
    /// The setting, with the reason.
    pub fn validate(&self) -> Result<(), OptionsError> {
        if self.segment_bytes < Self::SEGMENT_BYTES_MIN {
            return Err(OptionsError::SegmentTooSmall(self.segment_bytes));
        }
        Ok(())
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::on(Arc::new(RealDisk))
    }
}
