//! Every message survives the wire; whatever else comes is refused, and never a panic.

mod common;

use std::sync::Arc;

use bytes::Bytes;
use common::id;
use proptest::collection::vec;
use proptest::prelude::*;
use raft_core::{
    Append, AppendReply, Entry, Envelope, Index, Instant, LogPosition, Membership, Message,
    Payload, Refusal, RequestId, Requests, Round, Term,
};
use raft_grpc::{DecodeError, wire};

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..4u64, any::<u64>().prop_map(|it| it >> 1)]
}

fn position() -> impl Strategy<Value = LogPosition> {
    (number(), number())
        .prop_map(|(term, index)| LogPosition { term: Term(term), index: Index(index) })
}

fn payload() -> impl Strategy<Value = Payload> {
    let command = vec(any::<u8>(), 0..40).prop_map(|it| Payload::Command(Bytes::from(it)));
    let membership = vec(1..99u64, 1..5).prop_map(|ids| {
        let voters: std::collections::BTreeSet<_> = ids.into_iter().map(id).collect();
        let membership = Membership::new(voters).expect("at least one voter");
        Payload::Membership(Arc::new(membership))
    });
    prop_oneof![1 => Just(Payload::Empty), 4 => command, 1 => membership]
}

fn append() -> impl Strategy<Value = Message> {
    let index = (number(), 0..1u64 << 62);
    (index, vec((1..4u64, payload()), 0..12), number()).prop_map(|((term, at), all, commit)| {
        let previous = LogPosition { term: Term(term), index: Index(at) };
        let entry =
            |(index, (term, payload))| Entry { index: Index(index), term: Term(term), payload };
        let entries = (at + 1..).zip(all).map(entry).collect();
        Message::Append(Append { previous, entries, commit: Index(commit) })
    })
}

fn append_reply() -> impl Strategy<Value = Message> {
    let accept = number().prop_map(|it| AppendReply::Accept { matched: Index(it) });
    let reject = (number(), position()).prop_map(|(at, hint)| AppendReply::Reject {
        previous: Index(at),
        hint,
        repairing: at % 2 == 1,
    });
    prop_oneof![accept, reject].prop_map(Message::AppendReply)
}

fn propose() -> impl Strategy<Value = Message> {
    (any::<u64>(), number(), vec(payload(), 1..12)).prop_map(|(session, first, payloads)| {
        let requests = Requests { first: RequestId(first), count: payloads.len() as u64 };
        let entry = |payload| Entry { index: Index::ZERO, term: Term::ZERO, payload };
        let entries = payloads.into_iter().map(entry).collect();
        Message::Propose { session, requests, entries }
    })
}

fn propose_reply() -> impl Strategy<Value = Message> {
    let refusal = prop_oneof![
        any::<u64>().prop_map(|it| Refusal::NotLeader { leader: raft_core::NodeId::new(it) }),
        Just(Refusal::NotLeader { leader: None }),
        Just(Refusal::Overloaded),
        Just(Refusal::TooLarge),
        Just(Refusal::StorageFailed),
    ];
    let outcome = prop_oneof![number().prop_map(|it| Ok(Index(it))), refusal.prop_map(Err)];
    (number(), 1..1000u64, outcome).prop_map(|(first, count, outcome)| {
        let requests = Requests { first: RequestId(first), count };
        Message::ProposeReply { requests, outcome }
    })
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        position().prop_map(|last| Message::PreVote { last }),
        (number(), any::<bool>())
            .prop_map(|(asked, granted)| Message::PreVoteReply { asked: Term(asked), granted }),
        (position(), any::<bool>()).prop_map(|(last, transfer)| Message::Vote { last, transfer }),
        any::<bool>().prop_map(|granted| Message::VoteReply { granted }),
        append(),
        append_reply(),
        (number(), any::<u64>(), any::<u64>()).prop_map(|(commit, round, sent)| {
            Message::Heartbeat {
                commit: Index(commit),
                round: Round(round),
                sent_at: Instant(sent),
            }
        }),
        any::<[u64; 2]>().prop_map(|[round, sent]| Message::HeartbeatReply {
            round: Round(round),
            sent_at: Instant(sent),
        }),
        Just(Message::TimeoutNow),
        number().prop_map(|commit| Message::Commit { commit: Index(commit) }),
        any::<u64>().prop_map(|question| Message::Read { question: Round(question) }),
        (any::<u64>(), number()).prop_map(|(question, index)| Message::ReadReply {
            question: Round(question),
            index: Index(index)
        }),
        propose(),
        propose_reply(),
    ]
}

