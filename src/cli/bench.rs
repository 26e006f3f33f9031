//! `nearside bench`: its arguments, its report, and the harness's own servers, which are hidden
//! commands. The report is a table on standard output, and files where they are asked for. The exit
//! code is 0 if everything was measured, whatever became of the goals; those are in the report.

use std::ffi::OsString;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use url::Url;

use super::CommandError;
use crate::app::process;
use crate::cli::limits;
use crate::config::read;
use crate::lab::bench::progress::Progress;
use crate::lab::bench::regions::{self, Delay};
use crate::lab::bench::report::{json, page, picture, table};
use crate::lab::bench::run::{self, BenchError, BenchSettings};
use crate::lab::bench::services::deployment;
use crate::lab::bench::services::disk::{self, DiskOrder};
use crate::lab::bench::services::node::{self, NodeOrder, TableDay};
use crate::lab::bench::subject::Address;
use crate::lab::bench::target::{self, Own};
use crate::lab::bench::{announcer, reference_loop};
use crate::lab::limits::BENCH_BODY_KIB;
use crate::protocol::limits::REGIONS;

/// `nearside bench`
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    /// How often everything is repeated
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub rounds: u16,
    /// How long a round is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = seconds)]
    pub seconds: f64,
    /// Measure only this scenario; may be given several times
    #[arg(long, value_name = "SCENARIO")]
    pub only: Vec<String>,
    /// Where everything that is drawn begins
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write the report as JSON too
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report as one HTML file that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,
    /// Draw what a hit costs, or of a run without hits what payloads cost, as in the README
    #[arg(long, value_name = "FILE", conflicts_with = "target")]
    pub picture: Option<PathBuf>,
    /// Measure this URL instead: a service of your own, over plain HTTP
    #[arg(long, value_name = "URL", requires = "against")]
    pub target: Option<Url>,
    /// What it is held against; may be given several times
    #[arg(long, value_name = "URL", requires = "target")]
    pub against: Vec<Url>,
    /// With --target: the path and query to ask for, instead of the URL's own
    #[arg(long, requires = "target")]
    pub path: Option<String>,
    /// With --target: connections kept open
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=limits::BENCH_CONNECTIONS as i64))]
    pub connections: u16,
    /// With --target: HTTP/2 in plain text, one connection on which as many requests as
    /// --connections are under way
    #[arg(long, requires = "target")]
    pub h2c: bool,
    /// With --target: requests a second, whatever is answered; without it each connection asks when
    /// it was answered
    #[arg(long, value_name = "PER_SECOND", requires = "target")]
    pub rate: Option<u32>,
    /// With --target: a header to send, `name: value`; may be given several times
    #[arg(long, value_name = "HEADER", requires = "target", value_parser = header)]
    pub header: Vec<String>,
    /// What the harness starts beside itself.
    #[command(subcommand)]
    pub command: Option<BenchCommand>,
}

