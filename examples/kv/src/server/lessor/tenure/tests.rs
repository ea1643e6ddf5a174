//! Leases through leaderships, in virtual time.

use std::time::{Duration, Instant};

use kontiki::{Index, Term};
use proptest::collection::vec;
use proptest::prelude::*;

use super::{Renewal, Tenure};
use crate::proto::kontiki::LeaseRemaining;
use crate::store::{Lease, Leases};

const GRACE: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_secs(300);

fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn lease(ttl: i64) -> Lease {
    Lease { ttl, remaining: ttl, granted_at: Index(1) }
}

/// A leadership in term 3 that finds these leases.
fn tenure(leases: &[(i64, Lease)], now: Instant) -> Tenure {
    let leases = leases.iter().copied().collect::<Leases>();
    Tenure::begin(Term(3), &leases, now, GRACE, INTERVAL)
}

fn ids(tenure: &mut Tenure, now: Instant) -> Vec<i64> {
    tenure.expired(now, 100).iter().map(|revoke| revoke.id).collect()
}

#[test]
fn a_lease_ends_after_its_time_and_not_before() {
    let begin = Instant::now();
    let mut tenure = tenure(&[], begin);
    assert_eq!(tenure.next_at(), None);
    tenure.learn(7, Some(lease(5)), begin);
    tenure.learn(8, Some(lease(9)), begin);
    assert_eq!(tenure.next_at(), Some(begin + secs(5)));
    assert_eq!(ids(&mut tenure, begin + secs(5) - Duration::from_nanos(1)), [0; 0]);
    let revokes = tenure.expired(begin + secs(5), 100);
    let [revoke] = &revokes[..] else { panic!("{revokes:?}") };
    let expired = revoke.expired.expect("a leader says so");
    assert_eq!((revoke.id, expired.term, expired.granted_at), (7, 3, 1));
    assert_eq!(ids(&mut tenure, begin + secs(5)), [0; 0], "it is said once");
    assert_eq!(tenure.next_at(), Some(begin + secs(9)));
    tenure.learn(7, None, begin + secs(5));
    assert_eq!(tenure.renew(7, begin + secs(5)), Renewal::Gone);
    assert_eq!(tenure.remaining(7, begin), None);
}

#[test]
fn a_renewed_lease_has_all_of_its_time_again() {
    let begin = Instant::now();
    let mut tenure = tenure(&[], begin);
    tenure.learn(7, Some(lease(5)), begin);
    assert_eq!(tenure.renew(7, begin + secs(4)), Renewal::Renewed(5));
    assert_eq!(tenure.remaining(7, begin + secs(6)), Some(3));
    assert_eq!(ids(&mut tenure, begin + secs(8)), [0; 0]);
    assert_eq!(ids(&mut tenure, begin + secs(9)), [7]);
}

#[test]
fn a_lease_that_is_over_is_not_renewed_until_it_is_known_what_became_of_it() {
    let begin = Instant::now();
    let mut tenure = tenure(&[], begin);
    tenure.learn(7, Some(lease(5)), begin);
    let over = begin + secs(5);
    assert_eq!(tenure.renew(7, over), Renewal::Later, "though nobody has looked yet");
    let revoke = tenure.expired(over, 100).remove(0);
    assert_eq!(tenure.renew(7, over), Renewal::Later);
    // It could not be revoked, or nobody knows: it is revoked again, and never lives again.
    tenure.not_revoked(&revoke, over + secs(1));
    assert_eq!(tenure.renew(7, over), Renewal::Later);
    assert_eq!(tenure.next_at(), Some(over + secs(1)));
    assert_eq!(ids(&mut tenure, over), [0; 0]);
    assert_eq!(ids(&mut tenure, over + secs(1)), [7]);
    // Granted anew under the same id, it is another one.
    let other = Lease { granted_at: Index(2), ..lease(5) };
    tenure.learn(7, Some(other), over + secs(1));
    tenure.not_revoked(&revoke, over + secs(2));
    assert_eq!(tenure.renew(7, over + secs(1)), Renewal::Renewed(5));
    assert_eq!(tenure.next_at(), Some(over + secs(6)));
}

#[test]
fn no_more_are_revoked_at_once_than_there_is_room_for() {
    let begin = Instant::now();
    let leases: Vec<_> = (1..=10).map(|id| (id, lease(5))).collect();
    let mut tenure = tenure(&leases, begin);
    let over = begin + secs(6);
    assert_eq!(tenure.expired(over, 4).len(), 4);
    assert_eq!(tenure.expired(over, 0).len(), 0);
    assert_eq!(tenure.expired(over, 4).len(), 4);
    assert_eq!(tenure.expired(over, 4).len(), 2);
}

