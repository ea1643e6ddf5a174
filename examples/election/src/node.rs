//! One node of the rehearsal's cluster: the store of `kontiki serve`, with its settings.

use std::process::ExitCode;

use clap::Args;
use kontiki_kv::config::{ServeConfig, Settings};
use kontiki_kv::server;
use tracing_subscriber::EnvFilter;

use crate::rehearsal::{Failure, Supervised, stop_requested};

#[derive(Args)]
pub(crate) struct NodeArgs {
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    supervised: Supervised,
}

pub(crate) async fn run(args: NodeArgs) -> Result<ExitCode, Failure> {
    let config = ServeConfig::resolve(args.settings).map_err(Failure::new)?;
    server::check_initial(&config).map_err(Failure::new)?;
    let filter = EnvFilter::try_new(&config.log_level).map_err(Failure::new)?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .try_init()
        .map_err(Failure::new)?;
    let stop = async {
        tokio::select! {
            () = stop_requested() => {}
            () = args.supervised.ended() => {}
        }
    };
    server::run(config, stop).await.map_err(Failure::new)?;
    Ok(ExitCode::SUCCESS)
}
