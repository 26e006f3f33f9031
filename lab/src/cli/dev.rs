//! `nearside-lab dev`: the world in one process, and orders to one that runs in another terminal.

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use futures_util::FutureExt;
use nearside::app::{self, process};
use nearside::cli::error::CommandError;
use nearside::config::read;
use nearside::config::services::AccessMode;
use nearside::telemetry::log;
use nearside::telemetry::sink::LogSink;
use strum::VariantNames;

use crate::dev::Ports;
use crate::dev::access::Audience;
use crate::dev::control::{self, RecordName};
use crate::dev::demo::{self, DevOptions};

/// `nearside-lab dev`
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct DevArgs {
    /// Pick every port freely, so that several worlds fit on one machine
    #[arg(long)]
    any_ports: bool,
    /// Port of the sidecar [default: 8700, or another one where that is taken]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Keep the records in this directory: they outlive a restart [default: in memory]
    #[arg(long, value_name = "DIRECTORY")]
    data: Option<PathBuf>,
    /// Tell no story: start everything, and leave the records as they are
    #[arg(long, conflicts_with = "exit_after_demo")]
    no_story: bool,
    /// Extent to which catalogue and regions check their callers: off, observe or enforce
    #[arg(long, value_name = "MODE", default_value = "enforce", value_parser = mode())]
    access: AccessMode,
    /// Stop when the story is over
    #[arg(long)]
    exit_after_demo: bool,
    /// An order to a world that is up.
    #[command(subcommand)]
    command: Option<DevCommand>,
}

/// An order to a world that runs in another terminal.
#[derive(Clone, Debug, Subcommand)]
enum DevCommand {
    /// Change a record in the catalogue
    Put {
        /// The record's key, such as tenant-7 or shard/shard-1
        key: String,
        /// Its new value: a JSON object
        value: String,
        /// The record's type, if the key does not begin with it [default: tenant]
        #[arg(long = "type", value_name = "TYPE")]
        record_type: Option<String>,
        #[command(flatten)]
        control: ControlArgs,
    },
    /// Delete a record from the catalogue
    Delete {
        /// The record's key, such as tenant-7 or shard/shard-1
        key: String,
        /// The record's type, if the key does not begin with it [default: tenant]
        #[arg(long = "type", value_name = "TYPE")]
        record_type: Option<String>,
        #[command(flatten)]
        control: ControlArgs,
    },
    /// Make a region, or its topic, misbehave: off, slow 5s, lag 3s, status 503, drip, ..., reset
    Chaos {
        /// The region's name
        region: String,
        /// Order in words: `off`, `on`, `slow 5s`, `lag 3s`, `status 503`, `mute on`, `reset`
        #[arg(required = true, num_args = 1..=3, value_name = "ORDER")]
        order: Vec<String>,
        #[command(flatten)]
        control: ControlArgs,
    },
    /// Print a token of a consumer, for `curl -H "Authorization: Bearer $(...)"` straight at a region
    /// or the catalogue
    Token {
        /// The consumer: jira reads both views, wiki one of them, editor writes records; admin writes grants
        consumer: String,
        /// Audience of the token [default: regions, or the catalogue if it reads no view]
        #[arg(long = "for", value_name = "AUDIENCE", value_enum)]
        audience: Option<Audience>,
        #[command(flatten)]
        control: ControlArgs,
    },
    /// Take all grants from a consumer, such as jira, whose sidecar it is
    Stop {
        /// The consumer
        consumer: String,
        #[command(flatten)]
        control: ControlArgs,
    },
    /// Give a stopped consumer its grants back
    Resume {
        /// The consumer
        consumer: String,
        #[command(flatten)]
        control: ControlArgs,
    },
    /// Show what the catalogue and the regions hold
    State {
        #[command(flatten)]
        control: ControlArgs,
    },
}

/// Address where the world takes orders.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct ControlArgs {
    /// The control address that `nearside-lab dev` printed
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8730")]
    control: SocketAddr,
}

/// The words of an access mode.
fn mode() -> impl TypedValueParser<Value = AccessMode> {
    PossibleValuesParser::new(AccessMode::VARIANTS).try_map(|word| word.parse::<AccessMode>())
}

/// Runs a world, or passes an order to one.
pub(super) fn dev(mut args: DevArgs) -> Result<(), CommandError> {
    match args.command.take() {
        Some(command) => order_world(command),
        None => run_world(args),
    }
}

