use alloc::string::ToString;
use alloc::vec;

use proptest::prelude::*;

use super::*;

fn node(id: u64) -> NodeId {
    NodeId::new(id).expect("not zero")
}

fn group(voters: u64) -> Membership {
    Membership::new((1..=voters).map(node)).expect("there are voters")
}

fn add(id: u64) -> Change {
    Change::AddVoter(NewMember { id: node(id), address: id.to_string() })
}

/// Changes a group for which every learner has caught up.
fn changed(group: &Membership, changes: &[Change]) -> Membership {
    group.changed(changes, |_| true).expect("it can be changed")
}

fn ids(voters: impl Iterator<Item = NodeId>) -> Vec<u64> {
    voters.map(NodeId::get).collect()
}

#[test]
fn a_majority_is_more_than_half() {
    let quorums: Vec<usize> = (1..=7).map(|voters| group(voters).quorum()).collect();
    assert_eq!(quorums, [1, 2, 2, 3, 3, 4, 4]);
    assert_eq!(Membership::new([]), None);
    assert!(!Membership::unknown().has_quorum(|_| true), "nobody is no majority");
    assert_eq!(Membership::unknown().quorum_value(&mut Vec::new(), |_| 1), None);
}

#[test]
fn a_voter_comes_as_a_learner_and_joins_when_it_is_ready() {
    let waiting = changed(&group(3), &[add(4)]);
    assert_eq!(ids(waiting.voters()), [1, 2, 3]);
    assert!(waiting.is_learner(node(4)) && !waiting.is_joint());
    assert_eq!(waiting.promoted(|_| false), None);

    let joint = waiting.promoted(|_| true).expect("it is ready");
    assert_eq!(ids(joint.voters()), [1, 2, 3, 4]);
    assert_eq!(ids(joint.outgoing()), [1, 2, 3]);
    assert_eq!(joint.promoted(|_| true), None, "one phase at a time");
    assert_eq!(joint.changed(&[add(5)], |_| true), Err(ChangeError::InProgress));

    let left = joint.left().expect("it was joint");
    assert_eq!(ids(left.voters()), [1, 2, 3, 4]);
    assert!(!left.is_joint());
    assert_eq!(left.left(), None);
}

/// Two disjoint majorities cannot decide: a joint phase needs both.
#[test]
fn a_joint_phase_needs_both_majorities() {
    let waiting = changed(
        &group(3),
        &[
            add(4),
            add(5),
            add(6),
            Change::Remove(node(1)),
            Change::Remove(node(2)),
            Change::Remove(node(3)),
        ],
    );
    assert_eq!(ids(waiting.voters()), [1, 2, 3], "nobody leaves before others can join");
    assert_eq!(waiting.promoted(|it| it != node(6)), None, "all or nobody");
    assert_eq!(waiting.changed(&[add(7)], |_| true), Err(ChangeError::InProgress));

    let joint = waiting.promoted(|_| true).expect("all are ready");
    let of = |some: &'static [u64]| move |it: NodeId| some.contains(&it.get());
    assert!(!joint.has_quorum(of(&[1, 2, 3])));
    assert!(!joint.has_quorum(of(&[4, 5, 6])));
    assert!(joint.has_quorum(of(&[1, 2, 4, 5])));
    let value = joint.quorum_value(&mut Vec::new(), |it| it.get() * 10);
    assert_eq!(value, Some(20), "the smaller of the two");

    let left = joint.left().expect("it was joint");
    assert_eq!(ids(left.voters()), [4, 5, 6]);
    assert_eq!(ids(left.removed().iter().copied()), [1, 2, 3]);
    let refused = left.changed(&[add(1)], |_| true);
    assert_eq!(refused, Err(ChangeError::RemovedMember(node(1))));
}

#[test]
fn what_is_pending_can_be_given_up() {
    let waiting = changed(&group(3), &[add(4), Change::Remove(node(3))]);
    let given_up = changed(&waiting, &[Change::Cancel]);
    assert_eq!(given_up.promoted(|_| true), None);
    assert!(given_up.is_learner(node(4)));
    assert_eq!(ids(given_up.voters()), [1, 2, 3]);
    let without = changed(&given_up, &[Change::Remove(node(4))]);
    assert_eq!(ids(without.removed().iter().copied()), [4]);
}

