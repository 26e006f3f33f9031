//! `nearside ctl`: what operators do to a running sidecar, over its socket or its admin port.

use clap::{Args, Subcommand};
use http::{HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::args;
use super::error::CommandError;
use crate::admin::commands::compare::WrittenPath;
use crate::admin::commands::target::WrittenTarget;

mod ask;
mod follow;
mod print;
mod reach;

pub(crate) use reach::Reach;

/// `nearside ctl`
#[derive(Clone, Debug, Args)]
pub struct CtlArgs {
    /// Command to perform
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub reach: Reach,
}

/// Target: exactly one of these.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct TargetArgs {
    /// A path as callers write it, with any query and for any caller; `*` at its end stands for the
    /// rest
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,
    /// One record: `context:acme`
    #[arg(long, value_name = "TYPE:KEY")]
    pub record: Option<String>,
    /// All records of a type that a route names
    #[arg(long = "type", value_name = "TYPE")]
    pub record_type: Option<String>,
    /// Everything
    #[arg(long)]
    pub all: bool,
}

/// Command of an operator.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Remove what is stored: the next read asks the regions. Floors stay
    #[command(after_help = "Examples:\n  nearside ctl purge --record context:acme\n  \
                            nearside ctl purge --path '/v1/contexts/acme/*'\n  nearside ctl purge --all")]
    Purge(TargetArgs),
    /// Ask the regions again in the background, while what is stored serves on
    #[command(after_help = "Examples:\n  nearside ctl refresh --type context --wait\n  \
                            nearside ctl refresh --record context:acme")]
    Refresh {
        #[command(flatten)]
        target: TargetArgs,
        /// Show how far it is until it is done
        #[arg(long)]
        wait: bool,
    },
    /// Forget floors, after a restore or when a record began anew: what is stored is asked for
    /// again
    #[command(
        after_help = "Examples:\n  nearside ctl reset --record context:acme\n  nearside ctl reset --type context"
    )]
    Reset(TargetArgs),
    /// Show what is known of a record or a path, and why it counts as it does
    #[command(after_help = "Examples:\n  nearside ctl inspect --record context:acme\n  \
                            nearside ctl inspect --path /v1/contexts/acme/limits --json")]
    Inspect(TargetArgs),
    /// Show what is stored of a path beside what each region says of it now
    #[command(after_help = "Examples:\n  nearside ctl compare /v1/contexts/acme/limits\n  \
                            nearside ctl compare /v1/contexts/acme/limits --header 'X-Tenant: acme'")]
    Compare {
        /// A path as callers write it, with its query
        #[arg(value_parser = args::path)]
        path: String,
        /// Send this header with it, as your callers do; may be given several times
        #[arg(long, value_name = "NAME: VALUE", value_parser = args::header)]
        header: Vec<(HeaderName, HeaderValue)>,
    },
    /// Take a region out, or back in
    #[command(
        after_help = "Examples:\n  nearside ctl region drain us-east-1\n  nearside ctl region restore us-east-1"
    )]
    Region {
        /// Act on the region.
        #[command(subcommand)]
        command: RegionCommand,
    },
    /// Stop believing a region's topic, or believe it again
    #[command(after_help = "Examples:\n  nearside ctl announcements pause us-east-1\n  \
                            nearside ctl announcements resume us-east-1")]
    Announcements {
        /// Act on the announcements.
        #[command(subcommand)]
        command: AnnouncementsCommand,
    },
    /// Show the log filter, or change it until the next restart or reload
    #[command(after_help = "Examples:\n  nearside ctl log\n  nearside ctl log info,nearside::sidecar=debug")]
    Log {
        /// A level, or levels by module
        filter: Option<String>,
    },
    /// List what refreshes run, or stop one
    #[command(after_help = "Examples:\n  nearside ctl jobs\n  nearside ctl jobs --stop 3")]
    Jobs {
        /// The number of the job to stop
        #[arg(long, value_name = "NUMBER")]
        stop: Option<u64>,
    },
    /// Read configuration, tokens, credentials and certificates anew
    #[command(after_help = "Example:\n  nearside ctl reload")]
    Reload,
}

/// Act on a region.
#[derive(Clone, Debug, Subcommand)]
pub enum RegionCommand {
    /// Nobody asks it: no race, no pass, no recheck
    Drain {
        /// Its configured name
        region: String,
        /// Even if nobody is left to ask: every miss then fails
        #[arg(long)]
        force: bool,
    },
    /// It is asked again
    Restore {
        /// Its configured name
        region: String,
    },
}

/// Act on a region's announcements.
#[derive(Clone, Debug, Subcommand)]
pub enum AnnouncementsCommand {
    /// Its topic is acknowledged and counted, and neither applied nor taken for a proof
    Pause {
        /// The region's configured name
        region: String,
    },
    /// Its topic counts again, from the next proof on
    Resume {
        /// The region's configured name
        region: String,
    },
}

impl From<TargetArgs> for Value {
    fn from(target: TargetArgs) -> Self {
        let TargetArgs { path, record, record_type, all } = target;
        json!(WrittenTarget { path, record, record_type, all })
    }
}

impl Command {
    /// The command's name, and its arguments as the sidecar expects them.
    fn written(self) -> (&'static str, Value) {
        match self {
            Self::Purge(target) => ("purge", target.into()),
            Self::Refresh { target, .. } => ("refresh", target.into()),
            Self::Reset(target) => ("reset", target.into()),
            Self::Inspect(target) => ("inspect", target.into()),
            Self::Compare { path, header } => {
                let headers = header
                    .iter()
                    .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
                let headers = headers.collect();
                ("compare", json!(WrittenPath { path, headers }))
            }
            Self::Region { command: RegionCommand::Drain { region, force } } => {
                ("drain", json!({ "region": region, "force": force }))
            }
            Self::Region { command: RegionCommand::Restore { region } } => ("restore", json!({ "region": region })),
            Self::Announcements { command: AnnouncementsCommand::Pause { region } } => {
                ("pause", json!({ "region": region }))
            }
            Self::Announcements { command: AnnouncementsCommand::Resume { region } } => {
                ("resume", json!({ "region": region }))
            }
            Self::Log { filter } => ("log", json!({ "filter": filter })),
            Self::Jobs { stop } => ("jobs", json!({ "stop": stop })),
            Self::Reload => ("reload", json!({})),
        }
    }
}

/// Asks a running sidecar for one command.
pub(super) fn ask_for(reach: Reach, name: &str, arguments: &Value) -> Result<Value, CommandError> {
    ask::CtlClient::of(reach)?.command(name, arguments)
}

/// The reply to `inspect`, in sentences.
pub(super) fn inspected(reply: &Value) -> Result<String, CommandError> {
    print::reported("inspect", reply)
}

/// Carries out the command, and prints the result.
pub(super) fn ctl(args: CtlArgs) -> Result<(), CommandError> {
    let CtlArgs { command, reach } = args;
    let (json, waits) = (reach.json, matches!(command, Command::Refresh { wait: true, .. }));
    let (name, arguments) = command.written();
    let asking = ask::CtlClient::of(reach)?;
    let reply = asking.command(name, &arguments)?;
    if waits && name == "refresh" {
        return follow::refresh(&asking, reply, json);
    }
    print::reply(name, &reply, json)
}
