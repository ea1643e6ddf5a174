//! What an operator asks of a node: who the members are, and that they or the leader change.

use kontiki_kv::admin::Admin;
use kontiki_kv::proto::kontiki::member_change::Change;
use kontiki_kv::proto::kontiki::{
    ChangeMembersRequest, InspectResponse, MemberChange, NewAddress, NewMember,
};
use tokio::time::sleep;

use super::client::PAUSE;
use super::{Client, ClientError, patiently};

/// A voter to be, at this peer URL.
pub(crate) fn add_voter(id: u64, url: String) -> Change {
    Change::AddVoter(NewMember { id, peer_urls: vec![url] })
}

/// A member that moves to this peer URL.
pub(crate) fn set_address(id: u64, url: String) -> Change {
    Change::SetAddress(NewAddress { id, peer_urls: vec![url] })
}

impl Client {
    /// How the node is, and the others as far as it knows.
    pub(crate) async fn inspect(&mut self) -> Result<InspectResponse, ClientError> {
        self.0.inspect().await
    }

    /// Changes the members, all at once.
    pub(crate) async fn change(&mut self, changes: &[Change]) -> Result<u64, ClientError> {
        let change = |change: &Change| MemberChange { change: Some(change.clone()) };
        let changes = changes.iter().map(change).collect();
        let request = ChangeMembersRequest { changes, expected: None, force: false };
        Ok(self.0.change_members(request).await?.index)
    }

    /// Changes the members, and asks again until it is done; what is done already, or not yet
    /// possible, is no refusal.
    pub(crate) async fn change_surely(&mut self, changes: &[Change]) {
        let changing = async {
            loop {
                match self.change(changes).await {
                    Ok(_) => return,
                    Err(fault) => println!("not changed yet: {fault}"),
                }
                sleep(PAUSE).await;
            }
        };
        patiently("a change of the members", changing).await;
    }

    /// Hands leadership to this member, or to the best there is; who leads then.
    pub(crate) async fn transfer(&mut self, to: Option<u64>) -> Result<u64, ClientError> {
        Ok(self.0.transfer_leadership(to.unwrap_or(0)).await?.leader)
    }

    /// The hash of everything up to this revision, as the node holds it.
    pub(crate) async fn hash(&mut self, revision: i64) -> Result<u32, ClientError> {
        Ok(self.0.hash_kv(revision).await?.hash)
    }
}
