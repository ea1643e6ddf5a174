//! One replica: campaigns, and while it leads does the work that is next, one item at a time. A
//! well-meant program with the usual weakness: between its look at the clock and its write it may
//! be paused. It never coordinates with other replicas but through the cluster.
//!
//! When a leadership has ended, whatever part of the program did not hear of it goes on writing
//! with the old token: that is the `ghost`, which tries as soon as somebody else has written.
//!
//! It speaks in lines on standard output (see [`Line`]) and hears one word on standard input:
//! `resign`.

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use kontiki_election::protected::{Appended, ProtectedError};
use kontiki_election::{
    AcquireError, Connect, Election, Leadership, Protected, Session, SessionOptions, Token,
};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::{Failure, Supervised};

/// The name of the election.
const ELECTION: &str = "rehearsal";
/// How long an item takes to think of, between the look at the clock and the write.
const THINK: Duration = Duration::from_millis(20);
/// Before a campaign that failed is tried again.
const PAUSE: Duration = Duration::from_millis(100);
/// So often a ghost tries.
const GHOST_WRITES: u64 = 3;
/// Every so many items one is asked for twice, as after an answer that was lost.
const TWICE_EVERY: u64 = 10;

#[derive(Args)]
pub(crate) struct ReplicaArgs {
    #[arg(long)]
    name: String,
    #[arg(long)]
    database: PathBuf,
    #[arg(long)]
    ttl: u64,
    #[command(flatten)]
    connect: Connect,
    #[command(flatten)]
    supervised: Supervised,
}

/// What a replica says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// It leads, with this token.
    Leads(Token),
    /// It leads no more.
    Ended(Token),
    /// The database refused a write with this token.
    Refused(Token),
    /// The database took a write with this token after a larger one: that must not be.
    Accepted(Token),
    /// All that it will try with this token was tried.
    Exorcised(Token),
}

pub(crate) async fn run(args: ReplicaArgs) -> Result<ExitCode, Failure> {
    args.supervised.die_with_the_coordinator();
    let (orders, mut resign) = mpsc::channel(1);
    let replica = async {
        let client = args.connect.client();
        loop {
            let options = SessionOptions::new(Duration::from_secs(args.ttl));
            if let Ok(session) = Session::open(&client, options).await {
                while let Ok(leadership) = campaign(&session, &args.name).await {
                    lead(&args, &leadership, &mut resign).await?;
                    haunt(args.database.clone(), args.name.clone(), leadership.token());
                }
                // Others need not wait for what is no longer wanted.
                let _ = session.close().await;
            }
            sleep(PAUSE).await;
        }
    };
    tokio::select! {
        outcome = replica => outcome,
        () = listen(orders) => Ok(ExitCode::SUCCESS),
    }
}

/// Passes orders on, until the coordinator is gone.
async fn listen(orders: mpsc::Sender<()>) {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if line == "resign" {
            // One that waits already is enough.
            let _ = orders.try_send(());
        }
    }
}

async fn campaign(session: &Session, name: &str) -> Result<Leadership, AcquireError> {
    let election = Election::new(session, ELECTION);
    election.campaign(name.to_owned()).await
}

/// Works while it leads: until it is told to resign, its session is lost, or the database knows
/// better.
async fn lead(
    args: &ReplicaArgs,
    leadership: &Leadership,
    resign: &mut mpsc::Receiver<()>,
) -> Result<ExitCode, Failure> {
    let token = leadership.token();
    // What was ordered before is not meant for this leadership.
    while resign.try_recv().is_ok() {}
    say(Line::Leads(token));
    let mut database = Protected::open(&args.database).map_err(Failure::new)?;
    while leadership.is_held() {
        if resign.try_recv().is_ok() {
            // If it fails the session is lost, and the leadership with it.
            let _ = leadership.resign().await;
            break;
        }
        let next = database.next().map_err(Failure::new)?;
        sleep(THINK).await;
        match work(&mut database, token, &args.name, next) {
            Ok(()) => {}
            Err(ProtectedError::Stale { .. }) => {
                say(Line::Refused(token));
                break;
            }
            Err(error) => return Err(Failure::new(error)),
        }
    }
    say(Line::Ended(token));
    Ok(ExitCode::SUCCESS)
}

/// Does one item. Whoever gets no answer asks again under the same name.
fn work(
    database: &mut Protected,
    token: Token,
    name: &str,
    next: u64,
) -> Result<(), ProtectedError> {
    let request = format!("item {next}");
    database.append(token, name, &request)?;
    if next.is_multiple_of(TWICE_EVERY) {
        let again = database.append(token, name, &request)?;
        debug_assert_eq!(again, Appended::Before(next));
    }
    Ok(())
}

/// Waits until somebody has written with a larger token, and then writes with the old one.
fn haunt(database: PathBuf, name: String, token: Token) {
    let ghost = move |database: &Path| -> Result<(), ProtectedError> {
        let mut database = Protected::open(database)?;
        while database.fence()? <= token {
            std::thread::sleep(THINK);
        }
        for number in 1..=GHOST_WRITES {
            let request = format!("ghost of {token}, {number}");
            match database.append(token, &name, &request) {
                Err(ProtectedError::Stale { .. }) => say(Line::Refused(token)),
                Ok(_) => say(Line::Accepted(token)),
                Err(error) => return Err(error),
            }
        }
        say(Line::Exorcised(token));
        Ok(())
    };
    std::thread::spawn(move || {
        if let Err(error) = ghost(&database) {
            eprintln!("the ghost of {token}: {error}");
        }
    });
}

/// Says a line. When nobody hears it, there is nobody to tell of that either.
fn say(line: Line) {
    let mut stdout = std::io::stdout().lock();
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, token) = match self {
            Self::Leads(token) => ("leads", token),
            Self::Ended(token) => ("ended", token),
            Self::Refused(token) => ("refused", token),
            Self::Accepted(token) => ("accepted", token),
            Self::Exorcised(token) => ("exorcised", token),
        };
        write!(f, "{word} {token}")
    }
}

impl FromStr for Line {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (word, token) = text.split_once(' ').ok_or(())?;
        let token = Token(token.parse().map_err(drop)?);
        match word {
            "leads" => Ok(Self::Leads(token)),
            "ended" => Ok(Self::Ended(token)),
            "refused" => Ok(Self::Refused(token)),
            "accepted" => Ok(Self::Accepted(token)),
            "exorcised" => Ok(Self::Exorcised(token)),
            _ => Err(()),
        }
    }
}
