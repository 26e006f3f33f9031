//! `nearside check`: the effective settings and where each came from, or every config error. People
//! read it, and pipelines go by the exit code. Without `--announcement`, standard output carries a
//! configuration that can be loaded again, or nothing.

use std::io::Write;

use bytesize::ByteSize;

mod message;

use super::args::CheckArgs;
use super::error::CommandError;
use super::load::{reported, sdk_settings, settings, usable_sdk, variables, with_schemas};
use super::paint;
use crate::app::bounds::{Bounds, raise_descriptors};
use crate::aws::sdk_settings::SdkSettings;
use crate::cache::capacity::Memory;
use crate::config::error::ConfigError;
use crate::config::scope::Origins;
use crate::config::{Config, effective, read};

/// Reads the configuration as `nearside run` would, and reports the result.
pub(super) fn check(args: CheckArgs) -> Result<(), CommandError> {
    let path = args.settings.config.as_deref();
    let (config, origins) =
        if args.without_files { settings(path)? } else { reported(with_schemas(read::load(path, variables())))? };
    let sdk = if args.without_files { SdkSettings::default() } else { sdk_settings(&config) };
    let skipped = usable_sdk(sdk)?;
    if let Some(file) = &args.announcement {
        return message::explain(&config, file, args.path.as_deref());
    }
    print(&config, &origins, &skipped)
        .map_err(|error| CommandError::Failed(format!("the settings could not be printed: {error}")))
}

fn print(config: &Config, origins: &Origins, skipped: &[ConfigError]) -> std::io::Result<()> {
    let (regions, routes) = (config.service.regions.len(), config.service.routes.len());
    print_settings(origins, &format!("{}, {}", count(regions, "region"), count(routes, "route")))?;
    print_skipped(skipped)?;
    let mut err = std::io::stderr().lock();
    let memory = Memory::of_the_machine();
    if let Err(too_few) = raise_descriptors() {
        writeln!(err, "{too_few}")?;
    }
    let (whose, size) = (if memory.is_own { "the cgroup's limit" } else { "the machine's memory" }, ByteSize);
    let (connections, by) = Bounds::of_the_machine(memory).connections(config.listen.max_connections);
    match by {
        Some(by) => writeln!(err, "callers may have {connections} connections open here, bounded by {by}")?,
        None => writeln!(err, "callers may have {connections} connections open, as listen.max_connections says")?,
    }
    match config.cache.max_bytes {
        Some(bytes) => writeln!(err, "the cache may hold {}, as cache.max_bytes says", size(bytes)),
        None => {
            writeln!(err, "the cache may hold {} of {whose} of {}", size(memory.capacity()), size(memory.limit))
        }
    }
}

/// Writes the settings to standard output, and to standard error the warnings and what was `found`.
pub(super) fn print_settings(origins: &Origins, found: &str) -> std::io::Result<()> {
    let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
    let mut out = stdout.lock();
    effective::print(&mut out, origins, paint::Styles::of(&stdout).settings)?;
    out.flush()?;
    let mut err = stderr.lock();
    paint::warnings(&mut err, &origins.warnings, paint::Styles::of(&stderr))?;
    writeln!(err, "no errors: {found}, {}", count(origins.warnings.len(), "warning"))
}

/// Writes to standard error which of the AWS SDK's settings change nothing.
pub(super) fn print_skipped(settings: &[ConfigError]) -> std::io::Result<()> {
    let mut err = std::io::stderr().lock();
    settings.iter().try_for_each(|wrong| writeln!(err, "the AWS SDK's setting is skipped: {wrong}"))
}

pub(super) fn count(number: usize, of: &str) -> String {
    if number == 1 { format!("1 {of}") } else { format!("{number} {of}s") }
}
