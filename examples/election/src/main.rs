//! `kontiki-election rehearse`: what a failover takes, and that no stale leader writes.
//!
//! The program starts itself as whatever a rehearsal needs: the nodes of the cluster and the
//! replicas that campaign. It never needs another program.

#[cfg(unix)]
mod node;
#[cfg(unix)]
mod rehearsal;

use std::process::ExitCode;

#[cfg(unix)]
fn main() -> ExitCode {
    rehearsal::main()
}

#[cfg(not(unix))]
fn main() -> ExitCode {
    eprintln!("error: a rehearsal stops and resumes processes, which this system cannot do");
    ExitCode::FAILURE
}
