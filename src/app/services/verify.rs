//! Compares what a deployment holds: catalogue, views and every region that the file names. It only
//! reads, and says meanwhile how far it is: that can take hours.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use super::{Contents, Engine, ServiceStartError};
use crate::access::record::{DOCUMENT, GRANTS};
use crate::aws::clients::Sdk;
use crate::config::services::ServicesConfig;
use crate::engine::limits::BUCKETS;
use crate::engine::{EngineError, ItemKey, Table, bucket};
use crate::model::time::Clock;
use crate::views::{Mapper, Verification, VerifiedRegion, VerifyReport, ViewsCounters};
use progress::VerifyProgress;

mod progress;

pub use progress::VerifyShown;

/// Settings of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct VerifyOrder {
    /// Longest time that a change may be on its way.
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

/// Scope of a comparison, and its findings.
#[derive(Clone, Debug, Default)]
pub struct VerifyOutcome {
    pub report: VerifyReport,
    /// The regions whose copies were compared.
    pub compared: Vec<String>,
    /// Those that take none of the views.
    pub skipped: Vec<String>,
    /// Places whose document of grants is not the record's.
    pub grants: Vec<String>,
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
    shown: VerifyShown,
) -> Result<VerifyOutcome, VerifyError> {
    let sdk = Sdk::new(config.engine.endpoint_url().cloned());
    let engine = Engine::open(&config.engine, sdk, clock).await?;
    let progress = VerifyProgress::new(contents.views.len() * usize::from(BUCKETS), clock.clone());
    let (mut regions, mut verified) = (Vec::new(), VerifyOutcome::default());
    for region in &config.regions {
        let (name, views) = (region.name.clone(), region.only());
        let mut made = contents.views.iter().map(|view| &view.name);
        let is_compared = made.any(|name| views.as_ref().is_none_or(|taken| taken.contains(name)));
        let noted = if is_compared { &mut verified.compared } else { &mut verified.skipped };
        noted.push(name.clone());
        let tables = progress.counting(engine.regional(region).await);
        regions.push(VerifiedRegion { name, tables, views });
    }
    let home = progress.counting(engine.home());
    let verification = Verification {
        mapper: Mapper::new(home, clock.clone(), ViewsCounters::default()),
        regions,
        views: contents.views.into_iter().map(Arc::new).collect(),
        wait: order.wait,
        views_per_second: order.views_per_second,
        shows_keys: order.shows_keys,
    };
    verified.report = tokio::select! {
        report = verification.run() => report,
        never = progress.tell(shown) => match never {},
    }?;
    verified.grants = differing_grants(&engine, config, order.wait, clock).await?;
    Ok(verified)
}

/// Places that still have another document of grants than the record after `wait`.
async fn differing_grants(
    engine: &Engine,
    config: &ServicesConfig,
    wait: Duration,
    clock: &Clock,
) -> Result<Vec<String>, EngineError> {
    let key = ItemKey::new(bucket::partition(GRANTS, DOCUMENT), DOCUMENT);
    let home = engine.home();
    let mut places = vec![("views".to_owned(), home.clone(), Table::Views)];
    for region in &config.regions {
        places.push((region.name.clone(), engine.regional(region).await, Table::Contexts));
    }
    let began = clock.now();
    loop {
        let record = home.get(Table::Records, &key).await?.filter(|record| record.body.is_some());
        let Some(record) = record else { return Ok(Vec::new()) };
        let mut differing = Vec::new();
        for (name, tables, table) in &places {
            let copy = tables.get(*table, &key).await?;
            if copy.as_ref().is_none_or(|copy| (copy.version, &copy.body) != (record.version, &record.body)) {
                let has = copy.map_or_else(|| "none".to_owned(), |copy| format!("version {}", copy.version));
                differing.push(format!("grants: {name} has {has}, the record version {}", record.version));
            }
        }
        if differing.is_empty() || clock.now() - began >= wait {
            return Ok(differing);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

impl VerifyOutcome {
    /// True if something was compared, and nothing of it differs.
    pub fn is_clean(&self) -> bool {
        self.report.is_clean() && self.has_compared() && self.grants.is_empty()
    }

    fn has_compared(&self) -> bool {
        self.report.views > 0 || self.report.buckets > 0
    }

    /// For people: what was compared and what was not, a line for each place and way to differ, then
    /// examples.
    ///
    /// # Errors
    /// When `out` takes no more.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let report = &self.report;
        writeln!(out, "compared {} views with their records", report.views)?;
        if !self.compared.is_empty() {
            let (buckets, regions) = (report.buckets, self.compared.join(", "));
            writeln!(out, "compared {buckets} buckets of views with the copies in {regions}")?;
        }
        if !self.skipped.is_empty() {
            writeln!(out, "not compared: {}, which takes none of these views", self.skipped.join(", "))?;
        }
        if self.compared.is_empty() && self.skipped.is_empty() {
            writeln!(
                out,
                "not compared: any region, because the file names none; verify with each region's file too"
            )?;
        }
        for ((place, how), count) in &report.differing {
            writeln!(out, "{place}: {} {count}", how.into_str())?;
        }
        for example in &report.examples {
            writeln!(out, "  {}: {} {} {}", example.place, example.how.into_str(), example.view, example.key)?;
        }
        if report.is_partial {
            writeln!(out, "so much differs that not everything was compared")?;
        }
        self.grants.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        match report.differing.values().sum::<u64>() + self.grants.len() as u64 {
            0 if !self.has_compared() => {
                writeln!(out, "nothing was compared: there is no record of which these views are made")
            }
            0 if report.is_clean() => writeln!(out, "nothing differs in what was compared"),
            1 => writeln!(out, "1 difference"),
            count => writeln!(out, "{count} differences"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(verified: &VerifyOutcome) -> String {
        let mut out = Vec::new();
        verified.write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn of(views: u64, buckets: u64, compared: &[&str]) -> VerifyOutcome {
        let report = VerifyReport { views, buckets, ..VerifyReport::default() };
        let compared = compared.iter().map(|name| (*name).to_owned()).collect();
        VerifyOutcome { report, compared, ..VerifyOutcome::default() }
    }

    #[test]
    fn incomplete_comparison_is_no_success() {
        let home = of(3, 0, &[]);
        assert!(home.is_clean() && written(&home).contains("not compared: any region"), "{}", written(&home));
        let nothing = of(0, 0, &[]);
        assert!(!nothing.is_clean() && !written(&nothing).contains("nothing differs"), "{}", written(&nothing));
        let all = of(3, 512, &["eu-west-1", "us-east-1"]);
        let reported = written(&all);
        assert!(all.is_clean() && reported.contains("the copies in eu-west-1, us-east-1\n"), "{reported}");
        assert!(
            !reported.contains("not compared") && reported.ends_with("nothing differs in what was compared\n"),
            "{reported}"
        );
        let grants = vec!["grants: eu-west-1 has none, the record version 7".to_owned()];
        let ungranted = VerifyOutcome { grants, ..all.clone() };
        assert!(!ungranted.is_clean() && written(&ungranted).ends_with("version 7\n1 difference\n"));
        let skipped = VerifyOutcome { skipped: vec!["mars".to_owned()], ..home };
        assert!(written(&skipped).contains("not compared: mars, which takes none"), "{}", written(&skipped));
    }
}
