//! `model`: exhaustive searches over the shipped core (see [`raft_testkit::model`]).

use std::panic;
use std::process::ExitCode;

use clap::Args;
use raft_testkit::model::{self, Configuration, Figures, Size};

/// Explores everything that small groups of the shipped core can do within stated bounds.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Only these searches.
    #[arg(long)]
    config: Vec<String>,
    /// All searches, the large ones, too: takes minutes and gigabytes.
    #[arg(long)]
    all: bool,
    /// The small searches alone, which is what happens where nothing is said.
    #[arg(long, conflicts_with = "all")]
    smoke: bool,
    /// Stops each search after so many states.
    #[arg(long, default_value_t = 4_000_000_000)]
    states_max: u64,
    /// Takes states for different that differ only in the names of the nodes.
    #[arg(long)]
    no_symmetry: bool,
    /// Says how far it is after every act more.
    #[arg(long)]
    progress: bool,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let mut chosen = model::configurations();
    if let Some(name) =
        arguments.config.iter().find(|name| chosen.iter().all(|it| it.name != **name))
    {
        let names: Vec<&str> = chosen.iter().map(|it| it.name).collect();
        eprintln!("there is no search {name}; there are {}", names.join(", "));
        return ExitCode::from(2);
    }
    chosen.retain(|it| match arguments.config.as_slice() {
        [] => arguments.all || it.size == Size::Small,
        names => names.iter().any(|name| name == it.name),
    });
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {})); // A broken rule is told as a story.
    let mut all = Figures { is_exhausted: true, ..Figures::default() };
    for configuration in chosen {
        match check(configuration, arguments) {
            Some(figures) => all = all.and(figures),
            None => return ExitCode::FAILURE,
        }
    }
    panic::set_hook(hook);
    println!("together: {all}\nno rule was broken");
    ExitCode::SUCCESS
}

fn check(mut configuration: Configuration, arguments: &Arguments) -> Option<Figures> {
    configuration.bounds.symmetry &= !arguments.no_symmetry;
    let Configuration { name, about, bounds, .. } = configuration;
    println!("{name}: {about}\n  {bounds}");
    let watch = |figures: &Figures| {
        if arguments.progress {
            println!("  … {figures}");
        }
    };
    match model::check_watched(&bounds, arguments.states_max, watch) {
        Ok(figures) => {
            println!("  {figures}");
            Some(figures)
        }
        Err(violation) => {
            println!("{violation}");
            None
        }
    }
}
