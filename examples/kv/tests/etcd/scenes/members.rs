//! Members that come and go, as far as one that runs can show it: a voter that does not run would
//! take etcd its quorum, so those that are added are learners. What needs more members is shown
//! with processes.

use kontiki_kv::proto::etcdserverpb::{MemberListRequest, StatusRequest};

use crate::member_call::MemberCall::{
    AddLearner, AddVoter, HashKv, MoveLeader, Promote, Remove, Update,
};
use crate::member_call::Who::{Id, Newest, Own};
use crate::pair::Pair;

/// Nobody listens there.
const NOBODY: &str = "http://127.0.0.2:1";

pub async fn play(pair: &mut Pair) {
    pair.scene("members nobody knows");
    for who in [Id(0), Id(1), Id(u64::MAX)] {
        pair.ask(Remove(who)).await;
        pair.ask(Promote(who)).await;
        pair.ask(Update(who, vec![NOBODY])).await;
        pair.ask(MoveLeader(who)).await;
    }

    pair.scene("bad urls");
    for urls in [
        vec![],
        vec![""],
        vec!["127.0.0.2:1"],
        vec!["http://127.0.0.2"],
        vec!["http://127.0.0.2:1/path"],
        vec![NOBODY, "nothing"],
    ] {
        pair.ask(AddLearner(urls.clone())).await;
        pair.ask(AddVoter(urls)).await;
    }

    pair.scene("the only voter");
    pair.ask(Remove(Own)).await;
    pair.ask(Promote(Own)).await;
    pair.ask(MoveLeader(Own)).await;

    pair.scene("a learner");
    pair.ask(AddLearner(vec![NOBODY, "http://127.0.0.3:1"])).await;
    list(pair).await;
    pair.ask(AddLearner(vec![NOBODY])).await;
    pair.ask(AddVoter(vec!["http://127.0.0.4:1", "http://127.0.0.3:1"])).await;
    pair.ask(Promote(Newest)).await;
    pair.ask(MoveLeader(Newest)).await;
    pair.ask(StatusRequest {}).await;
    pair.scene("the only voter");
    pair.ask(Remove(Own)).await;

    pair.scene("hashes");
    pair.ask(HashKv(0)).await;
    pair.ask(HashKv(1 << 60)).await;
    pair.ask(HashKv(1)).await;
}

/// What was added is there after a crash, and is removed once.
pub async fn after(pair: &mut Pair) {
    list(pair).await;
    pair.ask(Remove(Newest)).await;
    list(pair).await;
    pair.scene("a member that is gone");
    pair.ask(Remove(Newest)).await;
    pair.ask(Promote(Newest)).await;
    pair.ask(Update(Newest, vec![NOBODY])).await;
    pair.ask(MoveLeader(Newest)).await;

    pair.scene("a learner moves");
    pair.ask(AddLearner(vec![NOBODY])).await;
    pair.ask(Update(Newest, vec!["http://127.0.0.5:1", "http://127.0.0.6:1"])).await;
    pair.ask(Update(Newest, vec!["http://127.0.0.5:1"])).await;
    list(pair).await;
    pair.ask(Remove(Newest)).await;
    pair.scene("nobody is left");
    list(pair).await;
}

async fn list(pair: &mut Pair) {
    for linearizable in [false, true] {
        pair.ask(MemberListRequest { linearizable }).await;
    }
}
