//! State that is not part of a node's identity: times, randomness, scratch space.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::{Deref, DerefMut};

/// Left out of equality and hashing, so that a model checker sees two nodes that differ only
/// in a time as one.
#[derive(Clone, Copy, Default)]
pub(crate) struct Untracked<T>(pub(crate) T);

impl<T> PartialEq for Untracked<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for Untracked<T> {}

impl<T> Hash for Untracked<T> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl<T: fmt::Debug> fmt::Debug for Untracked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> Deref for Untracked<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Untracked<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
