//! Which keys a request means: etcd writes it as a key and a range end.

use std::ops::Bound;

use bytes::Bytes;

use super::format::KEY_BYTES_MAX;

/// A set of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Span {
    /// No key at all.
    Empty,
    /// One key.
    Point(Bytes),
    /// All keys from `start` on, and before `end` where there is one; `start < end`.
    Range { start: Bytes, end: Option<Bytes> },
}

impl Span {
    /// An empty `range_end` means the one key, a zero byte means all keys from `key` on.
    pub fn new(key: &Bytes, range_end: &Bytes) -> Self {
        match &range_end[..] {
            [] if key.len() > KEY_BYTES_MAX => Self::Empty,
            [] => Self::Point(key.clone()),
            [0] => Self::Range { start: clamp(key), end: None },
            _ if range_end <= key => Self::Empty,
            _ => {
                let (start, end) = (clamp(key), clamp(range_end));
                if start < end { Self::Range { start, end: Some(end) } } else { Self::Empty }
            }
        }
    }

    /// The bounds of the span.
    pub fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        match self {
            Self::Empty => (Bound::Included(b""), Bound::Excluded(b"")),
            Self::Point(key) => (Bound::Included(key), Bound::Included(key)),
            Self::Range { start, end } => (
                Bound::Included(start),
                end.as_ref().map_or(Bound::Unbounded, |end| Bound::Excluded(end)),
            ),
        }
    }
}

/// A bound longer than any key, as the shortest bound that parts the keys in the same way.
fn clamp(bound: &Bytes) -> Bytes {
    if bound.len() <= KEY_BYTES_MAX {
        return bound.clone();
    }
    let mut short = Vec::with_capacity(KEY_BYTES_MAX + 1);
    short.extend_from_slice(&bound[..KEY_BYTES_MAX]);
    short.push(0);
    short.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_follow_the_rules_of_range_end() {
        let span = |key: &'static [u8], end: &'static [u8]| {
            Span::new(&Bytes::from_static(key), &Bytes::from_static(end))
        };
        let range = |start: &'static [u8], end: Option<&'static [u8]>| Span::Range {
            start: Bytes::from_static(start),
            end: end.map(Bytes::from_static),
        };
        assert_eq!(span(b"a", b""), Span::Point(Bytes::from_static(b"a")));
        assert_eq!(span(b"a", b"\0"), range(b"a", None));
        assert_eq!(span(b"\0", b"\0"), range(b"\0", None));
        assert_eq!(span(b"a", b"b"), range(b"a", Some(b"b")));
        assert_eq!(span(b"b", b"a"), Span::Empty);
        assert_eq!(span(b"a", b"a"), Span::Empty);
        assert_eq!(span(b"a", b"\0\0"), Span::Empty);
    }

    #[test]
    fn a_bound_longer_than_any_key_parts_the_keys_as_before() {
        let long = |last: u8| {
            let mut key = vec![7; KEY_BYTES_MAX];
            key.push(last);
            key.push(last);
            Bytes::from(key)
        };
        let longest = Bytes::from(vec![7; KEY_BYTES_MAX]);
        for bound in [long(0), long(9)] {
            assert!(longest < bound && longest < clamp(&bound));
            assert!(Bytes::from_static(&[8]) > clamp(&bound));
        }
        assert_eq!(Span::new(&long(1), &long(2)), Span::Empty);
        assert_eq!(Span::new(&long(1), &Bytes::new()), Span::Empty);
    }
}
