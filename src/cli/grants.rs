//! `nearside grants`: shows and changes who may read and who may write, at the catalogue. Each change
//! says who gains and loses what, and is written only if nobody changed the document meanwhile.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use url::Url;

use super::caller::{Caller, CatalogueReach};
use super::catalogue_client::CatalogueClient;
use super::ending::{block_on, print};
use super::error::CommandError;
use crate::access::decision::Need;
use crate::access::editing::{self, EditError};
use crate::access::grants::Grants;
use crate::access::grants::changes::{Change, changes};

mod catalogue;
mod ending;
mod report;
mod who;

use catalogue::Versioned;
use ending::{none_yet, wrong};

/// `nearside grants`
#[derive(Clone, Debug, Args)]
pub struct GrantsArgs {
    /// Command to perform
    #[command(subcommand)]
    pub command: GrantsCommand,
    #[command(flatten)]
    pub reach: CatalogueReach,
}

/// Command on the grants.
#[derive(Clone, Debug, Subcommand)]
pub enum GrantsCommand {
    /// Show the document as it is now
    Show,
    /// Replace the consumers by those of a file, or of all `*.json` files of a directory
    #[command(
        after_help = "Examples:\n  nearside grants apply grants/ --dry-run\n  nearside grants apply grants/\n\n\
                            It replaces the whole document: a consumer that is in no file loses all its rights. Consumers \
                            that are stopped stay so. When more than ten rights would be lost, it takes --expect-lost \
                            N."
    )]
    Apply {
        /// A file with `{\"consumers\": {..}}`, or a directory of such files
        path: PathBuf,
        /// Say what would change, and change nothing
        #[arg(long)]
        dry_run: bool,
        /// Number of rights that are to be lost
        #[arg(long, value_name = "N")]
        expect_lost: Option<usize>,
        /// Write it though nothing differs: after a table was put back
        #[arg(long)]
        again: bool,
    },
    /// Take all rights from a consumer at once, for an incident
    Stop {
        /// Name of the consumer
        consumer: String,
    },
    /// Give a stopped consumer its rights back
    Resume {
        /// Name of the consumer
        consumer: String,
    },
    /// List the versions of the document
    History,
    /// Write an earlier version as a new one
    Rollback {
        /// The version, as `history` lists it
        version: u64,
    },
    /// Say what a token may do, or why nothing: the token comes from standard input
    #[command(
        after_help = "Examples:\n  nearside grants who --config service.toml --token-file admin.token < token\n  \
                            nearside grants who --holder caller.pem --config service.toml --token-file admin.token\n\n\
                            The rights are asked of the catalogue, which shows the grants to admins alone once it \
                            enforces: --token-file or --certificate is an admin's."
    )]
    Who {
        /// The services' configuration, which names the issuers and the admins
        #[arg(long, short, value_name = "FILE")]
        config: Option<PathBuf>,
        /// A PEM file with a client certificate, whose holder is meant, instead of a token
        #[arg(long, value_name = "FILE")]
        holder: Option<PathBuf>,
        /// Say whether it may read this view; may be given several times
        #[arg(long, value_name = "NAME")]
        view: Vec<String>,
        /// Say whether it may write records of this type; may be given several times
        #[arg(long = "type", value_name = "NAME")]
        record_type: Vec<String>,
    },
    /// List what services refused, or would refuse once they enforce, issuers whose keys are old, and
    /// services that differ in mode or version
    #[command(after_help = "Example:\n  nearside grants report http://127.0.0.1:8741 http://127.0.0.1:8745")]
    Report {
        /// Addresses of the services' admin ports
        #[arg(required = true, value_name = "URL")]
        admin: Vec<Url>,
    },
}

/// Rights that `apply` takes away without being asked for their number.
const LOST_UNASKED: usize = 10;

pub(super) fn run(args: GrantsArgs) -> Result<(), CommandError> {
    let caller = Caller::of(&args.reach)?;
    let client = CatalogueClient::new(args.reach.catalogue, caller.clone(), "an admin's");
    match args.command {
        GrantsCommand::Show => {
            let current = block_on(client.current())?.ok_or_else(none_yet)?;
            // Beside the document, which `apply` takes as it is.
            writeln!(std::io::stderr().lock(), "version {}", current.version).map_err(CommandError::failed)?;
            print(String::from_utf8_lossy(&current.document).trim_end())
        }
        GrantsCommand::Apply { path, dry_run, expect_lost, again } => {
            apply(&client, &path, dry_run, expect_lost, again)
        }
        GrantsCommand::Stop { consumer } => stop(&client, &consumer, true),
        GrantsCommand::Resume { consumer } => stop(&client, &consumer, false),
        GrantsCommand::History => {
            let versions = block_on(client.history())?;
            versions.iter().try_for_each(|known| print(&format!("{} {} bytes", known.version, known.document.len())))
        }
        GrantsCommand::Rollback { version } => {
            let versions = block_on(client.history())?;
            let earlier = versions.into_iter().find(|known| known.version == version);
            let earlier = earlier.ok_or_else(|| {
                CommandError::Usage(format!("there is no version {version}; `nearside grants history` lists them"))
            })?;
            let current = block_on(client.current())?;
            let document =
                editing::rolled_back(&earlier.document, &stopped_in(current.as_ref())).map_err(unedited)?;
            replace(&client, current.as_ref(), &document, true, &|_| Ok(()))
        }
        GrantsCommand::Who { config, holder, view, record_type } => {
            let needs = view.iter().map(|view| Need::Read(view));
            let needs = needs.chain(record_type.iter().map(|record_type| Need::Write(record_type)));
            let needs = needs.collect::<Vec<_>>();
            match holder {
                Some(file) => who::presents(&client, config.as_deref(), &file, &needs),
                None => who::sends(&client, config.as_deref(), &needs),
            }
        }
        GrantsCommand::Report { .. } if caller.has_certificate() => {
            let text = "--certificate counts at no admin port; send an operator's token with --token-file";
            Err(CommandError::Usage(text.to_owned()))
        }
        GrantsCommand::Report { admin } => {
            let mut reports = Vec::new();
            for admin in &admin {
                let report = block_on(report::of(admin, &caller))?;
                report.lines.iter().try_for_each(|line| print(line))?;
                reports.push(report);
            }
            report::differing(&reports).iter().try_for_each(|line| print(line))
        }
    }
}

