//! Replies become messages, and large ones pieces, for clients that asked for it.

use std::sync::Arc;

use prost::Message;

use super::queue::{Content, Happening, Previous, Reply, Showing};
use crate::proto::etcdserverpb::{ResponseHeader, WatchResponse};
use crate::proto::mvccpb::Event;

/// The messages of a reply, one after the other.
pub(super) struct Messages {
    head: WatchResponse,
    events: std::vec::IntoIter<Arc<Happening>>,
    showing: Showing,
    /// Comes first in the next message.
    held: Option<Event>,
    bytes_max: usize,
    is_done: bool,
}

impl Messages {
    /// `bytes_max` is what a message has at most if it is one of several.
    pub fn new(reply: Reply, header: Option<ResponseHeader>, bytes_max: usize) -> Self {
        let mut head = WatchResponse { header, watch_id: reply.watch_id, ..Default::default() };
        let mut events = (Vec::new(), Showing { previous: false, fragments: false });
        match reply.content {
            Content::Created => head.created = true,
            Content::Refused(reason) => {
                (head.created, head.canceled) = (true, true);
                head.cancel_reason = reason.to_owned();
            }
            Content::Events(happenings, showing) => events = (happenings, showing),
            Content::Canceled => head.canceled = true,
            Content::Compacted(revision) => {
                (head.canceled, head.compact_revision) = (true, revision);
            }
            Content::Progress => {}
        }
        let (events, showing) = (events.0.into_iter(), events.1);
        Self { head, events, showing, held: None, bytes_max, is_done: false }
    }

    fn event(&mut self) -> Option<Event> {
        self.held.take().or_else(|| {
            let happening = self.events.next()?;
            let mut event = happening.event.clone();
            if self.showing.previous
                && let Previous::Was(kv) = &happening.previous
            {
                event.prev_kv = Some(kv.clone());
            }
            Some(event)
        })
    }
}

impl Iterator for Messages {
    type Item = WatchResponse;

    fn next(&mut self) -> Option<WatchResponse> {
        if self.is_done {
            return None;
        }
        let mut message = self.head.clone();
        // The flag itself takes two bytes.
        let mut bytes = message.encoded_len() + 2;
        while let Some(event) = self.event() {
            let len = event.encoded_len();
            bytes += 1 + prost::length_delimiter_len(len) + len;
            if self.showing.fragments && !message.events.is_empty() && bytes >= self.bytes_max {
                self.held = Some(event);
                message.fragment = true;
                return Some(message);
            }
            message.events.push(event);
        }
        self.is_done = true;
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::mvccpb::KeyValue;

    fn reply(count: i64, fragments: bool) -> Reply {
        let happening = |mod_revision| {
            let (key, value) = ("key".into(), vec![b'v'; 100].into());
            let kv = KeyValue { key, value, mod_revision, ..KeyValue::default() };
            let before = KeyValue { value: "before".into(), ..kv.clone() };
            let event = Event { kv: Some(kv), ..Event::default() };
            Arc::new(Happening::new(event, Previous::Was(before)))
        };
        let showing = Showing { previous: true, fragments };
        let content = Content::Events((1..=count).map(happening).collect(), showing);
        Reply { watch_id: 7, revision: 9, content }
    }

    #[test]
    fn a_large_reply_is_one_message_or_pieces_below_the_bound() {
        let messages = |fragments, bytes_max| -> Vec<_> {
            Messages::new(reply(10, fragments), None, bytes_max).collect()
        };
        let [whole] = &messages(false, 100)[..] else { panic!("it is not to be split") };
        assert!(!whole.fragment && whole.events.len() == 10);
        let [small] = &messages(true, whole.encoded_len() + 3)[..] else { panic!("it is small") };
        assert_eq!(small, whole);
        for bytes_max in [1, 100, 300, 700, whole.encoded_len()] {
            let pieces = messages(true, bytes_max);
            assert!(pieces.len() > 1, "{bytes_max}");
            for (number, piece) in pieces.iter().enumerate() {
                assert_eq!(piece.fragment, number + 1 < pieces.len(), "{bytes_max}");
                assert!(piece.encoded_len() < bytes_max || piece.events.len() == 1, "{piece:?}");
                assert_eq!(piece.watch_id, 7);
            }
            let events: Vec<_> = pieces.into_iter().flat_map(|piece| piece.events).collect();
            assert_eq!(events, whole.events);
        }
    }

    #[test]
    fn what_was_there_before_is_shown_to_who_wants_it() {
        let mut reply = reply(1, false);
        let shown = |reply| Messages::new(reply, None, 0).flat_map(|it| it.events).next();
        assert!(shown(reply.clone()).is_some_and(|event| event.prev_kv.is_some()));
        let Content::Events(_, showing) = &mut reply.content else { panic!("it has events") };
        showing.previous = false;
        assert!(shown(reply).is_some_and(|event| event.prev_kv.is_none()));
    }
}