#[test]
fn a_new_leader_gives_what_the_checkpoint_left_and_the_time_of_the_election() {
    let begin = Instant::now();
    let noted = Lease { remaining: 100, ..lease(900) };
    let mut tenure = tenure(&[(7, noted), (8, lease(50))], begin);
    assert_eq!(tenure.remaining(7, begin), Some(101));
    assert_eq!(tenure.remaining(8, begin), Some(51));
    assert_eq!(ids(&mut tenure, begin + secs(51)), [8]);
    assert_eq!(ids(&mut tenure, begin + secs(101)), [7]);
}

fn note(tenure: &mut Tenure, now: Instant) -> Vec<(i64, i64)> {
    tenure.notes(now, 100).iter().map(|note| (note.id, note.remaining)).collect()
}

#[test]
fn what_is_left_of_a_long_lease_is_noted_and_of_a_short_one_never() {
    let begin = Instant::now();
    let mut tenure = tenure(&[], begin);
    tenure.learn(7, Some(lease(700)), begin);
    tenure.learn(8, Some(lease(300)), begin);
    let at = begin + INTERVAL;
    assert_eq!(note(&mut tenure, at - Duration::from_nanos(1)), []);
    assert_eq!(note(&mut tenure, at + Duration::from_millis(1)), [(7, 400)], "rounded up");
    assert_eq!(note(&mut tenure, at + INTERVAL), [], "one at a time");
    tenure.learn(7, Some(Lease { remaining: 400, ..lease(700) }), at);
    tenure.noted([7], at);
    assert_eq!(note(&mut tenure, at + INTERVAL), [(7, 100)]);
    // Nobody knows what came of it: it goes on as planned, and there is too little left.
    tenure.noted([7], at + INTERVAL);
    assert_eq!(note(&mut tenure, at + 3 * INTERVAL), []);
}

#[test]
fn a_renewal_waits_until_the_log_gives_all_of_the_time_again() {
    let begin = Instant::now();
    let mut tenure = tenure(&[], begin);
    tenure.learn(7, Some(lease(700)), begin);
    // Each renewal puts the note off.
    assert_eq!(tenure.renew(7, begin + secs(200)), Renewal::Renewed(700));
    assert_eq!(note(&mut tenure, begin + secs(499)), []);
    let at = begin + secs(500);
    assert_eq!(note(&mut tenure, at), [(7, 400)]);
    // It may get into the log behind the renewal, and a later leader would believe it.
    assert_eq!(tenure.renew(7, at + secs(1)), Renewal::Later);
    tenure.learn(7, Some(Lease { remaining: 400, ..lease(700) }), at + secs(2));
    tenure.noted([7], at + secs(2));
    assert_eq!(tenure.renew(7, at + secs(3)), Renewal::Later);
    assert_eq!(tenure.renew(7, at + secs(4)), Renewal::Later);
    assert_eq!(tenure.next_at(), Some(at + secs(3)), "at once");
    assert_eq!(note(&mut tenure, at + secs(9)), [(7, 700)], "all of it, late as it is");
    assert_eq!(tenure.renew(7, at + secs(10)), Renewal::Later);
    tenure.learn(7, Some(lease(700)), at + secs(11));
    tenure.noted([7], at + secs(11));
    assert_eq!(tenure.renew(7, at + secs(12)), Renewal::Renewed(700));
    assert_eq!(tenure.remaining(7, at + secs(12)), Some(700));
}

#[test]
fn nothing_is_left_behind_by_leases_that_go() {
    let begin = Instant::now();
    let mut tenure = tenure(&[(7, lease(700)), (8, lease(5))], begin);
    assert_eq!(note(&mut tenure, begin + INTERVAL), [(7, 401)]);
    tenure.learn(7, None, begin);
    tenure.learn(8, None, begin);
    tenure.noted([7], begin);
    assert_eq!(tenure.next_at(), None);
    assert!(tenure.leases.is_empty() && tenure.ends.is_empty() && tenure.due.is_empty());
}

/// What happens next to one lease.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// So many milliseconds pass; whether what is written to the log gets there.
    Pass(u64, bool),
    Renew,
    /// Nobody leads for so many milliseconds; another leader then. Whether what was under way
    /// still got into the log before.
    Failover(u64, bool),
}

