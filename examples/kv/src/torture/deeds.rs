//! What is done to the cluster that takes as long as it takes, and how it came out.

use std::io::Write;
use std::time::Duration;

use kontiki_client::{Client, ClientError, Timeouts};
use kontiki_kv::admin::Admin;
use kontiki_kv::backup::Backup;
use kontiki_kv::proto::etcdserverpb::{CompactionRequest, PutRequest};
use kontiki_kv::proto::kontiki::member_change::Change;
use kontiki_kv::proto::kontiki::{ChangeMembersRequest, MemberChange, NewMember};

use super::arena::Arena;
use super::disk::SmallDisk;
use super::schedule::{Deed, Whom};
use super::{damage, disk, until};
use crate::cli::Failure;
use crate::cluster::process::{CLEAN_EXIT, last_lines};

/// How long a node may take to hand over and to close its files.
const STOP_MAX: Duration = Duration::from_secs(20);
/// How long a node that cannot write may go on.
const GIVE_UP_MAX: Duration = Duration::from_secs(60);
pub(super) const TIMEOUTS: Timeouts =
    Timeouts { dial: Duration::from_secs(1), command: Duration::from_secs(20) };
/// Exit codes of `kontiki serve`.
const FAILED: i32 = 1;
const REMOVED: i32 = 3;
/// So many revisions stay readable.
pub(super) const REVISIONS_KEPT: i64 = 200;

/// How a deed came out, in words that are counted.
pub(crate) type Outcome = Vec<&'static str>;

impl Arena {
    /// Does it. An error is a fault of the cluster, or of the machine.
    pub(crate) async fn perform(&mut self, deed: &Deed, revision: i64) -> Result<Outcome, Failure> {
        match deed {
            Deed::Restart(whom) => self.restart(*whom).await,
            Deed::Disk { whom, full } => self.fail_disk(*whom, *full).await,
            Deed::Corrupt { whom, draw } => self.corrupt(*whom, *draw).await,
            Deed::Replace { whom, id } => {
                let at = self.find(*whom).await[0];
                self.replace(at, *id).await?;
                Ok(vec!["replaced"])
            }
            Deed::Transfer(to) => self.transfer(*to).await,
            Deed::Snapshot(whom) => self.bring_back_by_snapshot(*whom).await,
            Deed::Compact => self.compact(revision - REVISIONS_KEPT).await,
            Deed::Backup(whom) => self.back_up(*whom).await,
        }
    }

    async fn restart(&mut self, whom: Whom) -> Result<Outcome, Failure> {
        let at = self.find(whom).await[0];
        if !self.nodes[at].is_well() {
            return Ok(vec!["was down"]);
        }
        let led = self.leader().await == Some(at);
        let node = &mut self.nodes[at];
        let how = match &mut node.process {
            Some(process) => process.stop(STOP_MAX).await,
            None => return Ok(vec!["was down"]),
        };
        node.process = None;
        self.wires.set_process(node.number, None);
        if how != CLEAN_EXIT {
            let words = node.last_words();
            return Err(Failure::new(format!("{}: asked to stop, it {how}; {words}", node.name)));
        }
        self.start_node(at)?;
        Ok(vec![if led { "of the leader" } else { "of a follower" }])
    }

    /// The node has to end by itself, and to come back when there is room again.
    async fn fail_disk(&mut self, whom: Whom, full: bool) -> Result<Outcome, Failure> {
        let small = self.nodes.iter().position(|node| node.disk.is_some()).filter(|_| full);
        let at = match small {
            Some(at) => at,
            None => self.find(whom).await[0],
        };
        let led = self.leader().await == Some(at);
        let node = &self.nodes[at];
        let process = node.process.as_ref().and_then(|process| process.pid());
        let fat = if let (Some(_), Some(disk)) = (small, &node.disk) {
            disk.fill().map_err(|error| Failure::new(format!("cannot fill a disk: {error}")))?;
            Some(self.fatten(at))
        } else {
            disk::forbid_writes(process.unwrap_or(0)).map_err(Failure::new)?;
            None
        };
        let code = self.ended(at, GIVE_UP_MAX).await;
        if let Some(fat) = fat {
            fat.abort();
        }
        let node = &self.nodes[at];
        if code? != Some(FAILED) {
            let words = node.last_words();
            return Err(Failure::new(format!("{} cannot write, and says: {words}", node.name)));
        }
        if let (Some(_), Some(disk)) = (small, &node.disk) {
            if !last_lines(&node.log(), 3).contains("No space left") {
                let words = node.last_words();
                return Err(Failure::new(format!("{}: its disk is full; {words}", node.name)));
            }
            disk.free().map_err(|error| Failure::new(format!("cannot free a disk: {error}")))?;
        }
        self.start_node(at)?;
        let what = if small.is_some() { "disk full" } else { "all writes fail" };
        Ok(vec![what, if led { "of the leader" } else { "of a follower" }])
    }

