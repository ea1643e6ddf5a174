//! Writes a snapshot under a name that does not count, block after block, and publishes it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use raft_core::{LogPosition, Snapshot, SnapshotOffer, SnapshotSink, seeded};

use super::format::{
    BLOCK_BYTES, BLOCK_DATA_BYTES, BLOCK_HEAD_BYTES, Header, Name, Trailer, is_sound, salt_of, seal,
};
use super::source::read_header;
use super::{Place, StoreError};
use crate::check::Running;
use crate::disk::{Access, DiskFile, read_full, write_full};
use crate::error::{DiskError, SnapshotError};

/// How much is written before it is synced: one sync of gigabytes at the end would keep the log's
/// own syncs waiting.
const SYNC_BYTES: u64 = 8 << 20;

/// A snapshot that is being written.
pub(super) struct Sink {
    place: Arc<Place>,
    path: PathBuf,
    last: LogPosition,
    file: Arc<dyn DiskFile>,
    purpose: Purpose,
    /// Where the blocks start.
    start: u64,
    salt: u32,
    /// How many blocks are written.
    blocks: u64,
    /// The next block, with room for its head.
    block: Vec<u8>,
    check: Running,
    unsynced: u64,
    /// What becomes of the file when this is dropped.
    fate: Fate,
}

#[derive(Clone, Copy)]
enum Purpose {
    Build,
    /// What was offered, and whose turn it is to be received.
    Receive {
        len_bytes: u64,
        check: u32,
        turn: u64,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Published,
    /// It goes on later.
    Kept,
    Removed,
}

impl Sink {
    pub(super) fn building(
        place: Arc<Place>,
        path: PathBuf,
        snapshot: &Snapshot,
    ) -> Result<Self, DiskError> {
        let header = place.header(snapshot);
        Self::begin(&place, &path, &header, Purpose::Build).inspect_err(|_| {
            // What is left of it stands in nobody's way.
            let _ = place.disk.remove(&path);
            place.busy().remove(&path);
        })
    }

    /// Goes on behind the sound blocks of this transfer, if there are any. They are written again
    /// as they are: the kernel may have dropped their pages after a sync that failed and show them
    /// nevertheless, and the next sync would say that all is well.
    pub(super) fn receiving(
        place: Arc<Place>,
        path: PathBuf,
        offer: &SnapshotOffer,
        turn: u64,
    ) -> Result<Self, DiskError> {
        let header = place.header(&offer.snapshot);
        let (len_bytes, check) = (offer.len_bytes, offer.check);
        let purpose = Purpose::Receive { len_bytes, check, turn };
        let Ok(file) = place.disk.open(&path, Access::ReadWrite) else {
            return Self::begin(&place, &path, &header, purpose);
        };
        match read_header(&*file, &path) {
            Ok((found, bytes)) if found == header => {
                let mut sink = Self::new(&place, &path, &header, file, &bytes, purpose);
                write_full(&*sink.file, &bytes, 0)
                    .map_err(|error| sink.error("write", 0, error))?;
                sink.find_blocks()?;
                Ok(sink)
            }
            Ok(_) | Err(_) => Self::begin(&place, &path, &header, purpose),
        }
    }

    fn begin(
        place: &Arc<Place>,
        path: &Path,
        header: &Header,
        purpose: Purpose,
    ) -> Result<Self, DiskError> {
        let error = |verb| move |error| DiskError::new(verb, path, 0, error);
        let file = place.disk.create(path).map_err(error("create"))?;
        let bytes = header.encode();
        write_full(&*file, &bytes, 0).map_err(error("write"))?;
        if let Purpose::Receive { .. } = purpose {
            // So that it can be gone on with after a power cut.
            file.sync_data().map_err(error("sync"))?;
            place.sync_dir()?;
        }
        Ok(Self::new(place, path, header, file, &bytes, purpose))
    }

    fn new(
        place: &Arc<Place>,
        path: &Path,
        header: &Header,
        file: Arc<dyn DiskFile>,
        header_bytes: &[u8],
        purpose: Purpose,
    ) -> Self {
        let fate = match purpose {
            Purpose::Build => Fate::Removed,
            Purpose::Receive { .. } => Fate::Kept,
        };
        Self {
            place: Arc::clone(place),
            path: path.to_owned(),
            last: header.snapshot.last,
            file,
            purpose,
            start: header_bytes.len() as u64,
            salt: salt_of(header_bytes),
            blocks: 0,
            block: vec![0; BLOCK_HEAD_BYTES],
            check: Running::new(),
            unsynced: 0,
            fate,
        }
    }

