//! A store that nothing was ever written to: it is at revision 1, and nothing is compacted.

use crate::pair::Pair;
use crate::requests::{Operation, when};
use crate::requests::{always, compact, delete, get, range};

pub async fn play(pair: &mut Pair) {
    pair.scene("fresh");
    pair.dump().await;
    for revision in [i64::MIN, -2, -1, 0, 1, 2] {
        let mut request = range("\0", "\0");
        request.revision = revision;
        pair.ask(request.clone()).await;
        // A transaction takes the revision by its word.
        pair.ask(always(vec![request.op()])).await;
    }
    pair.ask(delete("\0", "\0")).await;
    pair.ask(always(vec![])).await;
    pair.ask(when(vec![], vec![get("a").op(), delete("a", "").op()], vec![])).await;
    for revision in [i64::MIN, -2, -1, 2, 0, 0, 1, 1, 0, -1] {
        pair.ask(compact(revision)).await;
        pair.dump().await;
    }
    for revision in [-1, 0, 1, 2] {
        let mut request = range("\0", "\0");
        request.revision = revision;
        pair.ask(request.clone()).await;
        pair.ask(always(vec![request.op()])).await;
    }
}