    /// Writes large values, so that the room ends that the node took beforehand.
    fn fatten(&self, except: usize) -> tokio::task::JoinHandle<()> {
        let node = &self.nodes[(except + 1) % self.nodes.len()];
        let client = node.client().clone();
        tokio::spawn(async move {
            for number in 0_u64.. {
                let (key, value) = (format!("fat/{}", number % 4), vec![number as u8; 512 << 10]);
                let request = PutRequest { key: key.into(), value: value.into(), ..<_>::default() };
                // Nobody needs it; what is not written is not written.
                let _ = client.put(request).await;
            }
        })
    }

    /// Waits until the node has ended by itself; its exit code.
    async fn ended(&mut self, at: usize, patience: Duration) -> Result<Option<i32>, Failure> {
        let node = &mut self.nodes[at];
        let Some(process) = &mut node.process else { return Ok(None) };
        let Ok(status) = tokio::time::timeout(patience, process.wait()).await else {
            let words = node.last_words();
            return Err(Failure::new(format!("{} should have ended; {words}", node.name)));
        };
        node.process = None;
        self.wires.set_process(node.number, None);
        Ok(status.map_err(Failure::new)?.code())
    }

    /// The node is repaired by the others, or says that it is to be replaced.
    async fn corrupt(&mut self, whom: Whom, draw: u64) -> Result<Outcome, Failure> {
        let at = self.find(whom).await[0];
        self.kill(at).await;
        let raft = self.nodes[at].raft_dir();
        let flipped = damage::flip_a_bit(&raft, draw);
        let flipped = flipped.map_err(|error| Failure::new(format!("cannot damage: {error}")))?;
        let said_before = std::fs::metadata(self.nodes[at].log()).map_or(0, |log| log.len());
        self.start_node(at)?;
        if flipped.is_none() {
            return Ok(vec!["log too short"]);
        }
        let repaired = until("a damaged node is repaired", async || {
            let process = self.nodes[at].process.as_mut();
            if process.is_none_or(|process| process.has_ended()) {
                return Some(false);
            }
            let said = self.inspect(at).await?;
            (said.claim.is_none() && said.leader != 0).then_some(true)
        });
        let (repaired, node) = (repaired.await?, &self.nodes[at]);
        if repaired {
            let said = std::fs::read(node.log()).map_err(Failure::new)?;
            let said = String::from_utf8_lossy(&said[said_before as usize..]).into_owned();
            let is_damaged = said.contains("is damaged at byte");
            return Ok(vec![if is_damaged { "repaired" } else { "of no consequence" }]);
        }
        if !last_lines(&node.log(), 3).contains("member replace") {
            let words = node.last_words();
            return Err(Failure::new(format!("{} is damaged, and ended; {words}", node.name)));
        }
        self.replace(at, draw | 1).await?;
        Ok(vec!["refused, so replaced"])
    }

    /// Puts a new member in the place of this one, which ends.
    async fn replace(&mut self, at: usize, id: u64) -> Result<(), Failure> {
        let old = self.id_of(at).await?;
        let mut new = self.new_node()?;
        let others = self.nodes.iter().enumerate().filter(|(other, _)| *other != at);
        let members = others.map(|(_, node)| node.as_member()).chain([new.as_member()]);
        (new.members, new.joins) = (members.collect::<Vec<_>>().join(","), true);
        if self.nodes[at].disk.is_some() {
            new.disk = SmallDisk::mount(&new.data_dir).await.ok();
        }
        let add = NewMember { id, peer_urls: vec![new.peer_url()] };
        let changes = [Change::AddVoter(add), Change::Remove(old)];
        let change = |change: &Change| MemberChange { change: Some(change.clone()) };
        let request = ChangeMembersRequest {
            changes: changes.iter().map(change).collect(),
            expected: None,
            force: false,
        };
        until("a member is replaced", async || {
            if self.standings().await?.contains_key(&id) {
                return Some(()); // It may have been done although nobody said so.
            }
            let client = Client::new(self.endpoints.borrow().clone(), TIMEOUTS);
            client.change_members(request.clone()).await.ok().map(|_| ())
        })
        .await?;
        self.nodes.push(new);
        let last = self.nodes.len() - 1;
        self.join_wires(last)?;
        self.start_node(last)?;
        until("the new member votes, and the old one is gone", async || {
            let standings = self.standings().await?;
            let is_done =
                !standings.contains_key(&old) && standings.values().all(|it| it == "voter");
            is_done.then_some(())
        })
        .await?;
        self.forget(at).await
    }

