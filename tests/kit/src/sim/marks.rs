//! Situations that a search should have met. A run counts those it reaches; one that no run ever
//! reaches means that the search looks in the wrong places.

use std::collections::BTreeMap;

macro_rules! marks {
    ($($name:ident $text:literal,)+) => {
        /// A situation worth reaching.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mark {
            $(#[doc = $text] $name,)+
        }

        impl Mark {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// What it is, in words.
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

marks! {
    CrashInJointConsensus "a node crashes while two configurations are in force",
    LeaderLostInJointConsensus "the leader crashes while two configurations are in force",
    JointConsensusLeft "two configurations are in force, and then one",
    ChangeUndone "a configuration is in force and is undone by another leader's",
    ChangeDone "an operator is told that the members have changed",
    LearnerPromoted "a learner becomes a voter by itself",
    VoterLeft "a voter votes no more",
    MemberRemoved "a member is removed",
    RemovedStops "a node learns that it was removed, and stops",
    OldTermNotCounted "a leader has a majority for an entry of an old term, and waits (figure 8)",
    EntriesOverwritten "a follower cuts off entries that its leader does not have",
    CommittedByNobody "a leader falls with entries that were never committed",
    ElectionLost "a candidate falls back without having won",
    PreVoteLost "a pre-candidate falls back without having stood",
    TwoLeaders "a leader of an old term does not know of the new one",
    QuorumLost "a leader steps down because it hears no quorum",
    TransferDone "leadership is handed over",
    TransferFailed "leadership is not handed over in time",
    TransferOldLeaderPaused "the leader that hands over stands still before its successor leads",
    ProposalForwarded "a follower hands a proposal on",
    ProposalSuperseded "a proposal is known to be superseded",
    ProposalUnknown "what became of a proposal is unknown",
    LeaseRead "a read is served under a lease",
    LeaseReadConfirmed "a read that a lease would do for is confirmed instead",
    CallRefused "a call is refused for want of a leader",
    SnapshotTaken "a snapshot is taken, and the log is cut",
    SnapshotInstalled "a snapshot takes the place of a state",
    SnapshotDuringPartition "a snapshot is installed while the network is cut",
    SnapshotResumed "a transfer goes on behind what the receiver has already",
    SnapshotStaleChunk "a chunk of a transfer arrives that is not the current one",
    SnapshotDuplicateChunk "a chunk arrives that the receiver has",
    SnapshotTransferFailed "a transfer is given up",
    SnapshotRestored "a node restores its state from its own snapshot when it starts",
    BuildFailed "a snapshot could not be built",
    TornTail "an unfinished batch at the end of a log is gone after a power cut",
    UnacknowledgedSurvives "a batch that was never acknowledged survives a crash",
    CrashInPersist "a node crashes in the middle of a write to its log",
    CrashInSnapshot "a node crashes while a snapshot is written",
    SnapshotsForgotten "older snapshots are removed",
    DamageClaimed "a damaged log is repaired, and the node knows what it had",
    ClaimSettled "a node whose log was damaged has all of it again",
    DamageFatal "a damaged log cannot be opened, for a promise may be lost",
    SnapshotLost "a node needs a snapshot that is damaged or missing",
    StorageFailed "a write or a sync fails, and the node stops",
    DiskFull "a disk is full, and the node stops",
    LeaderYieldedStalled "a leader yields because its disk is stalled",
    WipedRefused "a node that comes back with an empty disk is refused",
    MemberReplaced "a member is removed whose disk was lost",
    SessionRetryAnswered "a retry is answered from the table of sessions",
    SessionExpired "a session expires",
    OldMessageAgain "a message of an old term arrives again",
    PausedLeader "a leader stands still, and another one is elected meanwhile",
    AllDown "all nodes are down at once",
    StuckForGood "too many disks are damaged: nobody can be elected",
}

/// How often each was reached.
pub type Marks = BTreeMap<Mark, u64>;
