//! The command line: what can be asked of the program, in words for strangers, and the exit code. 0
//! is success, 1 is failure at run time, 2 is an error in the command line or the configuration.
//! What commands report is printed here.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::admin::health::AdminPort;
use crate::config::read;

mod args;
mod caller;
mod catalogue_client;
mod changes;
mod check;
mod commands;
mod ctl;
mod doctor;
mod ending;
pub mod error;
mod explain;
mod grants;
mod history;
mod limits;
mod load;
mod operator_client;
mod paint;
mod services;

use args::{CheckArgs, ConfigArgs, HealthArgs, HeartbeatArgs, JanitorArgs};
use commands::{probe, publish_heartbeats, remove_abandoned, run_sidecar};
use error::{CommandError, run_to_end};
use load::{reported, settings, variables, with_schemas};

/// A client sidecar for lookups: asks every region at once, answers with the first good reply, and
/// keeps it true.
///
/// Applications call it on localhost exactly as they would call the service.
#[derive(Clone, Debug, Parser)]
#[command(name = "nearside", version, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 success, 1 failure at run time, 2 error in arguments or configuration.\n\
                        To see it work without any set-up: nearside-lab dev")]
pub struct Cli {
    /// Command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// Commands of the program.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Run the sidecar until SIGTERM
    #[command(after_help = "Example:\n  nearside run --config nearside.toml\n  \
                            NEARSIDE__CACHE__TTL=2h nearside run --config nearside.toml")]
    Run(ConfigArgs),
    /// Show the effective settings and where each came from, or every error
    #[command(after_help = "Examples:\n  nearside check --config nearside.toml\n  \
                            nearside check --config nearside.toml --announcement message.json --path /v1/contexts/acme\n\n\
                            The settings go to standard output as TOML, warnings and errors to standard error. Exit code 2 \
                            when there is an error, or when the announcement would do nothing.")]
    Check(CheckArgs),
    /// Ask the regions and listen to their topics for a while: what fits, what does not, and what
    /// to write instead
    #[command(after_help = "Examples:\n  nearside doctor --config nearside.toml --path /v1/contexts/acme/limits\n  \
                            nearside doctor --config nearside.toml --path /v1/contexts/acme/limits --header 'X-Tenant: acme'\n\n\
                            It makes subscriptions of its own and removes them. Change the record meanwhile: then it sees whether \
                            announcements reach what is read. Exit code 1 when something is wrong; what was not checked \
                            is not counted as wrong.")]
    Doctor(doctor::DoctorArgs),
    /// Show what a path is to the sidecar: its route and records, what goes along, and what is
    /// stored for it
    #[command(after_help = "Examples:\n  nearside explain /v1/contexts/acme/limits --config nearside.toml\n  \
                            nearside explain /v1/contexts/acme/limits --config nearside.toml --header 'X-Tenant: acme'\n\n\
                            What is stored is shown by a running sidecar that lets operators in: admin.unix or \
                            admin.token_file.")]
    Explain(explain::ExplainArgs),
    /// Ask a running sidecar whether it is ready: exit code 0 when it is, 1 when not
    #[command(after_help = "Examples (also as a container's HEALTHCHECK):\n  nearside health\n  \
                            nearside health --admin 127.0.0.1:8741\n\n\
                            The second asks a catalogue; views and regions have such a port too.")]
    Health(HealthArgs),
    /// Act on a running sidecar: purge, refresh, reset, inspect, take a region out, change the log
    #[command(after_help = "Examples:\n  nearside ctl inspect --record context:acme --config nearside.toml\n  \
                            nearside ctl purge --all --socket /run/nearside/admin.sock\n  \
                            nearside ctl region drain us-east-1 --admin 127.0.0.1:8701 --token-file token\n\n\
                            The sidecar must let operators in: admin.unix or admin.token_file. Which command helps in which \
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
                            answer, 2 error in arguments or configuration.")]
    Verify(services::VerifyArgs),
    /// Show or change who may read and who may write
    #[command(after_help = "Examples:\n  nearside grants show --token-file admin.token\n  \
                            nearside grants apply grants/ --token-file admin.token\n  \
                            nearside grants stop jira --token-file admin.token\n\n\
                            docs/access.md says what a document holds.")]
    Grants(grants::GrantsArgs),
    /// List the versions of a record: who changed it, when, in which request, and why
    #[command(after_help = "Examples:\n  nearside history tenant acme --token-file writer.token\n  \
                            nearside history tenant acme --since 2h --diff\n\n\
                            The oldest comes first. Who may write a type may see its history.")]
    History(history::HistoryArgs),
    /// Count the changes of a type since a time, by writer, reason and minute
    #[command(after_help = "Examples:\n  nearside changes tenant --since 1h --token-file operator.token\n  \
                            nearside changes tenant --since 2026-11-29T10:00:00Z --writer consumer/jira\n\n\
                            It reads all records of the type, and the histories of those that changed. Keys are shown as digests.")]
    Changes(changes::ChangesArgs),
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
}

