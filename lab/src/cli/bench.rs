//! `nearside-lab bench`: its arguments, its report, and the harness's own servers, which are hidden
//! commands. The report is a table on standard output, and files where they are asked for. The exit
//! code is 0 if everything was measured, whatever became of the goals; those are in the report.

use std::ffi::OsString;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use nearside::app::process;
use nearside::app::services::Contents;
use nearside::cli::error::CommandError;
use nearside::config::error::ConfigError;
use nearside::config::services::{self, ServiceRole};
use nearside::protocol::limits::REGIONS;
use url::Url;

use crate::bench::error::BenchError;
use crate::bench::progress::Progress;
use crate::bench::regions::{self, Delay};
use crate::bench::report::{charts, json, render};
use crate::bench::run;
use crate::bench::services::deployment;
use crate::bench::services::disk::{self, DiskOrder};
use crate::bench::services::node::{self, NodeOrder, TableDay};
use crate::bench::session::BenchSettings;
use crate::bench::subject::Address;
use crate::bench::target::{self, Own};
use crate::bench::{announcer, reference_loop};
use crate::limits::{BENCH_BODY_KIB, BENCH_CONNECTIONS};

/// `nearside-lab bench`
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct BenchArgs {
    /// Number of times everything is repeated
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Length of a round
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = seconds)]
    seconds: f64,
    /// Measure only this scenario; may be given several times
    #[arg(long, value_name = "SCENARIO")]
    only: Vec<String>,
    /// The nearside to measure [default: the one beside this program]
    #[arg(long, value_name = "PATH", conflicts_with = "target")]
    nearside: Option<PathBuf>,
    /// Seed of everything that is drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the report as JSON too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report as one HTML file that needs nothing else
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Write each chart of the page as an SVG of its own into this folder
    #[arg(long, value_name = "FOLDER")]
    charts: Option<PathBuf>,
    /// Measure this URL instead: a service of your own, over plain HTTP
    #[arg(long, value_name = "URL", requires = "against")]
    target: Option<Url>,
    /// Another service to compare with; may be given several times
    #[arg(long, value_name = "URL", requires = "target")]
    against: Vec<Url>,
    /// With --target: the path and query to ask for, instead of the URL's own
    #[arg(long, requires = "target")]
    path: Option<String>,
    /// With --target: connections kept open
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=BENCH_CONNECTIONS as i64))]
    connections: u16,
    /// With --target: HTTP/2 in plain text, one connection on which as many requests as
    /// --connections are under way
    #[arg(long, requires = "target")]
    h2c: bool,
    /// With --target: requests a second, whatever is answered; without it each connection asks when
    /// it was answered
    #[arg(long, value_name = "PER_SECOND", requires = "target")]
    rate: Option<u32>,
    /// With --target: a header to send, `name: value`; may be given several times
    #[arg(long, value_name = "HEADER", requires = "target", value_parser = header)]
    header: Vec<String>,
    /// Servers that the harness starts beside itself.
    #[command(subcommand)]
    command: Option<BenchCommand>,
}

