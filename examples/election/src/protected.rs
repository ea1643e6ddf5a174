//! A resource outside the cluster that defends itself: a log in an SQLite database, which knows
//! the largest token it has seen and takes nothing from a smaller one. It never asks the cluster:
//! it needs no connection, no clock, and no trust in whoever writes.
//!
//! ```text
//!  BEGIN IMMEDIATE
//!  UPDATE fence SET fence = :token WHERE fence <= :token      zero rows: stale, nothing is written
//!  INSERT INTO work (sequence, request, fence, …)             a request that is there: nothing new
//!  COMMIT
//! ```
//!
//! The first write of a new leader shuts out all before it. Until then the old one's writes are
//! still taken: that is no harm, as nobody has built on anything newer.
//!
//! *Costs*: one row more in a transaction that is made anyway. What was acknowledged is on disk.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OptionalExtension, TransactionBehavior, named_params};

use crate::clock::Moment;
use crate::fence::Token;

/// How long a writer waits for another one's transaction.
const BUSY_MAX: Duration = Duration::from_secs(5);
/// A transaction of a process that runs takes less.
const FREE_MAX: Duration = Duration::from_millis(200);

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS fence (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        fence INTEGER NOT NULL
    ) STRICT;
    INSERT OR IGNORE INTO fence (id, fence) VALUES (1, 0);
    CREATE TABLE IF NOT EXISTS work (
        sequence INTEGER PRIMARY KEY,
        request TEXT NOT NULL UNIQUE,
        writer TEXT NOT NULL,
        fence INTEGER NOT NULL,
        at_us INTEGER NOT NULL
    ) STRICT;";

/// A log that one writer at a time appends to.
#[derive(Debug)]
pub struct Protected {
    connection: Connection,
}

/// What was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// From one on, without a hole.
    pub sequence: u64,
    /// Under which name it was asked for.
    pub request: String,
    /// By whom.
    pub writer: String,
    /// With which token; never falls with a growing sequence.
    pub token: Token,
    /// When, on the clock of the writer's machine.
    pub at: Moment,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// It is in the log now, under this number.
    Now(u64),
    /// It was in the log before, under this number.
    Before(u64),
}

/// Why nothing was appended.
#[derive(Debug, thiserror::Error)]
pub enum ProtectedError {
    /// Somebody with a larger token has written: stop.
    #[error("not written: token {token} is stale, {fence} was seen")]
    Stale {
        /// The writer's.
        token: Token,
        /// The largest seen.
        fence: Token,
    },
    /// The database fails. Whether a write was done is told by asking again under the same name.
    #[error("the database fails: {0}")]
    Database(#[from] rusqlite::Error),
}

impl Protected {
    /// Opens the database, and makes it where there is none.
    ///
    /// # Errors
    /// When the database fails.
    pub fn open(path: &Path) -> Result<Self, ProtectedError> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(BUSY_MAX)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.execute_batch(SCHEMA)?;
        Ok(Self { connection })
    }

    /// Appends a request, once however often it is asked for, if no larger token was seen. Blocks
    /// until it is on disk.
    ///
    /// # Errors
    /// [`ProtectedError::Stale`] when a larger one was: nothing is written then.
    pub fn append(
        &mut self,
        token: Token,
        writer: &str,
        request: &str,
    ) -> Result<Appended, ProtectedError> {
        let fence = i64::try_from(token.0).unwrap_or(i64::MAX);
        let txn = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let raised = txn.execute(
            "UPDATE fence SET fence = :token WHERE fence <= :token",
            named_params! { ":token": fence },
        )?;
        if raised == 0 {
            let seen = txn.query_one("SELECT fence FROM fence", [], |row| row.get(0))?;
            return Err(ProtectedError::Stale { token, fence: Token(seen) });
        }
        let before = txn
            .query_one("SELECT sequence FROM work WHERE request = ?", [request], |row| row.get(0))
            .optional()?;
        if let Some(sequence) = before {
            txn.commit()?;
            return Ok(Appended::Before(sequence));
        }
        let sequence = txn.query_one(
            "INSERT INTO work (sequence, request, writer, fence, at_us)
             SELECT coalesce(max(sequence), 0) + 1, :request, :writer, :fence, :at FROM work
             RETURNING sequence",
            named_params! {
                ":request": request,
                ":writer": writer,
                ":fence": fence,
                ":at": Moment::now().as_micros(),
            },
            |row| row.get(0),
        )?;
        txn.commit()?;
        Ok(Appended::Now(sequence))
    }

