//! What clients do: they append to lists, with sessions and without, and are judged by the history
//! of what they saw; or they propose commands of somebody's own.

use bytes::Bytes;
use raft_core::Instant;
use raft_driver::StateMachine;
use raft_driver::sessions::{Answer, Frame, SessionMachine};

use super::machine::Lists;
use super::marks::Mark;
use super::plan::Settings;
use crate::cluster::Dice;
use crate::history::list::{Input, Output};
use crate::history::{CallId, History, ListAppend, check};

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A command for the state machine.
    Propose(Bytes),
    /// A look at the state machine that sees all that was acknowledged before.
    Read {
        /// Whether a lease will do.
        lease: bool,
    },
}

/// How that ended.
pub enum End<'a, S: StateMachine> {
    /// The command was applied.
    Applied(S::Response),
    /// The state machine may be looked at.
    Readable(&'a S),
    /// Surely not executed.
    Refused,
    /// It may have been executed, or may yet be.
    Unknown,
}

/// The clients of a cluster. Each has one call at a time.
pub trait Workload<S: StateMachine> {
    /// How many clients there are.
    fn clients(&self) -> u64;

    /// What this client asks for now; nothing new where the clients are to come to an end.
    fn ask(&mut self, client: u64, now: Instant, is_over: bool, dice: &mut Dice) -> Option<Ask>;

    /// How it ended.
    fn on_end(&mut self, client: u64, now: Instant, end: End<'_, S>);

    /// What is to be said of all of it.
    ///
    /// # Errors
    /// The clients saw what they must not see.
    fn judge(&self) -> Result<String, String>;

    /// What happened to clients that is worth to be counted.
    fn take_marks(&mut self) -> Vec<Mark> {
        Vec::new()
    }
}

/// A machine of lists, with sessions around it or without.
pub(super) trait ListMachine: StateMachine {
    const HAS_SESSIONS: bool;

    fn lists(&self) -> &Lists;

    /// The response as one of a session.
    fn answer(response: Self::Response) -> Answer<u64>;
}

impl ListMachine for Lists {
    const HAS_SESSIONS: bool = false;

    fn lists(&self) -> &Lists {
        self
    }

    fn answer(response: u64) -> Answer<u64> {
        Answer::Done(response)
    }
}

impl ListMachine for SessionMachine<Lists> {
    const HAS_SESSIONS: bool = true;

    fn lists(&self) -> &Lists {
        self.machine()
    }

    fn answer(response: Answer<u64>) -> Answer<u64> {
        response
    }
}

/// Clients of lists. With sessions, client 0 moves replicated time on, and most of the others try
/// again what may have been lost; the rest, and all without sessions, never do.
pub(super) struct ListClients {
    clients: Vec<Client>,
    history: History<ListAppend, u64>,
    keys: u64,
    session_ms: u64,
    numbers: u64,
    /// Replicated time, and when it was that.
    time: (u64, Instant),
    marks: Vec<Mark>,
}

#[derive(Default)]
struct Client {
    session: Option<u64>,
    is_patient: bool,
    /// The number of its newest command.
    command: u64,
    call: Option<Call>,
}

#[derive(Clone, Debug)]
struct Call {
    id: Option<CallId>,
    what: What,
    tries: u32,
    /// A try of it may have been executed.
    is_uncertain: bool,
}

#[derive(Clone, Debug)]
enum What {
    Time,
    Register,
    Append { key: u64, number: u64 },
    Read { key: u64, lease: bool },
}

/// How often a command is tried.
const TRIES_MAX: u32 = 30;
/// How many numbers of one client the search of a history may have to place by guess.
const NAME_STRIDE: u64 = 1000;

impl ListClients {
    pub(super) fn new(settings: &Settings) -> Self {
        let client = |number| Client { is_patient: number % 3 != 2, ..Client::default() };
        Self {
            clients: (0..=settings.clients).map(client).collect(),
            history: History::new(),
            keys: settings.keys.max(1),
            session_ms: settings.session_ms,
            numbers: 0,
            time: (0, Instant(0)),
            marks: Vec::new(),
        }
    }

    /// How many calls there were.
    fn new_call(&mut self, number: u64, sessions: bool, now: Instant, dice: &mut Dice) -> Call {
        let client = &mut self.clients[number as usize];
        let call = |what, id| Call { id, what, tries: 0, is_uncertain: false };
        if number == 0 && sessions {
            return call(What::Time, None);
        }
        if sessions && client.session.is_none() {
            return call(What::Register, None);
        }
        let key = dice.below(self.keys);
        // One that gives up goes on as somebody else.
        let name = number + NAME_STRIDE * client.command;
        if dice.chance(400) {
            let id = self.history.call(name, now.0, key, Input::Read);
            return call(What::Read { key, lease: dice.chance(500) }, Some(id));
        }
        self.numbers += 1;
        client.command += 1;
        let id = self.history.call(name, now.0, key, Input::Append(self.numbers));
        call(What::Append { key, number: self.numbers }, Some(id))
    }