fn step(renews: bool) -> impl Strategy<Value = Step> {
    let renew = if renews { 3 } else { 0 };
    prop_oneof![
        6 => (1u64..9000, proptest::bool::weighted(0.9)).prop_map(|(ms, is)| Step::Pass(ms, is)),
        renew => Just(Step::Renew),
        2 => (0u64..2000, any::<bool>()).prop_map(|(ms, is)| Step::Failover(ms, is)),
    ]
}

/// One lease, its log and whoever leads. Of the log there is the lease alone.
struct World {
    now: Instant,
    log: Option<Lease>,
    tenure: Tenure,
    /// Written, and not in the log yet.
    under_way: Option<LeaseRemaining>,
}

impl World {
    const INTERVAL: Duration = Duration::from_secs(7);

    fn new(ttl: i64) -> Self {
        let (now, log) = (Instant::now(), Some(lease(ttl)));
        let mut tenure = Tenure::begin(Term(1), &Leases::new(), now, GRACE, Self::INTERVAL);
        tenure.learn(7, log, now);
        Self { now, log, tenure, under_way: None }
    }

    /// Everything that is due up to `until` is done when it is due.
    fn pass(&mut self, until: Instant, arrives: bool) {
        while let Some(at) = self.tenure.next_at().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            for revoke in self.tenure.expired(self.now, 10) {
                match arrives {
                    true => self.log = None,
                    false => self.tenure.not_revoked(&revoke, self.now + secs(1)),
                }
            }
            self.land();
            self.under_way = self.tenure.notes(self.now, 10).pop();
            if arrives {
                self.land();
            }
            self.tenure.learn(7, self.log, self.now);
        }
        self.now = until;
        self.land();
        self.tenure.learn(7, self.log, self.now);
    }

    /// What is under way gets into the log.
    fn land(&mut self) {
        if let Some(note) = self.under_way.take() {
            if let Some(lease) = &mut self.log {
                lease.remaining = note.remaining;
            }
            self.tenure.learn(7, self.log, self.now);
            self.tenure.noted([7], self.now);
        }
    }

    fn fail_over(&mut self, gap: Duration, arrives: bool) {
        if arrives {
            self.land();
        }
        self.under_way = None;
        self.now += gap;
        let leases = self.log.iter().map(|lease| (7, *lease)).collect();
        let interval = Self::INTERVAL;
        self.tenure = Tenure::begin(Term(2), &leases, self.now, GRACE, interval);
    }
}

proptest! {
    // scenario B82
    #[test]
    fn nobody_loses_a_lease_that_was_renewed_in_time(
        ttl in 2i64..60,
        steps in vec(step(true), 1..120),
    ) {
        let mut world = World::new(ttl);
        let whole = secs(ttl.unsigned_abs());
        let mut promised = world.now + whole;
        for step in steps {
            let before = world.now;
            match step {
                Step::Pass(ms, arrives) => {
                    world.pass(before + Duration::from_millis(ms), arrives);
                }
                Step::Renew => {
                    if world.tenure.renew(7, world.now) == Renewal::Renewed(ttl) {
                        promised = world.now + whole;
                    }
                }
                Step::Failover(ms, arrives) => {
                    world.fail_over(Duration::from_millis(ms), arrives);
                }
            }
            if world.log.is_none() {
                prop_assert!(world.now >= promised, "{:?} too early", promised - world.now);
                break;
            }
        }
    }

    // scenario B82
    #[test]
    fn a_lease_that_nobody_renews_ends_however_many_leaders_there_are(
        ttl in 2i64..60,
        steps in vec(step(false), 1..120),
    ) {
        let mut world = World::new(ttl);
        let begin = world.now;
        // A leader that falls takes what it had not noted with it: no more than the interval; the
        // next one adds the time of its election, and nobody counts while nobody leads.
        let mut latest = begin + secs(ttl.unsigned_abs());
        for step in steps {
            match step {
                Step::Pass(ms, _) => world.pass(world.now + Duration::from_millis(ms), true),
                Step::Renew => {}
                Step::Failover(ms, _) => {
                    let gap = Duration::from_millis(ms);
                    world.fail_over(gap, true);
                    latest += gap + GRACE + World::INTERVAL + secs(1);
                }
            }
            if world.log.is_none() {
                return Ok(());
            }
            prop_assert!(world.now < latest, "{:?} too late", world.now - latest);
        }
    }
}
