//! Traces are read as they were written, also where a process was killed while it wrote.

use std::io::Cursor;

use raft_testkit::trace::{Line, Record, VERSION, What, merge, to_lines};

use crate::scene::{Scene, empty};

fn read(files: &[String]) -> Result<(Vec<(Line, Record)>, usize), String> {
    let mut merged = merge(files.iter().map(|text| Cursor::new(text.clone())));
    let mut records = Vec::new();
    for record in merged.by_ref() {
        records.push(record.map_err(|error| error.to_string())?);
    }
    Ok((records, merged.cut_off()))
}

#[test]
fn what_is_written_is_read() {
    let scene = Scene::committed();
    let text = to_lines(scene.records());
    assert_eq!(text.lines().count(), scene.records().len());
    let (records, cut_off) = read(&[text]).expect("it is whole");
    let records: Vec<Record> = records.into_iter().map(|(_, record)| record).collect();
    assert_eq!((records.as_slice(), cut_off), (scene.records(), 0));
}

/// The format is a promise: traces of old versions are read for long.
#[test]
fn a_line_stays_what_it_was() {
    let line = "{\"node\":1,\"run\":7,\"at\":1500,\"what\":{\"persist\":{\"ticket\":4,\
        \"entries\":[[9,3,77]],\"hard_state\":{\"term\":3,\"vote\":2,\"commit\":8}}}}\n\
        {\"node\":1,\"run\":7,\"at\":1501,\"what\":{\"send\":{\"to\":2,\"term\":3,\"says\":\
        {\"vote\":{\"last\":[2,9]}}}}}\n";
    let (records, _) = read(&[line.to_owned()]).expect("it is read");
    assert_eq!(to_lines(records.iter().map(|(_, record)| record)), line);
}

#[test]
fn files_are_merged_by_time_and_each_keeps_its_order() {
    let scene = Scene::committed();
    let of = |node: u64| to_lines(scene.records().iter().filter(|record| record.node == node));
    let (records, _) = read(&[of(1), of(2), of(3)]).expect("they are whole");
    let merged: Vec<&Record> = records.iter().map(|(_, record)| record).collect();
    assert_eq!(merged, scene.records().iter().collect::<Vec<_>>());
    assert_eq!(records[1].0, Line { file: 1, number: 1 });

    let back_in_time = of(2).lines().rev().map(|line| format!("{line}\n")).collect::<String>();
    let (records, _) = read(&[of(1), back_in_time.clone()]).expect("they are whole");
    let of_two = records.iter().filter(|(line, _)| line.file == 1).map(|(_, record)| record);
    assert_eq!(to_lines(of_two), back_in_time);
}

#[test]
fn an_unfinished_line_is_left_out_where_a_run_ends() {
    let scene = Scene::led();
    let whole = to_lines(scene.records());
    let cut = format!("{whole}{{\"node\":2,\"ru");
    let (records, cut_off) = read(std::slice::from_ref(&cut)).expect("the end may be missing");
    assert_eq!((records.len(), cut_off), (scene.records().len(), 1));

    let mut next = Scene::default();
    next.start(2, empty());
    let (records, cut_off) =
        read(&[format!("{cut}\n{}", to_lines(next.records()))]).expect("a new run begins");
    assert_eq!((records.len(), cut_off), (scene.records().len() + 1, 1));

    let wrong = format!("{cut}\n{whole}");
    // The first of `whole` is a start, so cut there once more.
    let (first, rest) = wrong.split_at(cut.len() + 1);
    let rest: String = rest.lines().skip(4).map(|line| format!("{line}\n")).collect();
    let error = read(&[format!("{first}{rest}")]).expect_err("lines are missing");
    assert!(error.contains(&format!("line {} of file 1", scene.records().len() + 1)), "{error}");
}

#[test]
fn another_version_is_refused() {
    let mut scene = Scene::default();
    let start = raft_testkit::trace::Start { version: VERSION + 1, ..empty() };
    scene.put(1, What::Start(Box::new(start)));
    let error = read(&[to_lines(scene.records())]).expect_err("nobody knows it");
    assert!(error.contains("this is version 2, not 1"), "{error}");
}