    fn bytes(&self, client: &Client, what: &What, now: Instant) -> Ask {
        let frame = match *what {
            What::Read { lease, .. } => return Ask::Read { lease },
            What::Time => {
                let (from_ms, since) = self.time;
                Frame::Time { from_ms, to_ms: from_ms + now.since(since).as_millis() as u64 }
            }
            What::Register => Frame::Register { lifetime_ms: self.session_ms },
            What::Append { key, number } => {
                let command = Lists::append(key, number);
                let Some(session) = client.session else { return Ask::Propose(command) };
                let number = client.command;
                Frame::Execute { session, number, answered: number, command }
            }
        };
        Ask::Propose(frame.encode())
    }

    /// The call is over, with this answer or without any.
    fn finish(&mut self, number: u64, now: Instant, output: Option<Output>) {
        let Some(call) = self.clients[number as usize].call.take() else { return };
        let Some(id) = call.id else { return };
        match output {
            Some(output) => self.history.ok(id, now.0, output),
            None if call.is_uncertain => {} // Open for ever.
            None => self.history.refused(id),
        }
    }

    fn on_answer(&mut self, number: u64, now: Instant, answer: Answer<u64>) {
        let client = &mut self.clients[number as usize];
        let Some(call) = &client.call else { return };
        let is_retry = call.tries > 1 && call.is_uncertain;
        match answer {
            Answer::Registered(session) => {
                (client.session, client.command, client.call) = (Some(session), 0, None);
            }
            Answer::Time(now_ms) => {
                self.time = (now_ms, now);
                client.call = None;
            }
            Answer::Done(length) => {
                if is_retry {
                    self.marks.push(Mark::SessionRetryAnswered);
                }
                self.finish(number, now, Some(Output::Appended(length)));
            }
            Answer::Expired => {
                client.session = None;
                self.marks.push(Mark::SessionExpired);
                self.finish(number, now, None);
            }
            Answer::Noted | Answer::Forgotten | Answer::Crowded | Answer::Foreign => {
                panic!("exactly once: client {number} is answered {answer:?}");
            }
        }
    }

    fn on_nothing(&mut self, number: u64, now: Instant, is_uncertain: bool, sessions: bool) {
        let client = &mut self.clients[number as usize];
        let Some(call) = &mut client.call else { return };
        call.is_uncertain |= is_uncertain && !matches!(call.what, What::Read { .. });
        let again = match call.what {
            What::Append { .. } => sessions && client.is_patient && call.tries < TRIES_MAX,
            What::Register => call.tries < TRIES_MAX,
            What::Time | What::Read { .. } => false,
        };
        if !again {
            self.finish(number, now, None);
        }
    }
}

impl<S: ListMachine> Workload<S> for ListClients {
    fn clients(&self) -> u64 {
        self.clients.len() as u64
    }

    fn ask(&mut self, number: u64, now: Instant, is_over: bool, dice: &mut Dice) -> Option<Ask> {
        let sessions = S::HAS_SESSIONS;
        let mut call = match self.clients[number as usize].call.take() {
            Some(call) => call,
            None if is_over || (number == 0 && !sessions) => return None,
            None => self.new_call(number, sessions, now, dice),
        };
        call.tries += 1;
        let ask = self.bytes(&self.clients[number as usize], &call.what, now);
        self.clients[number as usize].call = Some(call);
        Some(ask)
    }

    fn on_end(&mut self, number: u64, now: Instant, end: End<'_, S>) {
        match end {
            End::Applied(response) => self.on_answer(number, now, S::answer(response)),
            End::Readable(machine) => {
                let call = self.clients[number as usize].call.as_ref();
                let Some(What::Read { key, .. }) = call.map(|call| &call.what) else { return };
                let list = machine.lists().list(*key).to_vec();
                self.finish(number, now, Some(Output::List(list)));
            }
            End::Refused => self.on_nothing(number, now, false, S::HAS_SESSIONS),
            End::Unknown => self.on_nothing(number, now, true, S::HAS_SESSIONS),
        }
    }

    fn judge(&self) -> Result<String, String> {
        let checked = check(&self.history).map_err(|failure| failure.to_string())?;
        Ok(format!("{} calls, {} unanswered", checked.calls, checked.unanswered))
    }

    fn take_marks(&mut self) -> Vec<Mark> {
        std::mem::take(&mut self.marks)
    }
}

/// Makes a command.
type Commands = Box<dyn FnMut(&mut Dice) -> Bytes>;

/// Clients that propose commands and do not look at the answers.
pub(super) struct Proposers {
    clients: u64,
    commands: Commands,
}

impl Proposers {
    pub(super) fn new(clients: u64, commands: Commands) -> Self {
        Self { clients, commands }
    }
}

impl<S: StateMachine> Workload<S> for Proposers {
    fn clients(&self) -> u64 {
        self.clients
    }

    fn ask(&mut self, _: u64, _: Instant, is_over: bool, dice: &mut Dice) -> Option<Ask> {
        (!is_over).then(|| Ask::Propose((self.commands)(dice)))
    }

    fn on_end(&mut self, _: u64, _: Instant, _: End<'_, S>) {}

    fn judge(&self) -> Result<String, String> {
        Ok(String::new())
    }
}
