//! Coverage-guided fuzzing: every target in one binary, driven by libFuzzer. `fuzz/README.md` says
//! how to run it.
//!
//! Before it: `fuzz/run.sh` builds it with coverage counted and names a target in `FUZZ_TARGET`.
//! After it: a finding is a panic, and a file under `target/fuzz/found`. Invariant: a target
//! asserts what its module promises, and the same bytes always do the same: no network, no clock,
//! no randomness.

#![no_main]

use std::sync::OnceLock;

mod access;
mod announcements;
mod batches;
mod caching;
mod certificates;
mod coding;
mod forms;
mod projection;
mod requests;
mod settings;

/// A target takes any bytes; whatever it does not like about them is a finding.
type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 20] = [
    ("envelope", announcements::envelope),
    ("announcement", announcements::announcement),
    ("planted", announcements::planted),
    ("certificate-url", certificates::url),
    ("certificate", certificates::certificate),
    ("signature", certificates::signature),
    ("request", requests::request),
    ("key", caching::key),
    ("policy", caching::policy),
    ("digest", caching::digest),
    ("projection", projection::projection),
    ("coding", coding::coding),
    ("reflection", forms::reflection),
    ("template", settings::template),
    ("config", settings::config),
    ("batch", batches::batch),
    ("token", access::token),
    ("jwks", access::jwks),
    ("grants", access::grants),
    ("deny", access::deny),
];

static TARGET: OnceLock<Target> = OnceLock::new();

/// The target that the environment names.
fn named() -> Target {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    found.expect("FUZZ_TARGET names a target of fuzz/main.rs").1
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| TARGET.get_or_init(named)(data));
