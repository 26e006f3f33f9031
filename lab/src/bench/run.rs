//! A run: which scenarios, in which order.

pub(crate) mod scenario;

use nearside::model::time::Clock;

use super::error::BenchError;
use super::host::{self, Host};
use super::progress::Progress;
use super::promises;
use super::result::BenchReport;
use super::session::{Bench, BenchSettings};

/// Runs the scenarios that were asked for.
pub(crate) fn run(settings: &BenchSettings, progress: &Progress) -> Result<BenchReport, BenchError> {
    let known = scenario::ALL;
    for asked in &settings.only {
        if !known.iter().any(|(name, _)| name == asked) {
            let known = known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            return Err(BenchError::Unknown { asked: asked.clone(), known });
        }
    }
    let began = Clock::System.now();
    let host = Host::new(settings.nearside.clone())?;
    let mut report =
        BenchReport { began: host::rfc3339_now(), machine: host.machine.clone(), ..BenchReport::default() };
    for (name, measure) in known {
        if settings.only.is_empty() || settings.only.iter().any(|only| only == name) {
            let mut bench = Bench { settings, host: &host, progress, missing: &mut report.missing };
            let began = Clock::System.now();
            let mut measured = measure(&mut bench)?;
            measured.took_s = (Clock::System.now() - began).as_secs_f64();
            progress.took(name, measured.took_s);
            report.scenarios.push(measured);
        }
    }
    report.promises = promises::judged(&report);
    report.took_s = (Clock::System.now() - began).as_secs_f64();
    Ok(report)
}
