//! Changes of the members as messages of `kontiki.Admin`.

use kontiki::raft_core::{Change, ChangeSet, Index, Membership, NewMember, NodeId};
use tonic::Status;

use super::cluster::{check_free, fresh_id, member_id, parse_urls, peer_urls};
use crate::config::UrlList;
use crate::proto::kontiki::member_change::Change as Wire;
use crate::proto::kontiki::{
    ChangeMembersRequest, MemberChange, NewAddress, NewMember as WireMember, NewPriority,
};

/// As a message.
pub(super) fn to_wire(set: &ChangeSet) -> ChangeMembersRequest {
    let changes = set.changes.iter().filter_map(change_to_wire);
    ChangeMembersRequest {
        changes: changes.map(|change| MemberChange { change: Some(change) }).collect(),
        expected: set.expected.map(|index| index.0),
        force: set.force,
    }
}

fn change_to_wire(change: &Change) -> Option<Wire> {
    let new = |new: &NewMember| WireMember { id: new.id.get(), peer_urls: peer_urls(&new.address) };
    Some(match change {
        Change::AddVoter(member) => Wire::AddVoter(new(member)),
        Change::AddLearner(member) => Wire::AddLearner(new(member)),
        Change::Promote(id) => Wire::Promote(id.get()),
        Change::Demote(id) => Wire::Demote(id.get()),
        Change::Remove(id) => Wire::Remove(id.get()),
        Change::SetAddress(id, address) => {
            Wire::SetAddress(NewAddress { id: id.get(), peer_urls: peer_urls(address) })
        }
        Change::SetPriority(id, priority) => {
            Wire::SetPriority(NewPriority { id: id.get(), priority: (*priority).into() })
        }
        Change::Cancel => Wire::Cancel(true),
        // A leader notes it by itself; nobody asks for it.
        Change::SetIncarnation(..) => return None,
    })
}

/// From a message, checked against the members that this node knows.
pub(super) fn from_wire(
    request: ChangeMembersRequest,
    members: &Membership,
) -> Result<ChangeSet, Status> {
    let changes = request.changes.into_iter().map(|change| change_from_wire(change, members));
    let changes = changes.collect::<Result<Vec<_>, _>>()?;
    if changes.is_empty() {
        return Err(Status::invalid_argument("etcdserver: the set holds no change"));
    }
    Ok(ChangeSet { changes, expected: request.expected.map(Index), force: request.force })
}

fn change_from_wire(change: MemberChange, members: &Membership) -> Result<Change, Status> {
    let nothing = || Status::invalid_argument("etcdserver: a change that this version knows not");
    let new = |new: WireMember| {
        let urls = parse_urls(&new.peer_urls)?;
        check_free(members, None, &urls)?;
        let id = NodeId::new(new.id).unwrap_or_else(|| fresh_id(members));
        Ok::<_, Status>(NewMember { id, address: UrlList(urls).to_string() })
    };
    Ok(match change.change.ok_or_else(nothing)? {
        Wire::AddVoter(member) => Change::AddVoter(new(member)?),
        Wire::AddLearner(member) => Change::AddLearner(new(member)?),
        Wire::Promote(id) => Change::Promote(member_id(id)?),
        Wire::Demote(id) => Change::Demote(member_id(id)?),
        Wire::Remove(id) => Change::Remove(member_id(id)?),
        Wire::SetAddress(NewAddress { id, peer_urls }) => {
            let (id, urls) = (member_id(id)?, parse_urls(&peer_urls)?);
            check_free(members, Some(id), &urls)?;
            Change::SetAddress(id, UrlList(urls).to_string())
        }
        Wire::SetPriority(NewPriority { id, priority }) => {
            let too_high = |_| Status::invalid_argument("etcdserver: a priority is at most 255");
            Change::SetPriority(member_id(id)?, priority.try_into().map_err(too_high)?)
        }
        Wire::Cancel(_) => Change::Cancel,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_survives_the_wire() {
        let id = |id| NodeId::new(id).expect("not zero");
        let members = Membership::founded([(id(1), "http://a:1")]).expect("a voter");
        let new = |number, address: &str| NewMember { id: id(number), address: address.to_owned() };
        let set = ChangeSet {
            changes: vec![
                Change::AddVoter(new(2, "http://b:1,http://c:1")),
                Change::AddLearner(new(3, "http://d:1")),
                Change::Promote(id(4)),
                Change::Demote(id(5)),
                Change::Remove(id(6)),
                Change::SetAddress(id(1), "http://a:2".to_owned()),
                Change::SetPriority(id(1), 255),
                Change::Cancel,
            ],
            expected: Some(Index(7)),
            force: true,
        };
        assert_eq!(from_wire(to_wire(&set), &members).expect("it reads"), set);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let id = NodeId::new(1).expect("not zero");
        let members = Membership::founded([(id, "http://a:1")]).expect("a voter");
        let urls = |url: &str| vec![url.to_owned()];
        for (change, expected) in [
            (None, "knows not"),
            (Some(Wire::Remove(0)), "member not found"),
            (Some(Wire::AddVoter(WireMember { id: 0, peer_urls: vec![] })), "URLs are invalid"),
            (Some(Wire::AddVoter(WireMember { id: 0, peer_urls: urls("http://a:1") })), "already"),
            (Some(Wire::SetPriority(NewPriority { id: 1, priority: 256 })), "at most 255"),
        ] {
            let changes = vec![MemberChange { change }];
            let request = ChangeMembersRequest { changes, ..ChangeMembersRequest::default() };
            let status = from_wire(request, &members).expect_err("it makes no sense");
            assert!(status.message().contains(expected), "{status}");
        }
        from_wire(ChangeMembersRequest::default(), &members).expect_err("nothing is to be changed");
    }
}