fn envelopes() -> impl Strategy<Value = Vec<Envelope>> {
    let envelope = (number(), message()).prop_map(|(term, message)| Envelope {
        from: id(1),
        to: id(2),
        term: Term(term),
        message,
    });
    vec(envelope, 0..6)
}

proptest! {
    #[test]
    fn every_message_survives_the_wire(sent in envelopes()) {
        let received = wire::decode(wire::encode(&sent), id(1), id(2));
        prop_assert_eq!(received, Ok(sent));
    }

    #[test]
    fn garbage_is_refused_or_means_something(bytes in vec(any::<u8>(), 0..200)) {
        let _ = wire::decode(Bytes::from(bytes), id(1), id(2));
    }

    #[test]
    fn damaged_messages_never_panic(
        sent in envelopes(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = wire::encode(&sent).to_vec();
        prop_assume!(!bytes.is_empty());
        for (place, value) in damage {
            *place.get_mut(&mut bytes) = value;
        }
        // What still decodes is a message that can be encoded again.
        if let Ok(received) = wire::decode(Bytes::from(bytes), id(1), id(2)) {
            prop_assert_eq!(wire::decode(wire::encode(&received), id(1), id(2)), Ok(received));
        }
    }

    #[test]
    fn the_wire_takes_no_more_than_the_bounds_count(sent in envelopes()) {
        let counted: usize = sent.iter().map(wire::size_bytes).sum();
        prop_assert!(wire::encode(&sent).len() <= counted);
    }
}

#[test]
fn payloads_are_not_copied() {
    let sent = common::append(1, 2, 1, &[500, 500]);
    let bytes = wire::encode(&[sent]);
    let place = bytes.as_ptr_range();
    let received = wire::decode(bytes, id(1), id(2)).expect("decodes");
    for entry in common::appended(&received[0]).entries.iter() {
        let Payload::Command(payload) = &entry.payload else { panic!("a command") };
        assert!(place.contains(&payload.as_ptr()));
    }
}

#[test]
fn the_field_that_makes_no_sense_is_named() {
    // By hand: envelope { term: 2^63, vote_reply {} }.
    let mut bytes = vec![0x0a, 13, 0x10];
    bytes.extend([0x80; 9]);
    bytes.extend([0x01, 0x72, 0x00]);
    let error = wire::decode(Bytes::from(bytes), id(1), id(2)).expect_err("refused");
    assert!(error.to_string().starts_with("envelope.term is 9223372036854775808"), "{error}");

    // envelope { group: 3 }, envelope {}.
    for (bytes, named) in [
        (vec![0x0a, 2, 0x08, 3], "envelope.group is 3"),
        (vec![0x0a, 0], "envelope.message is missing"),
        // append { runs { count: 1 } }, append { payloads: "" }.
        (vec![0x0a, 6, 0x1a, 4, 0x22, 2, 0x10, 1], "append.runs.count is 1"),
        (vec![0x0a, 4, 0x1a, 2, 0x2a, 0], "append.payloads is 1"),
        // append { runs { count: 1, kind: 9 }, payloads: "" }
        (vec![0x0a, 10, 0x1a, 8, 0x22, 4, 0x10, 1, 0x18, 9, 0x2a, 0], "append.runs.kind is 9"),
        // propose {}, propose_reply { count: 1 }
        (vec![0x0a, 2, 0x4a, 0], "propose.first_request is 0: counts no request"),
        (vec![0x0a, 4, 0x52, 2, 0x10, 1], "propose_reply.outcome is missing"),
    ] {
        let error = wire::decode(Bytes::from(bytes), id(1), id(2)).expect_err(named);
        assert!(error.to_string().starts_with(named), "{error}");
    }
    let error = wire::decode(Bytes::from_static(b"\xff"), id(1), id(2));
    assert!(matches!(error, Err(DecodeError::Malformed(_))));
}
