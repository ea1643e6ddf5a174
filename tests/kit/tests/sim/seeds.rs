//! Whole clusters under the faults of a few seeds.

use raft_testkit::sim::{self, Act, Faults, Plan};

fn plan(seed: u64) -> Plan {
    let mut plan = sim::plan(seed, &Faults::all(), None);
    plan.settings.storm_ms = plan.settings.storm_ms.min(6000);
    plan.acts.retain(|(at, _)| *at <= 6000);
    plan
}

#[test]
fn a_few_seeds_break_no_rule() {
    let (mut committed, mut restarts) = (0, 0);
    for seed in 1..=12 {
        let plan = plan(seed);
        let report = sim::run(&plan).unwrap_or_else(|violation| panic!("{violation}\n{plan}"));
        committed += report.committed;
        restarts += report.restarts;
    }
    assert!(committed > 500 && restarts > 50, "{committed} entries, {restarts} restarts");
}

#[test]
fn one_seed_is_one_history() {
    for seed in [3, 5, 8] {
        let plan = plan(seed);
        let (first, second) = (sim::story(&plan), sim::story(&plan));
        assert_eq!(first, second);
        assert!(first.1.len() > 50, "a story is told");
    }
}

#[test]
fn a_plan_is_the_same_from_its_text() {
    for seed in 1..=200 {
        let plan = sim::plan(seed, &Faults::all(), None);
        assert_eq!(plan.to_string().parse::<Plan>(), Ok(plan));
    }
}

#[test]
fn every_part_of_a_plan_is_a_plan() {
    let plan = plan(9);
    for keep in 0..4 {
        let mut part = plan.clone();
        let mut number = 0;
        part.acts.retain(|_| {
            number += 1;
            number % 4 == keep
        });
        sim::run(&part).unwrap_or_else(|violation| panic!("{violation}\n{part}"));
    }
}

#[test]
fn a_quiet_cluster_answers_everything() {
    let plan = Plan { seed: 1, nodes: 3, settings: Default::default(), acts: Vec::new() };
    let report = sim::run(&plan).expect("nothing is done to it");
    assert_eq!((report.restarts, report.elections), (0, 1));
    assert!(report.answered > 50 && report.reads > 50, "{report:?}");
    assert!(report.compared > 10, "{report:?}");
}

#[test]
fn who_comes_back_with_an_empty_disk_is_refused() {
    let node = |number| raft_testkit::cluster::node(number);
    let wiped = (1..=3).map(|number| (4000, Act::Wipe(node(number)))).collect();
    let plan = Plan { seed: 1, nodes: 3, settings: Default::default(), acts: wiped };
    let report = sim::run(&plan).expect("two of three are left");
    assert_eq!(report.marks.get(&sim::Mark::WipedRefused), Some(&1), "of a minority: {report:?}");
}
