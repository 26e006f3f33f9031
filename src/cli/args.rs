//! Arguments that commands share, and those of commands that have no file of their own.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use http::{HeaderName, HeaderValue};
use url::Url;

use crate::config::TopicArn;
use crate::config::error::ConfigProblem;

/// Source of the settings.
#[derive(Clone, Debug, Args)]
pub struct ConfigArgs {
    /// The configuration, a TOML file; without it, `NEARSIDE__*` variables say everything
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// `nearside check`
#[derive(Clone, Debug, Args)]
pub struct CheckArgs {
    #[command(flatten)]
    pub settings: ConfigArgs,
    /// Do not look at the files that the settings name, for a pipeline where the secrets are not
    #[arg(long)]
    pub without_files: bool,
    /// Say what this message of a topic would do: a file with the announcement as it is published,
    /// JSON or base64
    #[arg(long, value_name = "FILE")]
    pub announcement: Option<PathBuf>,
    /// Say what it would do to what is stored for this path
    #[arg(long, value_name = "PATH", requires = "announcement", value_parser = path)]
    pub path: Option<String>,
}

/// `nearside health`
#[derive(Clone, Debug, Args)]
pub struct HealthArgs {
    /// The admin address [default: from --config, else NEARSIDE__ADMIN__LISTEN, else
    /// 127.0.0.1:8701]
    #[arg(long, value_name = "ADDRESS")]
    pub admin: Option<SocketAddr>,
    /// Take the admin address from this configuration
    #[arg(long, short, value_name = "FILE", conflicts_with = "admin")]
    pub config: Option<PathBuf>,
    /// Ask this service, whose file --config names, or variables alone
    #[arg(long, value_enum, conflicts_with = "admin")]
    pub service: Option<ProbedService>,
    /// Name of the region in the services' file; not needed where there is only one
    #[arg(long, value_name = "REGION", requires = "service")]
    pub name: Option<String>,
    /// The port of --admin speaks TLS; its certificate is not verified, and only loopback is asked
    #[arg(long, requires = "admin")]
    pub tls: bool,
    /// Longest wait for the answer
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = humantime::parse_duration)]
    pub timeout: Duration,
}

/// A service that `nearside health` asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProbedService {
    Catalogue,
    Views,
    Region,
}

/// `nearside heartbeat`
#[derive(Clone, Debug, Args)]
pub struct HeartbeatArgs {
    /// The region's topic
    #[arg(long, value_name = "ARN", value_parser = topic)]
    pub topic: TopicArn,
    /// Overrides the AWS endpoint, for an emulator [default: AWS_ENDPOINT_URL]
    #[arg(long, value_name = "URL")]
    pub endpoint_url: Option<Url>,
    /// Publish one and stop, for a scheduled job
    #[arg(long)]
    pub once: bool,
}

/// `nearside janitor`
#[derive(Clone, Debug, Args)]
pub struct JanitorArgs {
    /// The configuration whose topics are looked at
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Show what would be removed, and remove nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Least time for which a queue's sidecar must have been silent
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = silence)]
    pub older_than: Duration,
}

pub(super) fn path(text: &str) -> Result<String, String> {
    if text.starts_with('/') {
        Ok(text.to_owned())
    } else {
        Err("write it from its first slash, without scheme and host: /v1/contexts/acme".to_owned())
    }
}

pub(super) fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    const INSTEAD: &str = "write it as NAME: VALUE, such as \"Authorization: Bearer abc\"";
    let (name, value) = text.split_once(':').ok_or(INSTEAD)?;
    let name = name.trim().parse().map_err(|_| INSTEAD)?;
    Ok((name, value.trim().parse().map_err(|_| INSTEAD)?))
}

fn topic(text: &str) -> Result<TopicArn, String> {
    text.parse().map_err(|wrong: ConfigProblem| format!("{}; {}", wrong.what, wrong.suggestion))
}

/// Queues are tagged as alive once an hour, so silence of less than two hours proves nothing.
fn silence(text: &str) -> Result<Duration, String> {
    const LEAST: Duration = Duration::from_secs(2 * 3600);
    let span = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if span < LEAST {
        Err("living sidecars tag their queues once an hour; write at least 2h".to_owned())
    } else {
        Ok(span)
    }
}
