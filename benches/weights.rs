//! Weight of a million entries with what is derived of them: filled, read in other forms and by
//! their fields, replaced and evicted. After each step every entry is weighed anew: what the store
//! reckons has to be the same, and what the process takes about as much.
//!
//! `NEARSIDE_ENTRIES=N` takes another number of records. A million take 5 GiB.

use std::alloc::System;

use cap::Cap;

mod churned;
mod live_sidecar;
use churned::Churned;

#[global_allocator]
static COUNTED: Cap<System> = Cap::new(System, usize::MAX);

/// Resident memory that is the process's own, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("RssAnon")).expect("it says");
    let kib = line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok());
    kib.expect("a number") * 1024
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[allow(clippy::print_stdout, reason = "what it is for")]
async fn run(records: usize) {
    let churned = Churned::of(records, 16 << 30).await;
    let store = &churned.sidecar.fill.shared.store;
    let before = (COUNTED.allocated() as u64, resident());
    println!(
        "{:<32} {:>9} {:>9} {:>7} {:>8} {:>9} {:>7}",
        "MiB", "entries", "derived", "of them", "weighed", "by count", "by RSS"
    );
    let reported = |step: &str| {
        let counted = churned.recount();
        println!(
            "{step:<32} {:>9} {:>9} {:>7.0} {:>8.0} {:>9.0} {:>7.0}",
            counted.entries,
            counted.derived,
            mib(counted.derived_weight),
            mib(store.bytes()),
            mib(COUNTED.allocated() as u64 - before.0),
            mib(resident().saturating_sub(before.1)),
        );
    };
    churned.read(0..records).await;
    reported("read");
    churned.derive(0..records).await;
    reported("derived");
    churned.replace((0..records).step_by(3), false).await;
    reported("a third again, the same bytes");
    churned.replace((0..records).step_by(5), true).await;
    reported("a fifth again, other bytes");
    churned.derive((0..records).step_by(5)).await;
    reported("these derived again");
    store.resize(store.bytes() / 2).await;
    reported("half the capacity");
    churned.read(0..records).await;
    churned.derive(0..records).await;
    reported("all once more");
}

fn main() {
    let records = std::env::var("NEARSIDE_ENTRIES").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(run(records));
}