/// `nearside-lab dev`
fn run_world(args: DevArgs) -> Result<(), CommandError> {
    let options = DevOptions {
        ports: if args.any_ports { Ports::Ephemeral } else { Ports::Fixed },
        port: args.port,
        data: args.data,
        story: !args.no_story,
        exit_after_demo: args.exit_after_demo,
        access: args.access,
        pace: Duration::from_millis(900),
        terminal: std::io::stdout().is_terminal(),
        program: called().into(),
    };
    // A story that nobody reads holds up nothing that it tells of.
    let sink = LogSink::start(std::io::stdout()).map_err(CommandError::failed)?;
    let reported = sink.clone();
    let work = async move {
        let mut out = std::io::LineWriter::new(reported);
        let stop = async {
            // If signals cannot be caught, it runs until it is killed.
            let _ = process::stop_requested().await;
        };
        // On the heap: it is large.
        Box::pin(demo::run(options, &mut out, start_for_the_world, stop)).await
    };
    let ended = process::block_on(work);
    sink.flush();
    ended.map_err(CommandError::failed)?.map(drop).map_err(CommandError::failed)
}

/// Name by which a shell finds this program: the path with which it was started, or its name.
fn called() -> String {
    let path = std::env::args().next().unwrap_or_default();
    if path.contains('/') { path } else { "nearside-lab".to_owned() }
}

/// Starts the sidecar that runs in production, from configuration text.
async fn start_for_the_world(text: String) -> Result<demo::DemoSidecar, String> {
    let config = read::from_toml(&text)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    log::init(&config.log).map_err(|error| error.to_string())?;
    let app = app::start(config).await.map_err(|error| error.to_string())?;
    let tcp = app.tcp.ok_or("the world's sidecar listens on TCP")?;
    Ok(demo::DemoSidecar { tcp, admin: app.admin, stop: async move { drop(app.stop().await) }.boxed() })
}

/// `nearside-lab dev put|delete|chaos|token|stop|resume|state`
fn order_world(command: DevCommand) -> Result<(), CommandError> {
    let (control, order) = match command {
        DevCommand::Put { key, value, record_type, control } => {
            (control, control::ControlCommand::Put(RecordName::new(record_type, key), value))
        }
        DevCommand::Delete { key, record_type, control } => {
            (control, control::ControlCommand::Delete(RecordName::new(record_type, key)))
        }
        DevCommand::Chaos { region, order, control } => (control, control::ControlCommand::Chaos(region, order)),
        DevCommand::State { control } => (control, control::ControlCommand::State),
        DevCommand::Token { consumer, audience, control } => {
            (control, control::ControlCommand::Token(consumer, audience))
        }
        DevCommand::Stop { consumer, control } => (control, control::ControlCommand::Stop(consumer, true)),
        DevCommand::Resume { consumer, control } => (control, control::ControlCommand::Stop(consumer, false)),
    };
    let reported = process::block_on(async move { control::ask(control.control, &order).await });
    let reported = reported.map_err(CommandError::failed)?.map_err(CommandError::failed)?;
    writeln!(std::io::stdout().lock(), "{reported}").map_err(CommandError::failed)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        dev: DevArgs,
    }

    fn parse(line: &str) -> Result<DevArgs, clap::Error> {
        Line::try_parse_from(line.split_whitespace()).map(|line| line.dev)
    }

    #[test]
    fn dev_orders_are_parsed_as_words() {
        let dev = parse("dev chaos us-east-1 slow 5s --control 127.0.0.1:9").unwrap();
        let Some(DevCommand::Chaos { region, order, control }) = dev.command else { panic!("not chaos") };
        assert_eq!((region.as_str(), order), ("us-east-1", vec!["slow".to_owned(), "5s".to_owned()]));
        assert_eq!(control.control.port(), 9);
        assert!(parse("dev chaos us-east-1").is_err());
        assert!(parse("dev put shard-1 {} --type shard").is_ok());
        assert!(parse("dev --access observe").is_ok() && parse("dev --access open").is_err());
        assert!(parse("dev token jira --for catalogue").is_ok() && parse("dev token jira --for all").is_err());
        assert!(parse("dev --any-ports put a b").is_err(), "ports belong to a new world, not to an order");
        assert!(parse("dev --port 9000 --any-ports").is_ok() && parse("dev --port 0").is_err());
    }
}