/// The harness's own servers.
#[derive(Clone, Debug, Subcommand)]
enum BenchCommand {
    /// Answer from memory on a bare epoll loop
    #[command(hide = true)]
    Floor {
        /// The port to listen on
        #[arg(long, required_unless_present = "unix")]
        tcp: Option<SocketAddr>,
        /// The Unix socket to listen on
        #[arg(long, conflicts_with = "tcp")]
        unix: Option<PathBuf>,
        /// The body's length
        #[arg(long, value_parser = clap::value_parser!(u32).range(..=(BENCH_BODY_KIB as i64) << 10))]
        body_bytes: u32,
    },
    /// Answer as the regions of a service
    #[command(hide = true)]
    Regions {
        /// Delay of each answer: none, fixed:5ms, tail:SEED
        #[arg(long, default_value = "none", value_parser = Delay::parse)]
        delay: Delay,
        /// One port per region
        #[arg(required = true, num_args = 1..=REGIONS)]
        addresses: Vec<SocketAddr>,
    },
    /// Become another program, which ends with the harness
    #[command(hide = true)]
    Hold {
        /// The program and its arguments
        #[arg(required = true, num_args = 1.., trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
    /// Announce as the topics of a service
    #[command(hide = true)]
    Announcer {
        /// Number of regions with a topic
        #[arg(long, value_parser = clap::value_parser!(u16).range(1..=REGIONS as i64))]
        regions: u16,
        /// Address where orders are taken
        orders: SocketAddr,
    },
    /// Answer as a node of a region, from the harness's table
    #[command(hide = true)]
    Node {
        #[arg(long)]
        listen: SocketAddr,
        #[arg(long)]
        admin: SocketAddr,
        /// State of the table: good, bad
        #[arg(long, value_parser = TableDay::parse)]
        day: TableDay,
        /// The region's topic, an ARN
        #[arg(long)]
        topic: String,
        /// URL of SNS and SQS
        #[arg(long)]
        endpoint: Url,
    },
    /// Answer straight from the harness's table
    #[command(hide = true)]
    Table {
        /// State of the table: good, bad
        #[arg(long, value_parser = TableDay::parse)]
        day: TableDay,
        listen: SocketAddr,
    },
    /// Run all services of a file on one engine
    #[command(hide = true)]
    Services {
        #[arg(long)]
        config: PathBuf,
        /// URL of SNS and SQS
        #[arg(long)]
        endpoint: Url,
    },
    /// Write to the embedded engine until it is killed, or read all that it has
    #[command(hide = true)]
    Disk {
        /// Number of records to write; without it, reads
        #[arg(long)]
        records: Option<u64>,
        #[arg(long, default_value_t = 1)]
        disk_rounds: usize,
        #[arg(long, default_value_t = 1.0, value_parser = seconds)]
        disk_seconds: f64,
        directory: PathBuf,
        /// The file that it says how far it is in
        said: PathBuf,
    },
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "write a number of seconds, such as 3 or 0.5".to_owned())?;
    if (0.01..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("write 0.01 to 3600 seconds".to_owned()) }
}

fn header(text: &str) -> Result<String, String> {
    let whole = text.split_once(':').is_some_and(|(name, _)| !name.is_empty());
    if whole && !text.contains(['\r', '\n']) { Ok(text.to_owned()) } else { Err("write `name: value`".to_owned()) }
}

/// Makes a server of the harness end with it, however the harness ends.
fn end_with_the_harness() {
    // If the kernel does not support this, Ctrl-C still reaches both.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM));
}

/// Measures, or serves as one of the harness's servers.
pub(super) fn bench(args: BenchArgs) -> Result<(), CommandError> {
    match args.command {
        None => measure(&args),
        Some(BenchCommand::Floor { tcp, unix, body_bytes }) => {
            let address = match (tcp, unix) {
                (Some(tcp), _) => Address::Tcp(tcp),
                (None, Some(unix)) => Address::Unix(unix),
                (None, None) => return Err(CommandError::Usage("write --tcp or --unix".to_owned())),
            };
            end_with_the_harness();
            reference_loop::serve(&address, &reference_loop::answer(body_bytes as usize))
                .map_err(CommandError::failed)
        }
        Some(BenchCommand::Regions { delay, addresses }) => {
            end_with_the_harness();
            regions::serve(&addresses, delay).map_err(CommandError::failed)
        }
        Some(BenchCommand::Hold { command }) => {
            end_with_the_harness();
            let (program, arguments) = command.split_first().expect("clap requires one");
            Err(CommandError::failed(std::process::Command::new(program).args(arguments).exec()))
        }
        Some(BenchCommand::Announcer { regions, orders }) => {
            end_with_the_harness();
            let Err(error) =
                process::block_on(announcer::serve(usize::from(regions), orders)).map_err(CommandError::failed)?;
            Err(CommandError::failed(error))
        }
        Some(service) => serve(service),
    }
}