#[test]
fn a_voter_may_stay_as_a_learner() {
    let joint = changed(&group(3), &[Change::Demote(node(3))]);
    assert_eq!((ids(joint.voters()), ids(joint.outgoing())), (vec![1, 2], vec![1, 2, 3]));
    let left = joint.left().expect("it was joint");
    assert!(left.is_learner(node(3)) && left.removed().is_empty());
}

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    let group = Membership::founded([(node(1), "a"), (node(2), "b"), (node(3), "")]);
    let group = changed(
        &group.expect("voters"),
        &[Change::AddLearner(NewMember { id: node(9), address: String::new() })],
    );
    let at =
        |id, address: &str| Change::AddVoter(NewMember { id: node(id), address: address.into() });
    let long = "x".repeat(5000);
    for (changes, error) in [
        (vec![Change::Remove(node(7))], ChangeError::UnknownMember(node(7))),
        (vec![at(2, "c")], ChangeError::DuplicateMember(node(2))),
        (vec![at(4, "b")], ChangeError::DuplicateAddress(node(2))),
        (vec![at(4, &long)], ChangeError::AddressTooLong(node(4))),
        (vec![Change::SetAddress(node(1), "b".into())], ChangeError::DuplicateAddress(node(2))),
        (vec![Change::Promote(node(1))], ChangeError::NotLearner(node(1))),
        (vec![Change::Promote(node(9))], ChangeError::LearnerLags(node(9))),
        (vec![Change::Demote(node(9))], ChangeError::NotVoter(node(9))),
        (
            vec![Change::Remove(node(1)), Change::Demote(node(1))],
            ChangeError::Contradiction(node(1)),
        ),
        ((1..=3).map(|id| Change::Remove(node(id))).collect(), ChangeError::NoVoterLeft),
        (vec![Change::Cancel], ChangeError::NothingChanges),
        (vec![], ChangeError::NothingChanges),
        (vec![Change::SetAddress(node(1), "a".into())], ChangeError::NothingChanges),
    ] {
        assert_eq!(group.changed(&changes, |_| false), Err(error), "{changes:?}");
    }
}

#[test]
fn a_group_is_told_in_a_line() {
    let waiting = changed(&group(3), &[add(12), Change::Remove(node(3))]);
    assert_eq!(waiting.to_string(), "1, 2, 3 (retiring), c (learner, to be promoted)");
    let joint = waiting.promoted(|_| true).expect("it is ready");
    assert_eq!(joint.to_string(), "1, 2, 3 (leaving), c (joining)");
    assert_eq!(joint.left().expect("it was joint").to_string(), "1, 2, c");
}

#[test]
fn a_later_format_is_told_from_damage() {
    let mut bytes = group(3).encode();
    bytes[0] = 2;
    assert_eq!(Membership::decode(&bytes), Err(MembershipDecodeError::Newer { format: 2 }));
    bytes[0] = 0;
    assert_eq!(Membership::decode(&bytes), Err(MembershipDecodeError::Malformed));
}

/// One step of a group, if it can be taken.
type Step<'a> = &'a dyn Fn(&Membership) -> Option<Membership>;

fn any_change() -> impl Strategy<Value = Change> {
    let id = (1..8u64).prop_map(node);
    let new = (1..8u64).prop_map(|id| NewMember { id: node(id), address: id.to_string() });
    prop_oneof![
        new.clone().prop_map(Change::AddVoter),
        new.prop_map(Change::AddLearner),
        id.clone().prop_map(Change::Promote),
        id.clone().prop_map(Change::Demote),
        id.clone().prop_map(Change::Remove),
        (id, 0..3u8).prop_map(|(id, priority)| Change::SetPriority(id, priority)),
        Just(Change::Cancel),
    ]
}