/// The harness's own servers.
#[derive(Clone, Debug, Subcommand)]
pub enum BenchCommand {
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
        /// How late: none, fixed:5ms, tail:SEED
        #[arg(long, default_value = "none", value_parser = Delay::parse)]
        delay: Delay,
        /// One port per region
        #[arg(required = true, num_args = 1..=REGIONS)]
        addresses: Vec<SocketAddr>,
    },
    /// Run a sidecar that ends with the harness
    #[command(hide = true)]
    Sidecar(super::ConfigArgs),
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
        /// How many regions have a topic
        #[arg(long, value_parser = clap::value_parser!(u16).range(1..=REGIONS as i64))]
        regions: u16,
        /// Where orders are taken
        orders: SocketAddr,
    },
    /// Answer as a node of a region, from the harness's table
    #[command(hide = true)]
    Node {
        #[arg(long)]
        listen: SocketAddr,
        #[arg(long)]
        admin: SocketAddr,
        /// What the table is like: good, bad
        #[arg(long, value_parser = TableDay::parse)]
        day: TableDay,
        /// The region's topic, an ARN
        #[arg(long)]
        topic: String,
        /// Where SNS and SQS are
        #[arg(long)]
        endpoint: Url,
    },
    /// Answer straight from the harness's table
    #[command(hide = true)]
    Table {
        /// What the table is like: good, bad
        #[arg(long, value_parser = TableDay::parse)]
        day: TableDay,
        listen: SocketAddr,
    },
    /// Run all services of a file on one engine
    #[command(hide = true)]
    Services {
        #[arg(long)]
        config: PathBuf,
        /// Where SNS and SQS are
        #[arg(long)]
        endpoint: Url,
    },
    /// Write to the embedded engine until it is killed, or read all that it has
    #[command(hide = true)]
    Disk {
        /// How many records to write; without it, reads
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
            reference_loop::serve(&address, &reference_loop::answer(body_bytes as usize)).map_err(failed)
        }
        Some(BenchCommand::Regions { delay, addresses }) => {
            end_with_the_harness();
            regions::serve(&addresses, delay).map_err(failed)
        }
        Some(BenchCommand::Sidecar(args)) => {
            end_with_the_harness();
            let read = move || read::load(args.config.as_deref(), super::variables());
            let (config, origins) = super::told(read())?;
            super::run_sidecar(config, origins, read)
        }
        Some(BenchCommand::Hold { command }) => {
            end_with_the_harness();
            let (program, arguments) = command.split_first().expect("clap requires one");
            Err(failed(std::process::Command::new(program).args(arguments).exec()))
        }
        Some(BenchCommand::Announcer { regions, orders }) => {
            end_with_the_harness();
            let Err(error) = process::block_on(announcer::serve(usize::from(regions), orders)).map_err(failed)?;
            Err(failed(error))
        }
        Some(service) => serve(service),
    }
}

/// What the harness starts of the services.
fn serve(command: BenchCommand) -> Result<(), CommandError> {
    end_with_the_harness();
    match command {
        BenchCommand::Node { listen, admin, day, topic, endpoint } => {
            let order = NodeOrder { listen, admin, day, topic, endpoint };
            process::block_on(node::serve(order)).map_err(failed)?.map_err(failed)
        }
        BenchCommand::Table { day, listen } => {
            let Err(error) = process::block_on(node::serve_table(listen, day)).map_err(failed)?;
            Err(failed(error))
        }
        BenchCommand::Services { config, endpoint } => {
            let (config, contents) = super::services::whole(&config)?;
            process::block_on(deployment::serve(config, contents, endpoint)).map_err(failed)?.map_err(failed)
        }
        BenchCommand::Disk { records: None, directory, said, .. } => {
            process::block_on(disk::reopen(&directory, &said)).map_err(failed)?.map_err(failed)
        }
        BenchCommand::Disk { records: Some(records), disk_rounds, disk_seconds, directory, said } => {
            let (round, rounds) = (Duration::from_secs_f64(disk_seconds), disk_rounds);
            let order = DiskOrder { directory: &directory, records, rounds, round, said: &said };
            process::block_on(disk::write(order)).map_err(failed)?.map_err(failed)
        }
        other => Err(failed(format!("{other:?} is none of the services"))),
    }
}

fn measure(args: &BenchArgs) -> Result<(), CommandError> {
    let round = Duration::from_secs_f64(args.seconds);
    let settings = BenchSettings {
        rounds: usize::from(args.rounds),
        round,
        warm_up: (round / 4).min(Duration::from_secs(1)),
        only: args.only.clone(),
        seed: args.seed,
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
        error => failed(error),
    })?;
    if let Some(path) = &args.json {
        write(path, &json::written(&report).map_err(failed)?)?;
    }
    if let Some(path) = &args.page {
        write(path, &page::page(&report))?;
    }
    if let (Some(path), Some(drawn)) = (&args.picture, picture::picture(&report)) {
        write(path, &drawn)?;
    }
    std::io::stdout().lock().write_all(table::table(&report).as_bytes()).map_err(failed)
}

fn write(path: &Path, text: &str) -> Result<(), CommandError> {
    let told = |error| CommandError::Failed(format!("{} could not be written: {error}", path.display()));
    std::fs::write(path, text).map_err(told)
}

fn failed(error: impl std::fmt::Display) -> CommandError {
    CommandError::Failed(error.to_string())
}
