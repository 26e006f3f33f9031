//! `nearside ctl`: what operators do to a running sidecar, over its socket or its admin port.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use http::{HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::CommandError;
use crate::admin::acts::compare::WrittenPath;
use crate::admin::acts::target::WrittenTarget;

mod ask;
mod follow;
mod print;

/// `nearside ctl`
#[derive(Clone, Debug, Args)]
pub struct CtlArgs {
    /// What to do
    #[command(subcommand)]
    pub act: Act,
    #[command(flatten)]
    pub reach: Reach,
}

/// How the sidecar is reached.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "How to reach the sidecar")]
pub struct Reach {
    /// Its Unix socket (admin.unix) [default: from --config, else NEARSIDE__ADMIN__UNIX]
    #[arg(long, global = true, value_name = "PATH", conflicts_with = "admin")]
    pub socket: Option<PathBuf>,
    /// Its admin address, which takes a token [default: from --config, else
    /// NEARSIDE__ADMIN__LISTEN, else 127.0.0.1:8701]
    #[arg(long, global = true, value_name = "ADDRESS")]
    pub admin: Option<SocketAddr>,
    /// The file with the token, for --admin [default: from --config, else
    /// NEARSIDE__ADMIN__TOKEN_FILE]
    #[arg(long, global = true, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Take all of these from the sidecar's configuration
    #[arg(long, short, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// How long the sidecar may take to answer
    #[arg(long, global = true, value_name = "DURATION", default_value = "30s", value_parser = humantime::parse_duration)]
    pub timeout: Duration,
    /// Print the reply as JSON, for programs
    #[arg(long, global = true)]
    pub json: bool,
}

/// What is meant: exactly one of these.
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

/// What an operator does.
#[derive(Clone, Debug, Subcommand)]
pub enum Act {
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
        #[arg(value_parser = super::doctor::path)]
        path: String,
        /// Send this header with it, as your callers do; may be given several times
        #[arg(long, value_name = "NAME: VALUE", value_parser = super::doctor::header)]
        header: Vec<(HeaderName, HeaderValue)>,
    },
    /// Take a region out, or back in
    #[command(
        after_help = "Examples:\n  nearside ctl region drain us-east-1\n  nearside ctl region restore us-east-1"
    )]
    Region {
        /// What to do with it.
        #[command(subcommand)]
        act: RegionAct,
    },
    /// Stop believing a region's topic, or believe it again
    #[command(after_help = "Examples:\n  nearside ctl announcements pause us-east-1\n  \
                            nearside ctl announcements resume us-east-1")]
    Announcements {
        /// What to do with them.
        #[command(subcommand)]
        act: AnnouncementsAct,
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

/// What is done with a region.
#[derive(Clone, Debug, Subcommand)]
pub enum RegionAct {
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

/// What is done with a region's announcements.
#[derive(Clone, Debug, Subcommand)]
pub enum AnnouncementsAct {
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

impl Act {
    /// The act's name, and its arguments as the sidecar expects them.
    fn written(self) -> (&'static str, Value) {
        match self {
            Self::Purge(target) => ("purge", target.into()),
            Self::Refresh { target, .. } => ("refresh", target.into()),
            Self::Reset(target) => ("reset", target.into()),
            Self::Inspect(target) => ("inspect", target.into()),
            Self::Compare { path, header } => {
                let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
                let headers = header.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
                ("compare", json!(WrittenPath { path, headers }))
            }
            Self::Region { act: RegionAct::Drain { region, force } } => {
                ("drain", json!({ "region": region, "force": force }))
            }
            Self::Region { act: RegionAct::Restore { region } } => ("restore", json!({ "region": region })),
            Self::Announcements { act: AnnouncementsAct::Pause { region } } => ("pause", json!({ "region": region })),
            Self::Announcements { act: AnnouncementsAct::Resume { region } } => {
                ("resume", json!({ "region": region }))
            }
            Self::Log { filter } => ("log", json!({ "filter": filter })),
            Self::Jobs { stop } => ("jobs", json!({ "stop": stop })),
            Self::Reload => ("reload", json!({})),
        }
    }
}

/// Asks a running sidecar for one act.
pub(super) fn ask_for(reach: Reach, name: &str, arguments: &Value) -> Result<Value, CommandError> {
    ask::CtlClient::of(reach)?.act(name, arguments)
}

/// The reply to `inspect`, in sentences.
pub(super) fn inspected(reply: &Value) -> Result<String, CommandError> {
    print::told("inspect", reply)
}

/// Carries out the act, and prints the result.
pub(super) fn ctl(args: CtlArgs) -> Result<(), CommandError> {
    let CtlArgs { act, reach } = args;
    let (json, waits) = (reach.json, matches!(act, Act::Refresh { wait: true, .. }));
    let (name, arguments) = act.written();
    let asking = ask::CtlClient::of(reach)?;
    let reply = asking.act(name, &arguments)?;
    if waits && name == "refresh" {
        return follow::refresh(&asking, reply, json);
    }
    print::reply(name, &reply, json)
}
