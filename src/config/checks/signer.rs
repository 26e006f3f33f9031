//! Rules of `[announcements]`: whose signatures are believed, and settings that have no effect.

use super::super::schema;
use crate::config::scope::Collector;
use crate::config::{Config, Transport};

pub(super) fn check(collector: &mut Collector, config: &Config) {
    let announcements = &config.announcements;
    let setting = &schema::ANNOUNCEMENTS_INSECURE_SNS_SIGNER;
    if let Some(signer) = &announcements.insecure_sns_signer {
        if announcements.endpoint_url.is_none() && !collector.has_error(&schema::ANNOUNCEMENTS_ENDPOINT_URL, None) {
            let what = "certificates of an emulator's signer while messages come from AWS".to_owned();
            let suggestion = "remove it, or set announcements.endpoint_url to the emulator too";
            collector.refuse(setting, None, what, suggestion);
        } else if signer.path() != "/" {
            let what = "more than an origin".to_owned();
            collector.refuse(
                setting,
                None,
                what,
                "write scheme, host and port only, such as \"http://127.0.0.1:4566\"",
            );
        } else {
            let text = "INSECURE: announcements signed by this origin are believed; never use it outside tests";
            collector.warn_of(setting, None, text.to_owned());
        }
    }
    let emulator = announcements.endpoint_url.as_ref().filter(|_| announcements.insecure_sns_signer.is_none());
    if let Some(url) = emulator.filter(|_| announcements.transport != Transport::Off) {
        let origin = url.origin().ascii_serialization();
        let text = format!(
            "an emulator signs with certificates of its own, and what they sign is not believed: write \
             announcements.insecure_sns_signer = \"{origin}\" too (for tests only), unless AWS itself is behind this address"
        );
        collector.warn_of(&schema::ANNOUNCEMENTS_ENDPOINT_URL, None, text);
    }
    if !matches!(announcements.transport, Transport::Http { .. }) {
        for setting in [&schema::ANNOUNCEMENTS_HTTP_LISTEN, &schema::ANNOUNCEMENTS_HTTP_PUBLIC_URL] {
            let incomplete = collector.has_error(&schema::ANNOUNCEMENTS_HTTP_LISTEN, None)
                || collector.has_error(&schema::ANNOUNCEMENTS_HTTP_PUBLIC_URL, None);
            if collector.origins.is_changed(setting, None) && !incomplete {
                collector.warn_of(
                    setting,
                    None,
                    format!("{} has no effect without transport = \"http\"", setting.path()),
                );
            }
        }
    }
}
