//! The faults, by the room whose rule they break. Each has been made by somebody: where it stands
//! in the collection of scenarios, its number there is given.

use alloc::string::String;

/// Where a fault sits: a harness that does not run the code there cannot find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// In this crate.
    Core,
    /// In the log and the snapshots on disk.
    Storage,
    /// In what drives the core: reads, sessions, snapshots of the state machine.
    Driver,
    /// Everywhere.
    House,
}

macro_rules! bugs {
    ($($room:ident { $($(#[doc = $line:literal])+ $bug:ident $(in $scenario:literal)?,)+ })+) => {
        /// A fault that can be put into the code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Bug {
            $($($(#[doc = $line])+ $bug,)+)+
        }

        impl Bug {
            /// All of them.
            pub const ALL: &[Self] = &[$($(Self::$bug),+),+];

            /// What is wrong, in a sentence.
            pub fn breaks(self) -> &'static str {
                match self {
                    $($(Self::$bug => concat!($($line),+).trim_ascii(),)+)+
                }
            }

            /// Where it sits.
            pub fn room(self) -> Room {
                match self {
                    $($(Self::$bug)|+ => Room::$room,)+
                }
            }

            /// The scenario that it is known from.
            pub fn scenario(self) -> Option<&'static str> {
                let known: &[&'static str] = match self {
                    $($(Self::$bug => &[$($scenario)?],)+)+
                };
                known.first().copied()
            }

            fn word(self) -> &'static str {
                match self {
                    $($(Self::$bug => stringify!($bug),)+)+
                }
            }
        }
    };
}

impl Bug {
    /// Its name, in small letters: `vote-not-persisted`.
    pub fn name(self) -> String {
        let mut name = String::new();
        for letter in self.word().chars() {
            if letter.is_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }
}

bugs! {
    House {
        /// The canary: an assertion that fails at once. Who does not find it looks nowhere.
        Canary,
    }
    Core {
        // Votes.
        /// A vote is given without being written.
        VoteNotPersisted in "B04",
        /// Stepping down clears the vote, although the term is the same.
        VoteClearedAtEqualTerm in "B01",
        /// Whoever asks gets a vote, also after another one got it in the same term.
        VoteGrantedTwice in "B01",
        /// A vote is given without a look at the candidate's log.
        VoteIgnoresLog in "B03",
        /// Of two logs the longer one is taken for the better one.
        VoteByIndexOnly in "B08",
        /// Of two logs of one term each is taken for as good as the other.
        VoteByTermOnly in "B08",
        /// A log that was emptied by a snapshot is taken for one that never held anything.
        EmptiedLogCountsAsZero in "B08",
        /// A vote leaves before it is durable.
        VotesBeforeDurable in "B04",
        /// A grant of an older term counts in the present one.
        VoteOfOldTermCounted,
        /// Half of the voters is taken for a majority.
        HalfIsMajority,
        /// A node whose log was damaged votes as if the log had always ended there.
        ClaimDoesNotBind in "B64",
        /// A node whose log was damaged stands for election.
        DamagedNodeStands in "B64",
        /// A granted pre-vote takes over the term that was asked about.
        PreVoteTakesTerm in "B10",
        /// A granted pre-vote is noted as a vote.
        PreVoteGrantsVote in "B10",
        /// Who hears a leader helps others to depose it.
        NoStickiness in "B12",
        /// A leader that no quorum answers leads on.
        NoCheckQuorum in "B13",

        // Leases and reads.

        /// A lease runs from when the answer came, not from when the question left.
        LeaseFromReceiveTime in "B22",
        /// A lease is as long as the election timeout, whatever the clocks do.
        LeaseIgnoresClockError in "B23",
        /// A lease holds although another node was told to take over.
        LeaseSurvivesTransfer in "B21",
        /// A voter that has heard a leader does not wait for its lease to end.
        VotersIgnoreLeases in "B22",
        /// A voter that was restarted does not wait for a lease that it may have forgotten.
        RestartedVoterIgnoresLeases in "B22",
        /// A read under a lease is served before an entry of the leader's term is committed.
        LeaseReadBeforeOwnTerm in "B16",
        /// A read is served before an entry of the leader's term is committed.
        ReadBeforeOwnTerm in "B16",
        /// Who believes that it leads serves reads without asking anybody.
        ReadOnRoleAlone in "B18",
        /// The echo of an older round confirms the newest one.
        OldRoundConfirms in "B17",
        /// A read that comes while a round is under way is served by it.
        ReadJoinsRoundUnderWay in "B17",
        /// A round of an older term is echoed as one of the present term.
        RoundOfOldTermEchoed in "B17",
        /// The answer to an older question of a follower serves newer reads.
        OlderReadReplyServes in "B17",
        /// Reads that wait when leadership is lost never end.
        ReadsForgotten in "B78",

        // Replication and commit.

        /// An entry of an older term is committed by counting.
        CommitsOldTerm in "B25",
        /// A leader counts what is not durable on its own disk.
        CountsItselfBeforeDurable in "B60",
        /// A follower commits as far as the leader before it has compared the logs.
        CommitsUnproven in "B26",
        /// A heartbeat carries the leader's commit index, whatever its receiver holds.
        HeartbeatCommitUncapped in "B26",
        /// An older commit index takes the place of a newer one.
        CommitFalls in "B37",
        /// An acknowledgement leaves before the entries are durable.
        AcksBeforeDurable in "B59",
        /// An entry is applied as soon as it is committed, durable here or not.
        AppliesBeforeDurable in "B60",
        /// A repeated append cuts off what follows it.
        TruncatesOnDuplicate in "B27",
        /// An append cuts off even what is committed.
        TruncatesCommitted in "B28",
        /// The end of a write vouches for what has been cut off since.
        StaleCompletionTrusted in "B33",
        /// An append of a leader of an older term is taken.
        AppendOfOldTermTaken in "B31",
        /// A new leader takes for granted that everybody holds its whole log.
        MatchStartsAtLast in "B37",
        /// A probe that was lost is never repeated.
        LostProbeStalls in "B38",
        /// A snapshot that did not arrive is never sent again, nor anything else.
        LostSnapshotStalls in "B38",

        // Members.

        /// A configuration is in force only when it is applied.
        ConfigAtApplyTime in "B42",
        /// A configuration that was cut off stays in force.
        ConfigSurvivesTruncation in "B43",
        /// A configuration of a log that a snapshot replaced stays in force.
        ConfigSurvivesSnapshot in "B43",
        /// In a joint phase a majority of the new configuration is enough.
        JointCountsNewOnly in "B45",
        /// A member that was removed can be added again.
        RemovedComesBack in "B70",
        /// A learner is promoted before it has caught up.
        PromotedTooEarly in "B50",
        /// A leader changes the members before it has committed an entry of its own term.
        ChangeBeforeOwnTerm in "B41",
        /// A change is begun although another one is not committed yet.
        TwoChangesAtOnce in "B42",
        /// A joint phase is left before it is committed.
        JointLeftTooEarly in "B45",
        /// Only the leader that began a joint phase ends it.
        JointNeverLeft in "B45",

        // Snapshots.

        /// The state is replaced by a snapshot before the log has durably noted it.
        InstallsBeforeDurable in "B54",
        /// An older snapshot takes the place of a newer state.
        SnapshotGoesBack in "B52",
        /// A snapshot takes the place of a log that agrees with it and reaches further.
        SnapshotDropsAgreeingLog in "B28",
        /// A snapshot leaves a log as it is that differs from it.
        SnapshotKeepsOtherLog in "B28",

        // Requests.

        /// Proposals whose leader is lost never end.
        ProposalsForgotten in "B78",
        /// A proposal that has ended ends again.
        EndsTwice in "B78",
        /// A proposal is said to be committed when another entry took its place.
        SupersededAsCommitted in "B78",
        /// A proposal of which nobody knows is said to have failed.
        UnknownAsSuperseded in "B76",
        /// A copy of a proposal that was handed on is taken once more.
        CopyTakenTwice in "B76",
    }
    Storage {
        /// A batch is acknowledged without being synced.
        BatchNotSynced in "B59",
        /// A sync that failed is done again, and trusted.
        FailedSyncRetried in "B61",
        /// Of what is written together the hard state is lost.
        HardStateLost in "B04",
        /// A torn batch is taken as far as it can be read.
        TornBatchTaken in "B64",
        /// A torn tail stays where it is, and the next batch is written over its beginning.
        TornTailKept in "B66",
        /// A cut of the log is not replayed.
        CutNotReplayed in "B62",
        /// Damage in the middle of the log is taken for a torn tail.
        DamageTakenForTorn in "B64",
        /// What is damaged is taken for what was never there.
        DamageTakenForAbsence in "B64",
        /// The name of a new segment is not synced.
        SegmentNameNotSynced in "B66",
        /// Old segments go before it is noted where the log begins.
        SegmentsGoTooEarly in "B54",
        /// The log of another node is opened.
        OwnerNotChecked in "B70",
        /// A snapshot gets its name before it is synced.
        SnapshotNotSynced in "B54",
        /// The name of a snapshot is not synced.
        SnapshotNameNotSynced in "B54",
        /// A snapshot is published whatever the checksum of its whole.
        SnapshotCheckIgnored in "B56",
        /// The blocks of a snapshot are read without a look at their checksums.
        SnapshotBlocksNotChecked in "B56",
        /// A transfer goes on behind what another one brought.
        ChunksOfAnotherTransfer in "B56",
    }
    Driver {
        /// A read is served before its index is applied.
        ReadBeforeApplied in "B20",
        /// An entry that the state machine holds already is applied again.
        AppliedAgain in "B68",
        /// A retry is executed again.
        RetryExecuted in "B77",
        /// The table of sessions does not survive a snapshot.
        SessionsNotInSnapshot in "B77",
        /// The log is told of a snapshot that is not there yet.
        SnapshotNotPublished in "B54",
        /// Old snapshots go before the log has durably noted the new one.
        OldSnapshotGoesTooEarly in "B54",
    }
}
