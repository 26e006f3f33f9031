//! Compares what a deployment holds: catalogue, views and every region. It only reads.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use super::{Contents, Engine, ServiceStartError};
use crate::aws::clients::Sdk;
use crate::config::services::ServicesConfig;
use crate::engine::EngineError;
use crate::model::time::Clock;
use crate::views::{Mapper, Verification, VerifiedRegion, VerifyReport, ViewsCounters};

/// How to compare.
#[derive(Clone, Copy, Debug)]
pub struct VerifyOrder {
    /// How long a change may be on its way.
    pub wait: Duration,
    pub views_per_second: u32,
    /// Otherwise examples show the first digits of a key's hash.
    pub shows_keys: bool,
}

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// Another process may have it open.
    #[error(transparent)]
    Open(#[from] ServiceStartError),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Compares everything that `config` names.
///
/// # Errors
/// When the engine cannot be opened or read.
pub async fn verify(
    config: &ServicesConfig,
    contents: Contents,
    order: &VerifyOrder,
    clock: &Clock,
) -> Result<VerifyReport, VerifyError> {
    let sdk = Sdk::new(config.engine.endpoint_url().cloned());
    let engine = Engine::open(&config.engine, sdk, clock).await?;
    let mut regions = Vec::new();
    for region in &config.regions {
        let (name, tables) = (region.name.clone(), engine.regional(region).await);
        regions.push(VerifiedRegion { name, tables, views: region.only() });
    }
    let verification = Verification {
        mapper: Mapper::new(engine.home(), clock.clone(), ViewsCounters::default()),
        regions,
        views: contents.views.into_iter().map(Arc::new).collect(),
        wait: order.wait,
        views_per_second: order.views_per_second,
        shows_keys: order.shows_keys,
    };
    Ok(verification.run().await?)
}

/// What was found, for people: a line for each place and way, then examples.
///
/// # Errors
/// When `out` takes no more.
pub fn write(report: &VerifyReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "compared {} views with their records, {} buckets with regions'", report.views, report.buckets)?;
    for ((place, how), count) in &report.differing {
        writeln!(out, "{place}: {} {count}", how.word())?;
    }
    for example in &report.examples {
        writeln!(out, "  {}: {} {} {}", example.place, example.how.word(), example.view, example.key)?;
    }
    if report.is_partial {
        writeln!(out, "so much differs that not everything was compared")?;
    }
    match report.differing.values().sum::<u64>() {
        0 if report.is_clean() => writeln!(out, "nothing differs"),
        1 => writeln!(out, "1 difference"),
        count => writeln!(out, "{count} differences"),
    }
}
