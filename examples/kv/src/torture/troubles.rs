//! What goes wrong and stays so for a while: how it begins, and how it ends.

use std::time::Duration;

use tokio::time::sleep;

use super::arena::Arena;
use super::schedule::{Cut, Trouble, Whom};
use crate::cli::Failure;

/// A trouble that has begun.
pub(crate) struct Begun {
    /// Whom it met.
    victims: Vec<usize>,
    /// In words that are counted.
    pub(crate) words: Vec<(&'static str, u64)>,
}

impl Arena {
    pub(crate) async fn begin(&mut self, trouble: &Trouble) -> Result<Begun, Failure> {
        let leader = self.leader().await;
        let begun = match trouble {
            Trouble::Dead { whom, again } => {
                let victims = self.find(*whom).await;
                for at in &victims {
                    self.kill(*at).await;
                }
                let killed = (victims.len() * (1 + again.len())) as u64;
                let words = [vec![("processes", killed)], words(*whom, &victims, leader)].concat();
                Begun { victims, words }
            }
            Trouble::Stopped(whom) => {
                let victims = self.find(*whom).await;
                victims.iter().for_each(|at| self.pause(*at));
                Begun { words: words(*whom, &victims, leader), victims }
            }
            Trouble::Cut(cut) => {
                let links = self.links(*cut).await;
                self.cut(&links);
                Begun { victims: Vec::new(), words: vec![(name(*cut), 1)] }
            }
            Trouble::Slow(delay) => {
                self.wires.slow(*delay);
                Begun { victims: Vec::new(), words: vec![("all links", 1)] }
            }
        };
        Ok(begun)
    }

    pub(crate) async fn end_trouble(
        &mut self,
        trouble: &Trouble,
        begun: &Begun,
    ) -> Result<(), Failure> {
        match trouble {
            Trouble::Dead { again, .. } => {
                self.start_all(&begun.victims)?;
                for pause in again {
                    sleep(*pause).await;
                    for at in &begun.victims {
                        self.kill(*at).await;
                    }
                    self.start_all(&begun.victims)?;
                }
            }
            Trouble::Stopped(_) => {
                for at in &begun.victims {
                    self.resume(*at);
                    // They do not all wake in the same moment.
                    sleep(Duration::from_millis(5)).await;
                }
            }
            Trouble::Cut(_) | Trouble::Slow(_) => self.wires.mend(),
        }
        Ok(())
    }

    fn start_all(&mut self, victims: &[usize]) -> Result<(), Failure> {
        victims.iter().try_for_each(|at| self.start_node(*at))
    }
}

fn words(whom: Whom, victims: &[usize], leader: Option<usize>) -> Vec<(&'static str, u64)> {
    let leads = leader.is_some_and(|leader| victims.contains(&leader));
    let group = match whom {
        Whom::Majority(_) => "a majority at once",
        Whom::All => "all at once",
        Whom::Leader | Whom::Node(_) if leads => "the leader alone",
        Whom::Leader | Whom::Node(_) => "a follower alone",
    };
    vec![(group, 1)]
}

fn name(cut: Cut) -> &'static str {
    match cut {
        Cut::Off(_) => "a node cut off",
        Cut::Mute(_) => "a node not heard",
        Cut::Deaf(_) => "a node that hears nobody",
        Cut::Pair(..) => "one link",
        Cut::Minority(_) => "a minority apart",
    }
}
