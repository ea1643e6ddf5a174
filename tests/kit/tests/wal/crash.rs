//! Power cuts. What the log is made of is cut by `raft_testkit::cuts`; its creation here.

use raft_core::Index;
use raft_storage::{OpenError, Wal};
use raft_testkit::cuts;
use raft_testkit::disk::SimDisk;

use crate::model::{Model, create, dir, open, options, try_open};

// scenarios B04, B62, B66
#[test]
fn at_every_operation_a_cut_leaves_what_was_acknowledged_and_the_log_goes_on() {
    let figures = cuts::hunt(7, 2).unwrap_or_else(|violation| panic!("{violation}"));
    assert_eq!(figures.traces, 4);
    assert!(figures.cuts > 5000 && figures.exhaustive_cuts > 500, "{figures}");
    assert!(figures.recovery_cuts > 1000, "{figures}");
}

// scenario B54: everything that is made of several steps is wholly there or not at all.
#[test]
fn a_creation_that_is_cut_short_leaves_nothing_or_an_empty_log() {
    let made = SimDisk::new();
    made.keep_history();
    drop(create(&made));
    let done = made.operations();
    for (moment, image) in made.history().iter().enumerate() {
        let outcomes = image.outcomes();
        let count = outcomes.count().filter(|count| *count < 1000);
        for outcome in 0..count.unwrap_or(70) {
            let disk = SimDisk::from_image(match count {
                Some(_) => outcomes.nth(outcome),
                None => image.after_power_cut(outcome),
            });
            if !Wal::exists(dir(), &options(&disk)).expect("a healthy disk") {
                assert!(moment < done, "moment {moment}, outcome {outcome}: the log was made");
                assert!(matches!(try_open(&disk), Err(OpenError::Absent { .. })));
                drop(create(&disk));
            }
            assert_eq!(open(&disk).1, Model::default());
        }
    }
    assert_eq!(try_open(&made).expect("a new log").1.log.last_index(), Index::ZERO);
}
