//! The algebra of members beside a model of plain sets, step after step: changes, promotions, the
//! end of joint phases, majorities and bytes.

mod plain;

use raft_core::{Change, Incarnation, Membership, NewMember, NodeId};

use super::Input;
use plain::Plain;

const STEPS_MAX: usize = 64;
/// Node ids, few so that they meet, and one that takes all its bytes.
const IDS: [u64; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, u64::MAX];
const ADDRESSES: [&str; 5] = ["", "a:1", "b:2", "ü", "a:1,b:2"];

/// A group goes through the steps that the bytes say.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let founders = 1 + input.below(5);
    let group = Membership::founded((1..=founders).map(|id| (node(id), "")));
    let (mut group, mut plain) = (group.expect("it has voters"), Plain::founded(founders));
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        let ready = u16::from_le_bytes([input.byte(), input.byte()]);
        let is_ready = |id: u64| ready >> (id % 10) & 1 == 1;
        let (next, expected, step) = match input.below(8) {
            0 => (group.left(), plain.left(), "the end of a joint phase".to_owned()),
            1 => {
                let promoted = group.promoted(|id| is_ready(id.get()));
                (promoted, plain.promoted(is_ready), format!("a promotion of {ready:b}"))
            }
            _ => {
                let changes: Vec<Change> =
                    (0..=input.below(3)).map(|_| change(&mut input)).collect();
                let changed = group.changed(&changes, |id| is_ready(id.get())).ok();
                (changed, plain.changed(&changes, is_ready), format!("{changes:?} ({ready:b})"))
            }
        };
        let found = next.as_ref().map(Membership::encode);
        let bytes = expected.as_ref().map(Plain::encode);
        assert_eq!(found, bytes, "{group} after {step}: {next:?} is not {expected:?}");
        if let (Some(next), Some(expected)) = (next, expected) {
            check(&next, &expected, &mut input);
            (group, plain) = (next, expected);
        }
    }
}

/// What the group says of itself, and majorities of it.
fn check(group: &Membership, plain: &Plain, input: &mut Input<'_>) {
    assert_eq!(Membership::decode(&plain.encode()).as_ref(), Ok(group), "it comes back");
    let ids = |ids: &mut dyn Iterator<Item = NodeId>| ids.map(NodeId::get).collect::<Vec<_>>();
    assert_eq!(ids(&mut group.voters()), plain.entered(), "{group}");
    assert_eq!(ids(&mut group.outgoing()), plain.outgoing(), "{group}");
    assert_eq!(group.is_joint(), plain.is_joint(), "{group}");
    assert_eq!(group.quorum(), plain.entered().len() / 2 + 1, "{group}");
    let agree = u16::from_le_bytes([input.byte(), input.byte()]);
    let agrees = |id: u64| agree >> (id % 10) & 1 == 1;
    let found = group.has_quorum(|id| agrees(id.get()));
    assert_eq!(found, plain.has_quorum(agrees), "{group} with {agree:b}");
    for id in IDS {
        let votes = plain.entered().contains(&id) || plain.outgoing().contains(&id);
        assert_eq!(group.is_voter(node(id)), votes, "{group}: {id}");
        assert_eq!(group.is_learner(node(id)), plain.is_learner(id), "{group}: {id}");
    }
}

fn change(input: &mut Input<'_>) -> Change {
    let kind = input.below(9);
    let id = node(input.pick(&IDS));
    match kind {
        0 => Change::AddVoter(NewMember { id, address: address(input) }),
        1 => Change::AddLearner(NewMember { id, address: address(input) }),
        2 => Change::Promote(id),
        3 => Change::Demote(id),
        4 => Change::Remove(id),
        5 => Change::SetAddress(id, address(input)),
        6 => Change::SetPriority(id, input.byte()),
        7 => {
            let number = input.number().max(1);
            Change::SetIncarnation(id, Incarnation::new(number).expect("not zero"))
        }
        _ => Change::Cancel,
    }
}

fn address(input: &mut Input<'_>) -> String {
    input.pick(&ADDRESSES).to_owned()
}

fn node(id: u64) -> NodeId {
    NodeId::new(id).expect("not zero")
}