proptest! {
    /// The quorum's value is reached by a majority, and no larger one is.
    #[test]
    fn the_quorum_value_is_the_largest_that_a_majority_reached(
        values in prop::collection::vec(0..20u64, 1..9),
        leaving in prop::collection::vec(any::<bool>(), 9),
    ) {
        let mut group = group(values.len() as u64);
        for (member, leaves) in group.members.iter_mut().zip(&leaving) {
            member.standing = match leaves {
                true => Standing::Leaving(After::Gone),
                false => Standing::VOTER,
            };
        }
        group.count();
        let value = |voter: NodeId| values[voter.get() as usize - 1];
        match group.quorum_value(&mut Vec::new(), value) {
            Some(found) => {
                prop_assert!(group.has_quorum(|voter| value(voter) >= found));
                prop_assert!(!group.has_quorum(|voter| value(voter) > found));
            }
            None => prop_assert!(!group.has_quorum(|_| true)),
        }
    }

    /// Whatever is done to a group, the voters before and after a step that is not joint are
    /// the same: only a joint phase leads from one set to another.
    #[test]
    fn only_a_joint_phase_changes_who_votes(
        sets in prop::collection::vec(prop::collection::vec(any_change(), 1..4), 1..12),
        ready in any::<u8>(),
    ) {
        let mut group = group(3);
        for changes in sets {
            let is_ready = |id: NodeId| ready >> id.get() & 1 == 1;
            let steps: [Step<'_>; 3] = [
                &|group| group.changed(&changes, is_ready).ok(),
                &|group| group.promoted(is_ready),
                &|group| group.left(),
            ];
            for step in steps {
                let Some(next) = step(&group) else { continue };
                let before: Vec<NodeId> = group.voters().collect();
                let after: Vec<NodeId> = next.voters().collect();
                match (group.is_joint(), next.is_joint()) {
                    (false, false) => prop_assert_eq!(before, after),
                    (false, true) => {
                        prop_assert_eq!(before, next.outgoing().collect::<Vec<_>>());
                    }
                    (true, false) => prop_assert_eq!(before, after),
                    (true, true) => prop_assert!(false, "one joint phase at a time"),
                }
                prop_assert!(next.voters().len() > 0);
                prop_assert!(next.removed().starts_with(group.removed())
                    || next.removed().len() > group.removed().len());
                let bytes = next.encode();
                prop_assert_eq!(bytes.len(), next.encoded_len());
                prop_assert_eq!(Membership::decode(&bytes), Ok(next.clone()));
                for at in 0..bytes.len() {
                    prop_assert!(Membership::decode(&bytes[..at]).is_err());
                }
                group = next;
            }
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Membership::decode(&bytes);
    }
}

#[test]
fn whoever_is_ready_joins_and_the_others_wait_on() {
    let waiting = changed(&group(3), &[add(4), add(5)]);
    let joint = waiting.promoted(|it| it == node(5)).expect("one is ready");
    assert_eq!(ids(joint.voters()), [1, 2, 3, 5]);
    assert!(joint.is_learner(node(4)) && !joint.is_learner(node(5)) && !joint.is_learner(node(1)));
    let left = joint.left().expect("it was joint");
    assert_eq!(ids(left.promoted(|_| true).expect("it is ready").voters()), [1, 2, 3, 4, 5]);
}

#[test]
fn a_set_may_say_two_things_about_a_member_that_have_nothing_to_do_with_each_other() {
    let prefer = |priority| Change::SetPriority(node(3), priority);
    let disk = |number| {
        Change::SetIncarnation(node(3), Incarnation::new(number).expect("a disk has a number"))
    };
    let both = changed(&group(3), &[Change::Demote(node(3)), prefer(5), disk(7)]);
    let member = both.member(node(3)).expect("it is a member");
    assert_eq!((member.priority, member.incarnation.map(Incarnation::get)), (5, Some(7)));
    assert_eq!(member.standing, Standing::Leaving(After::Learner));
    let contradiction = Err(ChangeError::Contradiction(node(3)));
    for changes in [
        [prefer(5), prefer(6)],
        [disk(5), disk(6)],
        [Change::Demote(node(3)), Change::Remove(node(3))],
    ] {
        assert_eq!(group(3).changed(&changes, |_| true), contradiction, "{changes:?}");
    }
    // What is said of others is no contradiction.
    changed(&group(3), &[prefer(5), Change::SetPriority(node(2), 5)]);
}

#[test]
fn while_voters_are_being_replaced_only_what_is_known_of_members_can_change() {
    let waiting = changed(&group(3), &[add(4), Change::Remove(node(3))]);
    let preferred = changed(&waiting, &[Change::SetPriority(node(4), 9)]);
    assert_eq!(preferred.member(node(4)).map(|member| member.priority), Some(9));
    let refused = waiting.changed(&[Change::SetPriority(node(4), 9), add(5)], |_| true);
    assert_eq!(refused, Err(ChangeError::InProgress));
}

#[test]
fn a_group_has_a_size() {
    let largest = changed(&group(1023), &[add(1024)]);
    let refused = largest.changed(&[add(1025)], |_| true);
    assert_eq!(refused, Err(ChangeError::TooManyMembers));
}

#[test]
fn an_address_has_a_length() {
    let move_to = |length| Change::SetAddress(node(3), "x".repeat(length));
    assert!(group(3).changed(&[move_to(4096)], |_| true).is_ok());
    let refused = group(3).changed(&[move_to(4097)], |_| true);
    assert_eq!(refused, Err(ChangeError::AddressTooLong(node(3))));
}

/// Two members with one id, a removed one that stands there twice, one that is both.
#[test]
fn an_id_stands_in_a_group_once() {
    let removed = |ids: &[u64]| ids.iter().copied().map(node).collect();
    let members = group(2).members;
    let twice = [members.clone(), members.clone()].concat();
    assert_eq!(Membership::from_parts(twice, Vec::new()), None);
    assert_eq!(Membership::from_parts(members.clone(), removed(&[3, 3])), None);
    assert_eq!(Membership::from_parts(members.clone(), removed(&[2, 3])), None);
    let group = Membership::from_parts(members, removed(&[4, 3])).expect("all are different");
    assert_eq!(
        (ids(group.voters()), ids(group.removed().iter().copied())),
        (vec![1, 2], vec![3, 4])
    );
}