/// Starts a process of the services for the harness.
fn serve(command: BenchCommand) -> Result<(), CommandError> {
    end_with_the_harness();
    match command {
        BenchCommand::Node { listen, admin, day, topic, endpoint } => {
            let order = NodeOrder { listen, admin, day, topic, endpoint };
            process::block_on(node::serve(order)).map_err(CommandError::failed)?.map_err(CommandError::failed)
        }
        BenchCommand::Table { day, listen } => {
            let Err(error) = process::block_on(node::serve_table(listen, day)).map_err(CommandError::failed)?;
            Err(CommandError::failed(error))
        }
        BenchCommand::Services { config, endpoint } => {
            let (config, contents) = whole(&config)?;
            process::block_on(deployment::serve(config, contents, endpoint))
                .map_err(CommandError::failed)?
                .map_err(CommandError::failed)
        }
        BenchCommand::Disk { records: None, directory, said, .. } => {
            process::block_on(disk::reopen(&directory, &said))
                .map_err(CommandError::failed)?
                .map_err(CommandError::failed)
        }
        BenchCommand::Disk { records: Some(records), disk_rounds, disk_seconds, directory, said } => {
            let (round, rounds) = (Duration::from_secs_f64(disk_seconds), disk_rounds);
            let order = DiskOrder { directory: &directory, records, rounds, round, said: &said };
            process::block_on(disk::write(order)).map_err(CommandError::failed)?.map_err(CommandError::failed)
        }
        other => Err(CommandError::failed(format!("{other:?} is none of the services"))),
    }
}

/// A file's settings and what they name, as `nearside views` reads them.
fn whole(file: &Path) -> Result<(services::ServicesConfig, Contents), CommandError> {
    let (config, _) = services::load(ServiceRole::Views, Some(file), std::iter::empty()).map_err(all)?;
    let contents = Contents::read(&config).map_err(all)?;
    Ok((config, contents))
}

fn all(errors: Vec<ConfigError>) -> CommandError {
    CommandError::Usage(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

fn measure(args: &BenchArgs) -> Result<(), CommandError> {
    let round = Duration::from_secs_f64(args.seconds);
    let settings = BenchSettings {
        rounds: usize::from(args.rounds),
        round,
        warm_up: (round / 4).min(Duration::from_secs(1)),
        only: args.only.clone(),
        seed: args.seed,
        nearside: args.nearside.clone(),
    };
    let progress = Progress::for_stderr();
    let measured = match &args.target {
        None => run::run(&settings, &progress),
        Some(target) => {
            let own = Own {
                urls: std::iter::once(target).chain(&args.against).cloned().collect(),
                path: args.path.clone(),
                connections: usize::from(args.connections),
                h2c: args.h2c,
                per_second: args.rate,
                headers: args.header.clone(),
            };
            target::run(&settings, &own, &progress)
        }
    };
    let report = measured.map_err(|error| match error {
        BenchError::Unknown { .. } | BenchError::NotHttp { .. } => CommandError::Usage(error.to_string()),
        error => CommandError::failed(error),
    })?;
    if let Some(path) = &args.json {
        write(path, &json::written(&report).map_err(defect)?)?;
    }
    if let Some(path) = &args.page {
        write(path, &render::page(&report).map_err(defect)?)?;
    }
    if let Some(folder) = &args.charts {
        for chart in charts::charts(&report).map_err(defect)?.iter().flatten() {
            write(&folder.join(&chart.name).with_extension("svg"), &chart.svg)?;
        }
    }
    let text = render::text(&report).map_err(defect)?;
    std::io::stdout().lock().write_all(text.as_bytes()).map_err(CommandError::failed)
}

fn write(path: &Path, text: &str) -> Result<(), CommandError> {
    std::fs::write(path, text)
        .map_err(|error| CommandError::Failed(format!("{} could not be written: {error}", path.display())))
}

fn defect(error: impl std::fmt::Display) -> CommandError {
    CommandError::failed(format!(
        "the report cannot be written: {error}; this is a defect of the harness, please report it"
    ))
}
