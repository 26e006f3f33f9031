//! The command line: what can be asked of the program, in words for strangers, and the exit code. 0
//! is success, 1 is failure at run time, 2 is a mistake in the command line or the configuration.
//! What commands report is printed here.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use url::Url;

use crate::aws::sdk_settings::SdkSettings;
use crate::config::error::{ConfigError, ConfigProblem};
use crate::config::scope::Origins;
use crate::config::{Config, TopicArn, Transport, is_loopback, read};
use crate::core::shape::unusable_schemas;
use crate::telemetry::log;

mod bench;
mod check;
mod commands;
mod ctl;
mod doctor;
mod explain;
mod limits;
mod paint;
mod services;

use commands::{order_world, probe, publish_heartbeats, remove_abandoned, run_sidecar, run_world};

/// A client sidecar for lookups: asks every region at once, answers with the first good reply, and
/// keeps it true.
///
/// Applications call it on localhost exactly as they would call the service.
#[derive(Clone, Debug, Parser)]
#[command(name = "nearside", version, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 success, 1 failure at run time, 2 mistake in arguments or configuration.\n\
                        To see it work without any set-up: nearside dev")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What can be asked of the program.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Run the sidecar until SIGTERM
    #[command(after_help = "Example:\n  nearside run --config nearside.toml\n  \
                            NEARSIDE__CACHE__TTL=2h nearside run --config nearside.toml")]
    Run(ConfigArgs),
    /// Show the effective settings and where each came from, or every mistake
    #[command(after_help = "Examples:\n  nearside check --config nearside.toml\n  \
                            nearside check --config nearside.toml --announcement message.json --path /v1/contexts/acme\n\n\
                            The settings go to standard output as TOML, warnings and mistakes to standard error. Exit code 2 \
                            when there is a mistake, or when the announcement would do nothing.")]
    Check(CheckArgs),
    /// Ask the regions and listen to their topics for a while: what fits, what does not, and what
    /// to write instead
    #[command(after_help = "Examples:\n  nearside doctor --config nearside.toml --path /v1/contexts/acme/limits\n  \
                            nearside doctor --config nearside.toml --path /v1/contexts/acme/limits --header 'X-Tenant: acme'\n\n\
                            It makes subscriptions of its own and removes them. Change the record meanwhile: then it sees whether \
                            announcements reach what is read. Exit code 1 when something is wrong; what was not seen is not \
                            counted as wrong.")]
    Doctor(doctor::DoctorArgs),
    /// Show what a path is to the sidecar: its route and records, what goes along, and what is
    /// stored for it
    #[command(after_help = "Examples:\n  nearside explain /v1/contexts/acme/limits --config nearside.toml\n  \
                            nearside explain /v1/contexts/acme/limits --config nearside.toml --header 'X-Tenant: acme'\n\n\
                            What is stored is shown by a running sidecar that lets operators in: admin.unix or \
                            admin.token_file.")]
    Explain(explain::ExplainArgs),
    /// Run regions, topics and a sidecar on this machine, and show what it does
    #[command(after_help = "Example:\n  nearside dev\n  nearside dev put tenant-7 '{\"plan\":\"gold\"}'\n  \
                            nearside dev chaos us-east-1 slow 5s\n  nearside dev chaos us-east-1 reset")]
    Dev(DevArgs),
    /// Ask a running sidecar whether it is ready: exit code 0 when it is, 1 when not
    #[command(after_help = "Examples (also as a container's HEALTHCHECK):\n  nearside health\n  \
                            nearside health --admin 127.0.0.1:8741\n\n\
                            The second asks a catalogue; views and regions have such a port too.")]
    Health(HealthArgs),
    /// Act on a running sidecar: purge, refresh, reset, inspect, take a region out, change the log
    #[command(after_help = "Examples:\n  nearside ctl inspect --record context:acme --config nearside.toml\n  \
                            nearside ctl purge --all --socket /run/nearside/admin.sock\n  \
                            nearside ctl region drain us-east-1 --admin 127.0.0.1:8701 --token-file token\n\n\
                            The sidecar must let operators in: admin.unix or admin.token_file. Which act helps in which \
                            trouble: docs/operations.md")]
    Ctl(ctl::CtlArgs),
    /// Run the catalogue: the one place where records are written
    #[command(after_help = "Examples:\n  nearside catalogue --config service.toml\n  \
                            nearside catalogue --config service.toml --check\n\n\
                            The same file configures nearside views and nearside region: docs/service-configuration.md")]
    Catalogue(services::ServiceArgs),
    /// Run the views service: it makes of records what each use case sees
    #[command(after_help = "Examples:\n  nearside views --config service.toml\n  \
                            nearside views --config service.toml --check")]
    Views(services::ServiceArgs),
    /// Run a region: it takes the views, announces their changes, and answers reads
    #[command(after_help = "Examples:\n  nearside region --config service.toml --name eu-west-1\n  \
                            nearside region --config service.toml --name eu-west-1 --role node\n  \
                            nearside region --config service.toml --name eu-west-1 --check")]
    Region(services::RegionArgs),
    /// Create what the services need on AWS or an emulator and is not there: tables, streams, topics
    #[command(after_help = "Example:\n  nearside setup --config service.toml\n\n\
                            For first steps and emulators. What is there already stays as it is; run it as often as you like. \
                            A file without regions creates what is at home. The other engines need nothing.")]
    Setup(services::SetupArgs),
    /// Compare catalogue, views and every region, and show what differs; it writes nothing
    #[command(after_help = "Examples:\n  nearside verify --config service.toml\n  \
                            nearside verify --config service.toml --show-keys --wait 5m\n\n\
                            It says what it compared and what not: regions that the file does not name. Exit codes: 0 something was \
                            compared and nothing differs, 1 something does, nothing was there to compare, or an engine did not \
                            answer, 2 mistake in arguments or configuration.")]
    Verify(services::VerifyArgs),
    /// Publish heartbeats on a region's topic, for services that cannot send their own
    #[command(
        after_help = "Example:\n  nearside heartbeat --topic arn:aws:sns:eu-west-1:123456789012:context-changes"
    )]
    Heartbeat(HeartbeatArgs),
    /// Remove the queues and subscriptions that killed sidecars left behind
    #[command(
        after_help = "Example (look first, then remove):\n  nearside janitor --config nearside.toml --dry-run\n  \
                            nearside janitor --config nearside.toml"
    )]
    Janitor(JanitorArgs),
    /// Measure this executable beside what else there is on this machine
    #[command(
        after_help = "Examples:\n  nearside bench --only hit-1k\n  nearside bench --rounds 3 --json report.json"
    )]
    Bench(Box<bench::BenchArgs>),
}