    /// Takes the whole blocks that are there and sound. They are read from the disk, not believed.
    fn find_blocks(&mut self) -> Result<(), DiskError> {
        let mut bytes = vec![0; BLOCK_BYTES];
        while let Purpose::Receive { len_bytes, .. } = self.purpose
            && (self.blocks + 1) * BLOCK_DATA_BYTES as u64 <= len_bytes
        {
            let offset = self.end();
            let read = read_full(&*self.file, &mut bytes, offset)
                .map_err(|error| self.error("read", offset, error))?;
            if read != BLOCK_BYTES || !is_sound(&bytes, self.salt, self.blocks) {
                break;
            }
            write_full(&*self.file, &bytes, offset)
                .map_err(|error| self.error("write", offset, error))?;
            self.check.update(&bytes[BLOCK_HEAD_BYTES..]);
            self.blocks += 1;
            self.unsynced += BLOCK_BYTES as u64;
            if self.unsynced >= SYNC_BYTES {
                self.sync()?;
            }
        }
        Ok(())
    }

    /// Where the next block goes.
    fn end(&self) -> u64 {
        self.start + self.blocks * BLOCK_BYTES as u64
    }

    fn len_bytes(&self) -> u64 {
        let begun = self.block.len() - BLOCK_HEAD_BYTES;
        self.blocks * BLOCK_DATA_BYTES as u64 + begun as u64
    }

    fn flush_block(&mut self) -> Result<(), DiskError> {
        let offset = self.end();
        seal(&mut self.block, self.salt, self.blocks);
        self.check.update(&self.block[BLOCK_HEAD_BYTES..]);
        write_full(&*self.file, &self.block, offset)
            .map_err(|error| self.error("write", offset, error))?;
        self.unsynced += self.block.len() as u64;
        self.block.truncate(BLOCK_HEAD_BYTES);
        self.blocks += 1;
        if self.unsynced >= SYNC_BYTES {
            self.sync()?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DiskError> {
        self.unsynced = 0;
        self.file.sync_data().map_err(|error| {
            // What was written may look as if it were there, and a second sync would say so.
            self.fate = Fate::Removed;
            self.error("sync", 0, error)
        })
    }

    fn append(&mut self, mut bytes: &[u8]) -> Result<(), SnapshotError> {
        self.check_turn()?;
        if let Purpose::Receive { len_bytes, .. } = self.purpose
            && self.len_bytes() + bytes.len() as u64 > len_bytes
        {
            self.fate = Fate::Removed;
            return Err(self.not_offered("it is longer"));
        }
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at((BLOCK_BYTES - self.block.len()).min(bytes.len()));
            self.block.extend_from_slice(now);
            bytes = later;
            if self.block.len() == BLOCK_BYTES {
                self.flush_block()?;
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SnapshotError> {
        self.check_turn()?;
        let len_bytes = self.len_bytes();
        let mut offset = self.end();
        if self.block.len() > BLOCK_HEAD_BYTES {
            offset += self.block.len() as u64;
            self.flush_block()?;
        }
        let trailer = Trailer { len_bytes, check: self.check.finish() };
        if let Purpose::Receive { len_bytes, check, .. } = self.purpose
            && !seeded!(SnapshotCheckIgnored)
            && trailer != (Trailer { len_bytes, check })
        {
            // Nobody knows which of its bytes are wrong: from the start again.
            self.fate = Fate::Removed;
            return Err(self.not_offered("its bytes have another length or checksum"));
        }
        write_full(&*self.file, &trailer.encode(), offset)
            .map_err(|error| self.error("write", offset, error))?;
        let end = offset + trailer.encode().len() as u64;
        self.file.set_len(end).map_err(|error| self.error("resize", end, error))?;
        if !seeded!(SnapshotNotSynced) {
            self.sync()?;
        }
        let target = self.place.dir.join(Name::Whole(self.last).file());
        let renamed = self.place.disk.rename(&self.path, &target);
        renamed.map_err(|error| self.error("rename", 0, error))?;
        self.fate = Fate::Published;
        if seeded!(SnapshotNameNotSynced) {
            return Ok(());
        }
        Ok(self.place.sync_dir()?)
    }

    /// Two that write to one file would spoil it: the older one stops.
    fn check_turn(&self) -> Result<(), SnapshotError> {
        match self.purpose {
            Purpose::Receive { turn, .. } if turn != *self.place.turn() => {
                Err(SnapshotError::Replaced { file: self.path.clone() })
            }
            Purpose::Receive { .. } | Purpose::Build => Ok(()),
        }
    }

    fn not_offered(&self, reason: &'static str) -> SnapshotError {
        SnapshotError::NotOffered { file: self.path.clone(), reason }
    }

    fn error(&self, verb: &'static str, offset: u64, error: std::io::Error) -> DiskError {
        DiskError::new(verb, &self.path, offset, error)
    }
}

impl SnapshotSink for Sink {
    fn offset(&self) -> u64 {
        self.len_bytes()
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        Ok(self.append(bytes)?)
    }

    fn publish(mut self: Box<Self>) -> Result<(), StoreError> {
        Ok(self.finish()?)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if let Purpose::Build = self.purpose {
            self.place.busy().remove(&self.path);
        }
        // A replaced one owns the file no more.
        if self.fate == Fate::Removed
            && self.check_turn().is_ok()
            && let Err(error) = self.place.disk.remove(&self.path)
        {
            tracing::debug!(file = %self.path.display(), %error, "an unfinished snapshot stays");
        }
    }
}