/// Consumers that are stopped now.
fn stopped_in(current: Option<&Versioned>) -> BTreeSet<String> {
    current.map_or_else(BTreeSet::new, |current| editing::stopped(&current.document))
}

fn unedited(error: EditError) -> CommandError {
    CommandError::Usage(error.to_string())
}

fn apply(
    client: &CatalogueClient,
    path: &Path,
    dry_run: bool,
    expect_lost: Option<usize>,
    again: bool,
) -> Result<(), CommandError> {
    let files = files(path).map_err(|error| CommandError::Usage(format!("{}: {error}", path.display())))?;
    // Without a file all rights would be lost.
    if files.is_empty() {
        let text = format!("{}: no `*.json` in it; nothing was changed", path.display());
        return Err(CommandError::Usage(text));
    }
    let current = block_on(client.current())?;
    let document = editing::merged(&files, &stopped_in(current.as_ref())).map_err(unedited)?;
    replace(client, current.as_ref(), &document, again, &|changes| {
        let lost = changes.iter().filter(|change| !change.is_gained).count();
        if dry_run {
            return Err(CommandError::Usage(String::new()));
        }
        match expect_lost {
            Some(expected) if expected == lost => Ok(()),
            None if lost <= LOST_UNASKED => Ok(()),
            _ => Err(CommandError::Usage(format!(
                "{lost} rights would be lost; write --expect-lost {lost} if that is meant, nothing was changed"
            ))),
        }
    })
}

/// Files of a directory by their names, or one file.
fn files(path: &Path) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    if !path.is_dir() {
        return Ok(vec![(path.display().to_string(), std::fs::read(path)?)]);
    }
    let entries = std::fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path()));
    let mut paths: Vec<PathBuf> = entries.collect::<Result<_, _>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    paths.into_iter().map(|path| Ok((path.display().to_string(), std::fs::read(path)?))).collect()
}

fn stop(client: &CatalogueClient, consumer: &str, is_stopped: bool) -> Result<(), CommandError> {
    let current = block_on(client.current())?.ok_or_else(none_yet)?;
    let document = editing::with_stopped(&current.document, consumer, is_stopped).map_err(unedited)?;
    replace(client, Some(&current), &document, false, &|_| Ok(()))
}

/// Says which rights change, and writes the document unless `confirm` refuses, or nothing differs and it
/// is not to be written again.
fn replace(
    client: &CatalogueClient,
    current: Option<&Versioned>,
    document: &[u8],
    again: bool,
    confirm: &dyn Fn(&[Change]) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let new = Grants::read(document, 0).map_err(|errors| wrong(&errors))?;
    let old = current.and_then(|current| Grants::read(&current.document, current.version).ok());
    let unknown = new.unknown_rights(old.as_ref());
    if !unknown.is_empty() {
        return Err(wrong(&unknown));
    }
    let changes = changes(old.as_ref(), &new);
    changes.iter().try_for_each(|change| print(&change.to_string()))?;
    new.cluster_wide().iter().try_for_each(|wide| {
        print(&format!("warning: {wide} covers every pod of a cluster; write a namespace before the `*`"))
    })?;
    let stopped = editing::stopped(document);
    stopped.iter().try_for_each(|name| print(&format!("{name} is stopped until `nearside grants resume {name}`")))?;
    // A consumer that is stopped may have other rights once it is not.
    if !again && current.is_some_and(|current| is_same(&current.document, document)) {
        return print("nothing changes");
    }
    match confirm(&changes) {
        Err(CommandError::Usage(text)) if text.is_empty() => return print("nothing was changed"),
        confirmed => confirmed?,
    }
    let version = block_on(client.put(document.to_vec(), current.map(|current| current.version)))?;
    print(&format!("version {version}; regions have it within seconds"))
}

fn is_same(one: &[u8], other: &[u8]) -> bool {
    let [one, other] = [one, other].map(serde_json::from_slice::<serde_json::Value>);
    matches!((one, other), (Ok(one), Ok(other)) if one == other)
}
