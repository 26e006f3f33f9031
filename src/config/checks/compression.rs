//! Compression dictionaries are used with zstd, and only where nobody can read along (RFC 9842).

use crate::config::error::quoted;
use crate::config::schema;
use crate::config::scope::Collector;
use crate::config::{Compression, Service};

pub(super) fn check(collector: &mut Collector, service: &Service) {
    let plain = service.regions.iter().find(|region| region.url.scheme() != "https");
    for (at, route) in service.routes.iter().enumerate() {
        if let (Some(Compression::Zstd(Some(_))), Some(region)) = (&route.compression, plain) {
            let what = format!("a dictionary is used over https alone, and region {} is not", quoted(&region.name));
            let suggestion = "write https:// in the url of every region, or remove the dictionary";
            collector.refuse(&schema::DICTIONARY_FILE, Some(at), what, suggestion);
        }
        let is_zstd = matches!(route.compression, Some(Compression::Zstd(_)));
        if !is_zstd && collector.origins.is_written(&schema::DICTIONARY_FILE, Some(at)) {
            let what = "a dictionary is used with zstd alone".to_owned();
            let suggestion = "write compression = \"zstd\", or remove the dictionary";
            collector.refuse(&schema::DICTIONARY_FILE, Some(at), what, suggestion);
        }
    }
}
