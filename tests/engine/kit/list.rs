//! A state machine that remembers every command.

use std::io::{Cursor, Read};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use kontiki::{Bincode, Codec, Entry, Index, Payload, StateMachine};

use super::snapshots::take_one;

/// What a node has applied, and the last entry. It refuses to be fed out of order.
#[derive(Clone, Default)]
pub struct List {
    state: Arc<Mutex<(Vec<Bytes>, Index)>>,
    /// Whether it survives a crash by itself.
    pub survives: Arc<AtomicBool>,
    /// So many restores still fail, half way through.
    pub failing_restores: Arc<AtomicU32>,
}

impl List {
    pub fn contents(&self) -> Vec<Bytes> {
        self.state.lock().expect("not poisoned").0.clone()
    }

    /// The same state in another process.
    pub fn reopened(&self) -> Self {
        let state = self.state.lock().expect("not poisoned").clone();
        Self { state: Arc::new(Mutex::new(state)), ..self.clone() }
    }
}

impl StateMachine for List {
    type Response = usize;
    type Error = String;

    fn applied(&self) -> Index {
        self.state.lock().map_or(Index::ZERO, |list| list.1)
    }

    fn durable(&self) -> Option<Index> {
        self.survives.load(Ordering::SeqCst).then(|| self.applied())
    }

    /// Every other command, so that quick ones and others follow one another.
    fn is_quick(&self, entries: &[Entry]) -> bool {
        entries.iter().all(|entry| entry.index.0 % 2 == 0)
    }

    fn apply(&mut self, entries: &[Entry], responses: &mut Vec<usize>) -> Result<(), String> {
        for entry in entries {
            let mut list = self.state.lock().map_err(|error| error.to_string())?;
            if entry.index != list.1.next() {
                return Err(format!("entry {} came after {}", entry.index, list.1));
            }
            list.1 = entry.index;
            if let Payload::Command(command) = &entry.payload {
                match &command[..] {
                    b"fail" => return Err("no space for it".into()),
                    b"panic" => {
                        drop(list);
                        panic!("told to");
                    }
                    _ => {}
                }
                list.0.push(command.clone());
                responses.push(list.0.len());
            }
        }
        Ok(())
    }

    fn snapshot(&self) -> Result<Box<dyn Read + Send>, String> {
        let list = self.state.lock().map_err(|error| error.to_string())?;
        let bytes = Bincode.encode(&list.0.iter().map(|it| it.to_vec()).collect::<Vec<_>>());
        Ok(Box::new(Cursor::new(bytes.map_err(|error| error.to_string())?)))
    }

    fn restore(&mut self, applied: Index, state: &mut dyn Read) -> Result<(), String> {
        if take_one(&self.failing_restores) {
            *self.state.lock().map_err(|error| error.to_string())? = (vec![], Index::ZERO);
            return Err("no space for the second half".into());
        }
        let mut bytes = Vec::new();
        state.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        let list: Vec<Vec<u8>> = Bincode.decode(&bytes).map_err(|error| error.to_string())?;
        let list = list.into_iter().map(Bytes::from).collect();
        *self.state.lock().map_err(|error| error.to_string())? = (list, applied);
        Ok(())
    }
}
