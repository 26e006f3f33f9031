//! Signatures of AWS: a region of AWS's for each region, in the header that AWS reads.

use http::header::AUTHORIZATION;

use crate::config::error::quoted;
use crate::config::schema::{CREDENTIALS_AWS_REGIONS, CREDENTIALS_HEADER};
use crate::config::scope::Collector;
use crate::config::{CredentialSource, IdentityMode, Minting, Service};

pub(super) fn check(collector: &mut Collector, service: &Service) {
    for (at, route) in service.routes.iter().enumerate() {
        let IdentityMode::Sidecar(own) = &route.identity else { continue };
        let CredentialSource::Minted(Minting::Sigv4(signing)) = &own.source else { continue };
        let setting = &CREDENTIALS_AWS_REGIONS;
        let (written, regions) = (signing.written.len(), service.regions.len());
        let suggestion = "write `aws_regions = [..]`: the AWS region of each region, in their order, or one for all";
        if written > 1 && written != regions {
            let what = format!("{written} AWS regions for {regions} regions");
            collector.refuse(setting, Some(at), what, suggestion);
        } else if let Some(other) = signing.regions.values().find(|name| !is_of_aws(name)) {
            collector.refuse(setting, Some(at), format!("{} is no region of AWS", quoted(other)), suggestion);
        }
        if own.header != AUTHORIZATION {
            let what = "AWS reads signatures in `authorization` alone".to_owned();
            collector.refuse(&CREDENTIALS_HEADER, Some(at), what, "remove it");
        }
    }
}

/// Returns whether it looks like one: `eu-west-1`, `us-gov-east-1`.
fn is_of_aws(name: &str) -> bool {
    let parts: Vec<&str> = name.split('-').collect();
    let [words @ .., number] = &parts[..] else { return false };
    words.len() >= 2 && words.iter().all(|word| is_word(word)) && number.parse::<u8>().is_ok()
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase())
}
