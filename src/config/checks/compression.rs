//! Compression dictionaries are used with zstd, and only where nobody can read along (RFC 9842).

use super::refuse;
use crate::config::error::quoted;
use crate::config::scope::Collector;
use crate::config::settings as schema;
use crate::config::{Compression, Service};

pub(super) fn check(ledger: &mut Collector, service: &Service) {
    let plain = service.regions.iter().find(|region| region.url.scheme() != "https");
    for (at, route) in service.routes.iter().enumerate() {
        if let (Some(Compression::Zstd(Some(_))), Some(region)) = (&route.compression, plain) {
            let what = format!("a dictionary is used over https alone, and region {} is not", quoted(&region.name));
            let instead = "write https:// in the url of every region, or remove the dictionary";
            refuse(ledger, &schema::DICTIONARY_FILE, Some(at), what, instead);
        }
    }
}

/// `dictionary` on a route whose regions are not asked for zstd.
pub(in crate::config) fn dictionary_without_zstd(ledger: &mut Collector, item: Option<usize>) {
    let what = "a dictionary is used with zstd alone".to_owned();
    refuse(ledger, &schema::DICTIONARY_FILE, item, what, "write compression = \"zstd\", or remove the dictionary");
}
