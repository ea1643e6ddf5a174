//! The testkit's command line: one variant here and one file under `commands/` for each thing
//! that it does. An exit code other than zero means that a rule was found broken.

mod commands;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Searches for faults in Kontiki, without a wall clock, OS randomness or a socket.
#[derive(Parser)]
#[command(name = "raft-testkit", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Bugs(commands::bugs::Arguments),
    Check(commands::check::Arguments),
    Cuts(commands::cuts::Arguments),
    Diagram(commands::diagram::Arguments),
    Model(commands::model::Arguments),
    Replay(commands::replay::Arguments),
    Run(commands::run::Arguments),
    Storm(commands::storm::Arguments),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Bugs(arguments) => commands::bugs::run(&arguments),
        Command::Check(arguments) => commands::check::run(&arguments),
        Command::Cuts(arguments) => commands::cuts::run(&arguments),
        Command::Diagram(arguments) => commands::diagram::run(&arguments),
        Command::Model(arguments) => commands::model::run(&arguments),
        Command::Replay(arguments) => commands::replay::run(&arguments),
        Command::Run(arguments) => commands::run::run(&arguments),
        Command::Storm(arguments) => commands::storm::run(&arguments),
    }
}
