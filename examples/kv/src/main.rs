//! The `kontiki` binary: a node, a cluster of them, a small client, and the tools around.
//!
//! Everything that a node does is in the library; here are the commands.

mod bench;
mod cli;
mod cluster;
#[cfg(unix)]
mod torture;

fn main() -> std::process::ExitCode {
    cli::main()
}
