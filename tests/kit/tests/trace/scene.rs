//! Hand-made traces of three nodes, told step by step.

use std::collections::BTreeMap;

use raft_testkit::trace::{
    Checker, EntryMark, Figures, HardStateMark, Line, MembersMark, Persist, Position, Record, Role,
    Said, Start, VERSION, Violation, What,
};

/// A trace that is being told. Time goes on with each record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scene {
    records: Vec<Record>,
    runs: BTreeMap<u64, u64>,
}

impl Scene {
    /// N1, N2 and N3 found a group.
    pub(crate) fn founded() -> Self {
        let mut scene = Self::default();
        (1..=3).for_each(|node| scene.start(node, empty()));
        scene
    }

    /// And N1 leads term 1; what it did for that is durable everywhere.
    pub(crate) fn led() -> Self {
        let mut scene = Self::founded();
        scene.stand(1, 1, Position(0, 0));
        scene.vote(2, 1, 1, Position(0, 0));
        scene.receive(1, 2, 1, Said::VoteReply { granted: true });
        scene.role(1, 1, Role::Leader);
        scene.append(1, 2, 1);
        scene.persisted(1, 2);
        scene
    }

    /// And its first entry is committed on N1 and N2.
    pub(crate) fn committed() -> Self {
        let mut scene = Self::led();
        scene.accept(2, 2, (1, 1), Position(0, 0), 1);
        scene.receive(1, 2, 1, Said::Accept { matched: 1 });
        scene.put(1, What::Commit { index: 1 });
        scene.receive(2, 1, 1, Said::Commit { commit: 1 });
        scene.put(2, What::Commit { index: 1 });
        scene
    }

    pub(crate) fn put(&mut self, node: u64, what: What) {
        let run = self.runs.get(&node).copied().unwrap_or_default();
        let at = self.records.len() as u64 + 1;
        self.records.push(Record { node, run, at, what });
    }

    pub(crate) fn start(&mut self, node: u64, start: Start) {
        *self.runs.entry(node).or_default() += 1;
        self.put(node, What::Start(Box::new(start)));
    }

    pub(crate) fn receive(&mut self, node: u64, from: u64, term: u64, says: Said) {
        self.put(node, What::Receive { from, term, says });
    }

    pub(crate) fn send(&mut self, node: u64, to: u64, term: u64, says: Said) {
        self.put(node, What::Send { to, term, says });
    }

    pub(crate) fn role(&mut self, node: u64, term: u64, role: Role) {
        self.put(node, What::Role { term, role, leader: None, last: Position(0, 0) });
    }

    pub(crate) fn persist(&mut self, node: u64, write: Persist) {
        self.put(node, What::Persist(write));
    }

    pub(crate) fn persisted(&mut self, node: u64, ticket: u64) {
        self.put(node, What::Persisted { ticket });
    }

    /// `node` promises `vote` in `term` with its write `ticket`.
    pub(crate) fn promise(&mut self, node: u64, ticket: u64, term: u64, vote: Option<u64>) {
        let hard_state = Some(HardStateMark { term, vote, commit: 0 });
        self.persist(node, Persist { ticket, hard_state, ..Persist::default() });
    }

    /// `node` stands in `term`; its own vote is durable.
    pub(crate) fn stand(&mut self, node: u64, term: u64, last: Position) {
        self.put(node, What::Timer);
        self.role(node, term, Role::Candidate);
        self.promise(node, term, term, Some(node));
        self.persisted(node, term);
        for to in (1..=3).filter(|to| *to != node) {
            self.send(node, to, term, Said::Vote { last, transfer: false });
        }
    }

    /// `node` votes for `candidate`, and the vote leaves when it is durable.
    pub(crate) fn vote(&mut self, node: u64, candidate: u64, term: u64, last: Position) {
        self.receive(node, candidate, term, Said::Vote { last, transfer: false });
        self.role(node, term, Role::Follower);
        self.promise(node, term, term, Some(candidate));
        self.persisted(node, term);
        self.send(node, candidate, term, Said::VoteReply { granted: true });
    }

    /// `node` writes an entry of `term` at the index that is named like its ticket, less one.
    pub(crate) fn append(&mut self, node: u64, ticket: u64, term: u64) {
        self.persist(node, entries(ticket, &[EntryMark(ticket - 1, term, checksum(term))]));
    }

    /// `node` writes an entry of `(index, term)` from `leader`, and acknowledges it when it is
    /// durable.
    pub(crate) fn accept(
        &mut self,
        node: u64,
        ticket: u64,
        (index, term): (u64, u64),
        previous: Position,
        leader: u64,
    ) {
        self.receive(node, leader, term, Said::Append { previous, count: 1, commit: 0 });
        self.persist(node, entries(ticket, &[EntryMark(index, term, checksum(term))]));
        self.persisted(node, ticket);
        self.send(node, leader, term, Said::Accept { matched: index });
    }

    pub(crate) fn records(&self) -> &[Record] {
        &self.records
    }

    pub(crate) fn check(&self) -> Result<Figures, Violation> {
        let mut checker = Checker::new();
        for (record, number) in self.records.iter().zip(1..) {
            checker.observe(Line { file: 0, number }, record)?;
        }
        Ok(checker.figures())
    }

    /// The last record, and it alone, breaks this rule, and it is said so.
    pub(crate) fn breaks(&self, rule: &str, words: &str) {
        let found = self.check().expect_err("a rule is broken");
        assert_eq!((found.rule, found.line.number), (rule, self.records.len()), "{found}");
        assert!(found.to_string().contains(words), "{found}");
    }

    pub(crate) fn passes(&self) -> Figures {
        self.check().unwrap_or_else(|found| panic!("{found}\n{:?}", found.record))
    }
}

pub(crate) fn checksum(term: u64) -> u32 {
    1000 + term as u32
}

pub(crate) fn entries(ticket: u64, entries: &[EntryMark]) -> Persist {
    Persist { ticket, entries: entries.to_vec(), ..Persist::default() }
}

/// A node that starts for the first time.
pub(crate) fn empty() -> Start {
    let members = MembersMark { voters: vec![1, 2, 3], ..MembersMark::default() };
    Start { version: VERSION, disk: Some(0), members, ..Start::default() }
}

/// A node that comes back with this.
pub(crate) fn back(term: u64, vote: Option<u64>, terms: &[Position], last: u64) -> Start {
    let newest = terms.last().map_or(0, |run| run.0);
    Start {
        hard_state: HardStateMark { term, vote, commit: 0 },
        terms: terms.to_vec(),
        last: Position(newest, last),
        ..empty()
    }
}