/// Where the settings are.
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
    #[expect(missing_docs, reason = "a doc comment here would become the command's help")]
    pub settings: ConfigArgs,
    /// Do not look at the files that the settings name, for a pipeline where the secrets are not
    #[arg(long)]
    pub without_files: bool,
    /// Say what this message of a topic would do: a file with the announcement as it is published,
    /// JSON or base64
    #[arg(long, value_name = "FILE")]
    pub announcement: Option<PathBuf>,
    /// Say what it would do to what is stored for this path
    #[arg(long, value_name = "PATH", requires = "announcement", value_parser = doctor::path)]
    pub path: Option<String>,
}

/// `nearside dev`
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DevArgs {
    /// Pick every port freely, so that several worlds fit on one machine
    #[arg(long)]
    pub any_ports: bool,
    /// Where the sidecar answers [default: 8700, or another one where that is taken]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Keep the records in this directory: they outlive a restart [default: in memory]
    #[arg(long, value_name = "DIRECTORY")]
    pub data: Option<PathBuf>,
    /// Tell no story: start everything, and leave the records as they are
    #[arg(long, conflicts_with = "exit_after_demo")]
    pub no_story: bool,
    /// Stop when the story has been told
    #[arg(long)]
    pub exit_after_demo: bool,
    /// An order to a world that is up.
    #[command(subcommand)]
    pub command: Option<DevCommand>,
}

/// An order to a world that runs in another terminal.
#[derive(Clone, Debug, Subcommand)]
pub enum DevCommand {
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
        #[expect(missing_docs, reason = "a doc comment here would become the command's help")]
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
        #[expect(missing_docs, reason = "a doc comment here would become the command's help")]
        control: ControlArgs,
    },
    /// Make a region, or its topic, misbehave: off, slow 5s, lag 3s, status 503, drip, ..., reset
    Chaos {
        /// The region's name
        region: String,
        /// What it shall do, in words: `off`, `on`, `slow 5s`, `lag 3s`, `status 503`, `mute on`,
        /// `reset`
        #[arg(required = true, num_args = 1..=3, value_name = "ORDER")]
        order: Vec<String>,
        #[command(flatten)]
        #[expect(missing_docs, reason = "a doc comment here would become the command's help")]
        control: ControlArgs,
    },
    /// Show what the catalogue and the regions hold
    State {
        #[command(flatten)]
        #[expect(missing_docs, reason = "a doc comment here would become the command's help")]
        control: ControlArgs,
    },
}

