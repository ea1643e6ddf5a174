//! A trace as a page: what is drawn, and from where to where.

use std::collections::BTreeMap;

use raft_testkit::trace::diagram::{Drawing, page};
use raft_testkit::trace::{Checker, Line, Position, Record, Said, What};
use serde_json::Value;

use crate::scene::{Scene, empty};

fn numbered(records: &[Record]) -> Vec<(Line, Record)> {
    let line = |(record, number): (&Record, usize)| (Line { file: 0, number }, record.clone());
    records.iter().zip(1..).map(line).collect()
}

/// What the page was given to draw.
fn drawn(scene: &Scene) -> Value {
    let records = numbered(scene.records());
    let mut checker = Checker::new();
    let broken = records.iter().find_map(|(line, record)| checker.observe(*line, record).err());
    let names = BTreeMap::from([(3, "the third".to_owned())]);
    let drawing = Drawing { title: "a <title>", records: &records, broken: broken.as_ref(), names };
    let page = page(&drawing);
    assert!(page.contains("<title>a &lt;title&gt;</title>"), "titles are text");
    for marker in ["/*TRACE*/", "/*STYLE*/", "/*SCRIPT*/", "/*DRAWING*/", "http:", "https:"] {
        assert!(!page.contains(marker), "{marker}: the page is whole, and asks nobody");
    }
    let (_, rest) = page.split_once("type=\"application/json\">").expect("there are data");
    let (data, _) = rest.split_once("</script>").expect("they end");
    serde_json::from_str(data).expect("they are JSON")
}

/// The links by record: from, to, and the lane of one that was lost.
fn links(data: &Value) -> Vec<(u64, Option<u64>, u64)> {
    let links = data["links"].as_array().expect("a list");
    let link = |it: &Value| Some((it[0].as_u64()?, it[1].as_u64(), it[2].as_u64()?));
    links.iter().map(|it| link(it).expect("three numbers")).collect()
}

#[test]
fn messages_run_from_their_sender_to_their_receiver() {
    let mut scene = Scene::default();
    (1..=3).for_each(|node| scene.start(node, empty()));
    let beat = |round| Said::Heartbeat { commit: 0, round, sent_at: round };
    scene.send(1, 2, 1, beat(1)); // 3: lost
    scene.send(1, 3, 1, beat(1)); // 4
    scene.receive(3, 1, 1, beat(1)); // 5
    scene.send(1, 2, 1, beat(2)); // 6
    scene.send(1, 9, 1, beat(2)); // 7: nobody whose trace is here
    scene.receive(2, 1, 1, beat(2)); // 8
    scene.receive(2, 1, 1, beat(2)); // 9: a copy
    let data = drawn(&scene);
    assert_eq!(links(&data), [(3, None, 1), (4, Some(5), 2), (6, Some(8), 1), (6, Some(9), 1)]);
    assert_eq!(data["nodes"], serde_json::json!(["N1", "N2", "the third"]));
    assert_eq!(data["records"][4][4], "says to the third, t1: I lead, commit 0");
}

/// A message that was lost and sent again arrives from its second sending.
#[test]
fn the_newest_sending_is_the_one_that_arrives() {
    let mut scene = Scene::default();
    (1..=2).for_each(|node| scene.start(node, empty()));
    let append = || Said::Append { previous: Position(0, 0), count: 1, commit: 0 };
    scene.send(1, 2, 1, append()); // 2: lost
    scene.send(1, 2, 1, append()); // 3
    scene.receive(2, 1, 1, append()); // 4
    scene.send(1, 2, 1, append()); // 5: never arrives
    assert_eq!(links(&drawn(&scene)), [(2, None, 1), (3, Some(4), 1), (5, None, 1)]);
}

#[test]
fn lanes_show_roles_and_whether_a_node_was_up() {
    let mut scene = Scene::committed();
    scene.put(1, What::Crash);
    let crashed_at = scene.records().len() as f64;
    scene.put(2, What::Timer);
    scene.start(1, empty());
    let data = drawn(&scene);
    let spans: Vec<&Value> =
        data["spans"].as_array().expect("a list").iter().filter(|it| it[0] == 0).collect();
    let roles: Vec<&str> = spans.iter().filter_map(|it| it[4].as_str()).collect();
    assert_eq!(roles, ["follower", "candidate", "leader", "follower"]);
    let (down, up) = (spans[2][2].as_f64(), spans[3][1].as_f64());
    assert_eq!((down, up), (Some((crashed_at - 1.0) / 1e3), Some((crashed_at + 1.0) / 1e3)));
}

#[test]
fn a_broken_rule_is_shown_where_it_broke() {
    let mut scene = Scene::led();
    assert_eq!(drawn(&scene)["broken"], Value::Null);
    scene.send(2, 3, 1, Said::VoteReply { granted: true });
    let data = drawn(&scene);
    assert_eq!(data["broken"]["rule"], "one-vote");
    assert_eq!(data["broken"]["record"].as_u64(), Some(scene.records().len() as u64 - 1));
}

/// Text of users cannot end the script that it stands in.
#[test]
fn nothing_breaks_out_of_the_data() {
    let mut scene = Scene::default();
    scene.start(1, empty());
    scene.put(1, What::Refuse { count: 1, reason: "</script><b>/*SCRIPT*".into() });
    let data = drawn(&scene);
    assert_eq!(data["records"][1][4], "1 refused: </script><b>/*SCRIPT*");
}