    /// The largest token seen; zero before the first write.
    ///
    /// # Errors
    /// When the database fails.
    pub fn fence(&self) -> Result<Token, ProtectedError> {
        let fence = self.connection.query_one("SELECT fence FROM fence", [], |row| row.get(0))?;
        Ok(Token(fence))
    }

    /// The sequence number that the next request will have.
    ///
    /// # Errors
    /// When the database fails.
    pub fn next(&self) -> Result<u64, ProtectedError> {
        let next = "SELECT coalesce(max(sequence), 0) + 1 FROM work";
        Ok(self.connection.query_one(next, [], |row| row.get(0))?)
    }

    /// Whether no transaction is in the way of a write for long: a process that was stopped in the
    /// middle of one keeps all others out.
    ///
    /// # Errors
    /// When the database fails.
    pub fn is_free(&mut self) -> Result<bool, ProtectedError> {
        self.connection.busy_timeout(FREE_MAX)?;
        let free = match self.connection.transaction_with_behavior(TransactionBehavior::Immediate) {
            Ok(_) => Ok(true),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => Ok(false),
            Err(error) => Err(error.into()),
        };
        self.connection.busy_timeout(BUSY_MAX)?;
        free
    }

    /// What was appended from `sequence` on, `limit` at most.
    ///
    /// # Errors
    /// When the database fails.
    pub fn work(&self, sequence: u64, limit: usize) -> Result<Vec<Work>, ProtectedError> {
        let mut query = self.connection.prepare(
            "SELECT sequence, request, writer, fence, at_us FROM work
             WHERE sequence >= ?1 ORDER BY sequence LIMIT ?2",
        )?;
        let rows = query.query_map((sequence, limit), |row| {
            Ok(Work {
                sequence: row.get(0)?,
                request: row.get(1)?,
                writer: row.get(2)?,
                token: Token(row.get(3)?),
                at: Moment::from_micros(row.get(4)?),
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_token_writes_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("work.db");
        let mut old = Protected::open(&path).expect("a database");
        let mut new = Protected::open(&path).expect("a database");
        assert_eq!(old.append(Token(7), "a", "1").expect("written"), Appended::Now(1));
        assert_eq!(new.append(Token(9), "b", "2").expect("written"), Appended::Now(2));

        let refused = old.append(Token(7), "a", "3").expect_err("stale");
        let ProtectedError::Stale { token, fence } = refused else { panic!("{refused}") };
        assert_eq!((token, fence), (Token(7), Token(9)));
        // Not even what is there already is confirmed to it.
        assert!(old.append(Token(8), "a", "1").is_err());

        assert_eq!(new.append(Token(9), "b", "3").expect("written"), Appended::Now(3));
        let work = new.work(1, 10).expect("read");
        let told: Vec<_> = work.iter().map(|w| (w.sequence, &w.writer[..], w.token.0)).collect();
        assert_eq!(told, [(1, "a", 7), (2, "b", 9), (3, "b", 9)]);
    }

    #[test]
    fn a_request_is_applied_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut log = Protected::open(&dir.path().join("work.db")).expect("a database");
        assert_eq!(log.append(Token(1), "a", "x").expect("written"), Appended::Now(1));
        assert_eq!(log.append(Token(2), "b", "x").expect("found"), Appended::Before(1));
        // It has shut out the older one all the same.
        assert_eq!(log.fence().expect("read"), Token(2));
        assert_eq!(log.work(1, 10).expect("read").len(), 1);
    }

    #[test]
    fn it_is_found_again_with_its_fence() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("work.db");
        Protected::open(&path).expect("made").append(Token(5), "a", "x").expect("written");
        let mut again = Protected::open(&path).expect("found");
        assert!(matches!(again.append(Token(4), "b", "y"), Err(ProtectedError::Stale { .. })));
    }
}