/// Where the world takes orders.
#[derive(Clone, Copy, Debug, Args)]
pub struct ControlArgs {
    /// The control address that `nearside dev` printed
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8730")]
    pub control: SocketAddr,
}

/// `nearside health`
#[derive(Clone, Debug, Args)]
pub struct HealthArgs {
    /// The sidecar's admin address [default: from --config, else NEARSIDE__ADMIN__LISTEN, else
    /// 127.0.0.1:8701]
    #[arg(long, value_name = "ADDRESS")]
    pub admin: Option<SocketAddr>,
    /// Take the admin address from this configuration
    #[arg(long, short, value_name = "FILE", conflicts_with = "admin")]
    pub config: Option<PathBuf>,
    /// How long the sidecar may take to answer
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = humantime::parse_duration)]
    pub timeout: Duration,
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
    /// How long a queue's sidecar must have been silent
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = silence)]
    pub older_than: Duration,
}

/// Why a command ended without success.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The caller's mistake: other arguments or settings help, a retry does not. Empty if
    /// everything was already told.
    #[error("{0}")]
    Usage(String),
    /// The fault of the machine or the network: a retry may help.
    #[error("{0}")]
    Failed(String),
}

/// Runs the command to its end.
pub fn execute(cli: Cli) -> ExitCode {
    let _flush = log::FlushAtExit;
    let done = match cli.command {
        Command::Run(args) => {
            let read = move || read::load(args.config.as_deref(), variables());
            told(with_schemas(read())).and_then(|(config, origins)| run_sidecar(config, origins, read))
        }
        Command::Check(args) => check::check(args),
        Command::Doctor(args) => doctor::doctor(args),
        Command::Explain(args) => explain::explain(&args),
        Command::Dev(DevArgs { command: Some(command), .. }) => order_world(command),
        Command::Dev(args) => run_world(args),
        Command::Health(args) => health(args),
        Command::Ctl(args) => ctl::ctl(args),
        Command::Catalogue(args) => services::catalogue(&args),
        Command::Views(args) => services::views(&args),
        Command::Region(args) => services::region(&args),
        Command::Setup(args) => services::setup(&args),
        Command::Verify(args) => services::verify(&args),
        Command::Heartbeat(args) => publish_heartbeats(args),
        Command::Bench(args) => bench::bench(*args),
        Command::Janitor(args) => settings(args.config.as_deref())
            .and_then(|(config, _)| remove_abandoned(config, args.older_than, args.dry_run)),
    };
    let (code, told) = match done {
        Ok(()) => return ExitCode::SUCCESS,
        Err(CommandError::Usage(told)) => (2, told),
        Err(CommandError::Failed(told)) => (1, told),
    };
    if !told.is_empty() {
        log::last_words(&format!("nearside: {told}"));
    }
    ExitCode::from(code)
}

/// Passes a configuration on, or prints its mistakes to standard error.
fn told(loaded: Result<(Config, Origins), Vec<ConfigError>>) -> Result<(Config, Origins), CommandError> {
    loaded.map_err(|mistakes| {
        tell(&mistakes);
        CommandError::Usage(String::new())
    })
}

/// A configuration whose routes' schemas can be used too, or every mistake in those. A reload, and
/// whatever else makes a core, finds them by itself.
fn with_schemas(loaded: Result<(Config, Origins), Vec<ConfigError>>) -> Result<(Config, Origins), Vec<ConfigError>> {
    let (config, origins) = loaded?;
    let mistakes = unusable_schemas(&config, &origins);
    if mistakes.is_empty() { Ok((config, origins)) } else { Err(mistakes) }
}

/// The configuration for a command that uses none of the files it names.
fn settings(path: Option<&Path>) -> Result<(Config, Origins), CommandError> {
    told(read::load_without_files(path, variables()))
}

