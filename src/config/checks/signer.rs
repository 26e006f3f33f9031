//! Rules of `[announcements]`: whose signatures are believed, and settings that have no effect.

use super::super::settings as schema;
use super::{Collector, refuse, warn};
use crate::config::{Config, Transport};

pub(super) fn check(ledger: &mut Collector, config: &Config) {
    let announcements = &config.announcements;
    let setting = &schema::ANNOUNCEMENTS_INSECURE_SNS_SIGNER;
    if let Some(signer) = &announcements.insecure_sns_signer {
        if announcements.endpoint_url.is_none() && !ledger.is_mistaken(&schema::ANNOUNCEMENTS_ENDPOINT_URL, None) {
            let what = "certificates of an emulator's signer while messages come from AWS".to_owned();
            let instead = "remove it, or set announcements.endpoint_url to the emulator too";
            refuse(ledger, setting, None, what, instead);
        } else if signer.path() != "/" {
            let what = "more than an origin".to_owned();
            refuse(
                ledger,
                setting,
                None,
                what,
                "write scheme, host and port only, such as \"http://127.0.0.1:4566\"",
            );
        } else {
            let text = "INSECURE: announcements signed by this origin are believed; never use it outside tests";
            warn(ledger, setting, None, text.to_owned());
        }
    }
    let emulator = announcements.endpoint_url.as_ref().filter(|_| announcements.insecure_sns_signer.is_none());
    if let Some(url) = emulator.filter(|_| announcements.transport != Transport::Off) {
        let origin = url.origin().ascii_serialization();
        let text = format!(
            "an emulator signs with certificates of its own, and what they sign is not believed: write \
             announcements.insecure_sns_signer = \"{origin}\" too (for tests only), unless AWS itself is behind this address"
        );
        warn(ledger, &schema::ANNOUNCEMENTS_ENDPOINT_URL, None, text);
    }
    if !matches!(announcements.transport, Transport::Http { .. }) {
        for setting in [&schema::ANNOUNCEMENTS_HTTP_LISTEN, &schema::ANNOUNCEMENTS_HTTP_PUBLIC_URL] {
            let incomplete = ledger.is_mistaken(&schema::ANNOUNCEMENTS_HTTP_LISTEN, None)
                || ledger.is_mistaken(&schema::ANNOUNCEMENTS_HTTP_PUBLIC_URL, None);
            if ledger.origins.is_changed(setting, None) && !incomplete {
                warn(ledger, setting, None, format!("{} has no effect without transport = \"http\"", setting.path()));
            }
        }
    }
}