    /// Ends what is left of a member that was removed.
    async fn forget(&mut self, at: usize) -> Result<(), Failure> {
        let is_running = self.nodes[at].process.as_mut().is_some_and(|it| !it.has_ended());
        if is_running {
            let code = self.ended(at, GIVE_UP_MAX).await?;
            if code != Some(REMOVED) {
                let node = &self.nodes[at];
                let words = node.last_words();
                return Err(Failure::new(format!("{} was removed; {words}", node.name)));
            }
        }
        let old = self.nodes.swap_remove(at);
        self.wires.set_process(old.number, None);
        self.wires.remove(old.number);
        self.tell_endpoints();
        if let Some(disk) = old.disk {
            disk.unmount().await;
        }
        // What it leaves is small, and goes with everything else in the end.
        let _ = std::fs::remove_dir_all(&old.data_dir);
        Ok(())
    }

    /// The members as the leader knows them.
    async fn standings(&self) -> Option<std::collections::BTreeMap<u64, String>> {
        let said = self.inspect(self.leader().await?).await?;
        Some(said.members.into_iter().map(|member| (member.id, member.standing)).collect())
    }

    /// The id of a member, which runs or does not.
    async fn id_of(&self, at: usize) -> Result<u64, Failure> {
        let url = self.nodes[at].peer_url();
        until("the members are known", async || {
            let said = self.inspect(self.leader().await?).await?;
            let mut members = said.members.into_iter();
            Some(members.find(|member| member.peer_urls.contains(&url))?.id)
        })
        .await
    }

    async fn transfer(&self, to: Option<usize>) -> Result<Outcome, Failure> {
        let to = match to {
            None => 0,
            Some(at) => match self.inspect(at % self.nodes.len()).await {
                Some(said) => said.member_id,
                None => return Ok(vec!["was down"]),
            },
        };
        let client = Client::new(self.endpoints.borrow().clone(), TIMEOUTS);
        Ok(vec![match client.transfer_leadership(to).await {
            Ok(_) => "done",
            Err(ClientError::Refused(_)) => "refused",
            Err(ClientError::Unknown { .. } | ClientError::Unreachable(_)) => "unknown",
        }])
    }

    /// Keeps a node away until the others' logs begin behind the end of its own.
    async fn bring_back_by_snapshot(&mut self, whom: Whom) -> Result<Outcome, Failure> {
        let at = self.find(whom).await[0];
        let last =
            until("a node tells where its log ends", async || Some(self.inspect(at).await?.last));
        let last = last.await?;
        self.kill(at).await;
        let base = until("the log is cut", async || {
            let base = self.inspect(self.leader().await?).await?.base;
            (base > last).then_some(base)
        });
        let base = base.await?;
        self.start_node(at)?;
        until("a node is brought back by a snapshot", async || {
            (self.inspect(at).await?.applied >= base).then_some(())
        })
        .await?;
        Ok(vec!["brought back"])
    }

    pub(crate) async fn compact(&self, revision: i64) -> Result<Outcome, Failure> {
        if revision <= 0 {
            return Ok(vec!["too early"]);
        }
        let at = self.leader().await.unwrap_or(0);
        let request = CompactionRequest { revision, physical: false };
        let answer = self.nodes[at].client().compact(request).await;
        Ok(vec![if answer.is_ok() { "done" } else { "refused or unknown" }])
    }

    /// A backup has to be whole, if it is given.
    async fn back_up(&self, whom: Whom) -> Result<Outcome, Failure> {
        let at = self.find(whom).await[0];
        let path = self.dir().join("backup");
        let client = Client::new(vec![self.nodes[at].client_url()], TIMEOUTS);
        let Ok(mut pieces) = client.snapshot().await else { return Ok(vec!["no answer"]) };
        let mut file = std::fs::File::create(&path).map_err(Failure::new)?;
        loop {
            match tokio::time::timeout(TIMEOUTS.command, pieces.message()).await {
                Ok(Ok(Some(piece))) => file.write_all(&piece.blob).map_err(Failure::new)?,
                Ok(Ok(None)) => break,
                Ok(Err(_)) | Err(_) => return Ok(vec!["no answer"]),
            }
        }
        let backup = Backup::open(&path);
        backup.map_err(|error| Failure::new(format!("a backup is not whole: {error}")))?;
        Ok(vec!["whole"])
    }
}