fn tell(mistakes: &[ConfigError]) {
    let stderr = std::io::stderr();
    // If standard error is closed, nobody is left to tell.
    let _ = paint::mistakes(&mut stderr.lock(), mistakes, paint::Styles::of(&stderr));
}

/// The AWS SDK's settings, if this configuration has topics that it is needed for.
fn sdk_settings(config: &Config) -> SdkSettings {
    let has_topics = config.service.regions.iter().any(|region| region.topic.is_some());
    let is_emulator = config.announcements.endpoint_url.as_ref().is_some_and(is_loopback);
    match config.announcements.transport {
        Transport::Sqs | Transport::Http { .. } if has_topics && !is_emulator => {
            crate::aws::sdk_settings::read(crate::aws::sdk_settings::variable)
        }
        _ => SdkSettings::default(),
    }
}

/// What of the AWS SDK's settings is passed over; all that is wrong is told where AWS cannot be
/// called with them.
fn usable_sdk(sdk: SdkSettings) -> Result<Vec<ConfigError>, CommandError> {
    if sdk.fatal.is_empty() {
        return Ok(sdk.ignored);
    }
    tell(&[sdk.fatal, sdk.ignored].concat());
    Err(CommandError::Usage(String::new()))
}

/// The environment. What is not Unicode gets replacement characters, which no setting accepts
/// unnoticed.
fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
}

fn health(args: HealthArgs) -> Result<(), CommandError> {
    let address = match (args.admin, args.config) {
        (Some(address), _) => address,
        (None, Some(path)) => settings(Some(&path))?.0.admin.listen,
        (None, None) => {
            let told = |mistakes: Vec<ConfigError>| CommandError::Usage(mistakes[0].to_string());
            read::admin_alone(variables()).map_err(told)?.listen
        }
    };
    probe(address, args.timeout)
}

fn topic(text: &str) -> Result<TopicArn, String> {
    text.parse().map_err(|wrong: ConfigProblem| format!("{}; {}", wrong.what, wrong.instead))
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_command_line_is_consistent_and_every_command_shows_an_example() {
        let command = Cli::command();
        command.clone().debug_assert();
        for sub in command.get_subcommands() {
            assert!(sub.get_about().is_some(), "{}", sub.get_name());
            let after = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains(&format!("nearside {}", sub.get_name())), "{}", sub.get_name());
        }
    }

    #[test]
    fn orders_to_a_world_are_taken_as_words() {
        let Command::Dev(dev) = parse("nearside dev chaos us-east-1 slow 5s --control 127.0.0.1:9").unwrap().command
        else {
            panic!("not dev")
        };
        let Some(DevCommand::Chaos { region, order, control }) = dev.command else { panic!("not chaos") };
        assert_eq!((region.as_str(), order), ("us-east-1", vec!["slow".to_owned(), "5s".to_owned()]));
        assert_eq!(control.control.port(), 9);
        assert!(parse("nearside dev chaos us-east-1").is_err());
        assert!(parse("nearside dev put shard-1 {} --type shard").is_ok());
        assert!(parse("nearside dev --any-ports put a b").is_err(), "ports belong to a new world, not to an order");
        assert!(parse("nearside dev --port 9000 --any-ports").is_ok() && parse("nearside dev --port 0").is_err());
    }

    #[test]
    fn a_region_does_both_of_its_parts_unless_told_which() {
        let parsed = |line: &str| match parse(line).unwrap().command {
            Command::Region(args) => (args.name, args.role),
            _ => panic!("not a region"),
        };
        assert_eq!(parsed("nearside region --config f"), (None, None));
        let (name, role) = parsed("nearside region -c f --name eu-west-1 --role ingest --check");
        assert_eq!((name.as_deref(), role), (Some("eu-west-1"), Some(services::RegionRole::Ingest)));
        assert!(parse("nearside region --role both").is_err());
    }

    #[test]
    fn a_heartbeat_needs_a_topic_and_a_janitor_needs_silence() {
        assert!(parse("nearside heartbeat").is_err());
        let error = parse("nearside heartbeat --topic context-changes").unwrap_err().to_string();
        assert!(error.contains("arn:aws:sns:REGION:ACCOUNT:NAME"), "{error}");
        assert!(parse("nearside janitor --config f --older-than 3h --dry-run").is_ok());
        assert!(parse("nearside janitor --config f --older-than 5m").is_err());
    }
}
