//! A new cluster out of what one member holds, when the others are lost for good.

use std::sync::Arc;

use raft_core::{Entry, HardState, Index, LogReader, LogStore, Membership, NodeId, Payload, Term};
use raft_storage::{OpenError, Owner, RecoverError, Wal, force_new_cluster};
use raft_testkit::disk::SimDisk;

use crate::model::{
    at, command, create, dir, entries, hard, identity, mark, node, options, owner, persist, voters,
};

const NEW: u64 = 0xc9;

/// Four entries of which two are known to be committed, behind a snapshot of the first.
fn old_cluster() -> SimDisk {
    let disk = SimDisk::new();
    let mut wal = create(&disk);
    let group = Membership::founded([(node(1), "one:7000"), (node(2), "two:7000")]);
    let payload = Payload::Membership(Arc::new(group.expect("voters")));
    let change = Entry { index: Index(2), term: Term(3), payload };
    wal.persist(&[entries([command(1, 3, b"one"), change])]).expect("a healthy disk");
    wal.persist(&[entries([command(3, 3, b"three"), command(4, 3, b"four")]), hard(5, Some(2), 2)])
        .expect("a healthy disk");
    persist(&mut wal, &[mark(at(1, 3), at(1, 3), (Index(0), voters().into()))])
        .expect("a healthy disk");
    wal.close().expect("a healthy disk");
    disk
}

#[test]
fn one_member_goes_on_alone_under_a_new_name_with_all_that_it_holds() {
    let disk = old_cluster();
    let forced = force_new_cluster(dir(), NEW, &options(&disk)).expect("an intact log");
    assert_eq!((forced.before, forced.identity.cluster_id), (identity(), NEW));
    assert_eq!(forced.identity.incarnation, identity().incarnation);
    assert_eq!((forced.commit, forced.last), (Index(2), at(4, 3)));
    assert_eq!((forced.dropped, forced.membership), (vec![node(2)], at(5, 6)));

    let refused = Wal::open(dir(), owner(), &options(&disk)).map(drop);
    assert!(matches!(refused, Err(OpenError::WrongOwner { .. })), "{refused:?}");
    let owner = Owner { cluster_id: NEW, ..owner() };
    let (wal, recovered) = Wal::open(dir(), owner, &options(&disk)).expect("the new cluster");
    let (index, alone) = recovered.memberships.last().expect("members").clone();
    assert_eq!((index, alone.voters().collect::<Vec<NodeId>>()), (Index(5), vec![node(1)]));
    assert_eq!(alone.members()[0].address, "one:7000");
    assert!(!alone.is_joint());
    let expected = HardState { term: Term(6), vote: Some(node(1)), commit: Index(2) };
    assert_eq!((recovered.hard_state, recovered.snapshot), (expected, at(1, 3)));
    let mut found = Vec::new();
    wal.reader().read(Index(3), Index(4), 1 << 20, &mut found).expect("they are kept");
    assert_eq!(found, [command(3, 3, b"three"), command(4, 3, b"four")]);
    wal.snapshots().verify(at(1, 3)).expect("the snapshot still counts");
}

#[test]
fn it_may_be_cut_short_and_done_again() {
    let disk = old_cluster();
    disk.keep_history();
    force_new_cluster(dir(), NEW, &options(&disk)).expect("an intact log");
    for (boundary, image) in disk.history().iter().enumerate() {
        for outcome in 0..7 {
            let disk = SimDisk::from_image(image.after_power_cut(outcome));
            let again = force_new_cluster(dir(), NEW + 1, &options(&disk));
            let forced = again.unwrap_or_else(|error| panic!("{boundary}, {outcome}: {error}"));
            assert!(forced.last == at(4, 3) || forced.last == at(5, 6), "{boundary}, {outcome}");
        }
    }
}

#[test]
fn a_damaged_or_incomplete_log_is_refused_and_left_alone() {
    let disk = old_cluster();
    let refused = |disk: &SimDisk, cluster_id| {
        let before = disk.files();
        let refused = force_new_cluster(dir(), cluster_id, &options(disk));
        assert_eq!(disk.files(), before, "nothing was changed");
        refused.expect_err("refused")
    };
    let same = refused(&disk, identity().cluster_id);
    assert!(matches!(same, RecoverError::SameCluster { .. }), "{same}");

    let (path, _) = disk
        .files()
        .into_iter()
        .find(|(path, _)| path.extension().is_some_and(|it| it == "wal"))
        .expect("a segment");
    let damaged = SimDisk::from_image(disk.image());
    damaged.corrupt(&path, 700, |byte| byte ^ 1);
    let error = refused(&damaged, NEW);
    assert!(matches!(error, RecoverError::Open(OpenError::Corrupt(_))), "{error}");

    drop(Wal::open(dir(), owner(), &options(&damaged)).expect("it is repaired"));
    let error = force_new_cluster(dir(), NEW, &options(&damaged)).expect_err("incomplete");
    assert!(error.to_string().contains("it held entries up to 4:t3"), "{error}");

    let joining = SimDisk::new();
    let unknown = Membership::unknown();
    drop(Wal::create(dir(), identity(), &unknown, &options(&joining)).expect("a new log"));
    let error = force_new_cluster(dir(), NEW, &options(&joining)).expect_err("nothing is in it");
    assert!(matches!(error, RecoverError::NotJoined { .. }), "{error}");
}