/// Runs the command to its end.
pub fn execute(cli: Cli) -> ExitCode {
    run_to_end("nearside", || run(cli.command))
}

fn run(command: Command) -> Result<(), CommandError> {
    match command {
        Command::Run(args) => {
            let loaded = with_schemas(read::load(args.config.as_deref(), variables()));
            reported(loaded).and_then(|(config, origins)| {
                run_sidecar(config, origins, move || read::load(args.config.as_deref(), variables()))
            })
        }
        Command::Check(args) => check::check(args),
        Command::Doctor(args) => doctor::doctor(args),
        Command::Explain(args) => explain::explain(&args),
        Command::Health(args) => health(args),
        Command::Ctl(args) => ctl::ctl(args),
        Command::Catalogue(args) => services::catalogue(&args),
        Command::Views(args) => services::views(&args),
        Command::Region(args) => services::region(&args),
        Command::Setup(args) => services::setup(&args),
        Command::Verify(args) => services::verify(&args),
        Command::Grants(args) => grants::run(args),
        Command::History(args) => history::run(args),
        Command::Changes(args) => changes::run(args),
        Command::Heartbeat(args) => publish_heartbeats(args),
        Command::Janitor(args) => settings(args.config.as_deref())
            .and_then(|(config, _)| remove_abandoned(config, args.older_than, args.dry_run)),
    }
}

fn health(args: HealthArgs) -> Result<(), CommandError> {
    let port = match (args.service, args.admin, args.config) {
        (Some(service), _, path) => services::admin_port(service, path.as_deref(), args.name.as_deref())?,
        (None, Some(address), _) => AdminPort { address, has_tls: args.tls },
        (None, None, Some(path)) => AdminPort::plain(settings(Some(&path))?.0.admin.listen),
        (None, None, None) => {
            let admin =
                read::admin_alone(variables()).map_err(|errors| CommandError::Usage(errors[0].to_string()))?;
            AdminPort::plain(admin.listen)
        }
    };
    probe(port, args.timeout)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn commands_are_consistent_with_examples() {
        let command = Cli::command();
        command.clone().debug_assert();
        for sub in command.get_subcommands() {
            assert!(sub.get_about().is_some(), "{}", sub.get_name());
            let after = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains(&format!("nearside {}", sub.get_name())), "{}", sub.get_name());
        }
    }

    #[test]
    fn region_plays_both_roles_by_default() {
        assert_eq!(name_and_role("nearside region --config f"), (None, None));
        let (name, role) = name_and_role("nearside region -c f --name eu-west-1 --role ingest --check");
        assert_eq!((name.as_deref(), role), (Some("eu-west-1"), Some(services::RegionRole::Ingest)));
        assert!(parse("nearside region --role both").is_err());
    }

    fn name_and_role(line: &str) -> (Option<String>, Option<services::RegionRole>) {
        match parse(line).unwrap().command {
            Command::Region(args) => (args.name, args.role),
            _ => panic!("not a region"),
        }
    }

    #[test]
    fn heartbeat_needs_topic_janitor_needs_silence() {
        assert!(parse("nearside heartbeat").is_err());
        let error = parse("nearside heartbeat --topic context-changes").unwrap_err().to_string();
        assert!(error.contains("arn:aws:sns:REGION:ACCOUNT:NAME"), "{error}");
        assert!(parse("nearside janitor --config f --older-than 3h --dry-run").is_ok());
        assert!(parse("nearside janitor --config f --older-than 5m").is_err());
    }
}
