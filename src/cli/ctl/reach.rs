//! The arguments that say which sidecar is meant, and how it lets operators in.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// Means of reaching the sidecar.
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
    /// Longest wait for the sidecar's answer
    #[arg(long, global = true, value_name = "DURATION", default_value = "30s", value_parser = humantime::parse_duration)]
    pub timeout: Duration,
    /// Print the reply as JSON, for programs
    #[arg(long, global = true)]
    pub json: bool,
}
