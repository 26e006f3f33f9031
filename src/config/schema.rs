//! The schemas of the two files, and every setting of a sidecar by its name. A setting that is in no
//! schema does not exist. [`super::read`], [`super::variables`] and [`super::effective`] follow
//! them, and `docs/configuration.md` and `docs/service-configuration.md` are checked against them.

pub(crate) use super::access::*;
pub(crate) use super::announcements::*;
pub(crate) use super::cache::*;
pub(crate) use super::candidate::*;
pub(crate) use super::compression::*;
pub(crate) use super::credentials::*;
pub(crate) use super::freshness::*;
pub(crate) use super::issuers::*;
pub(crate) use super::listen::*;
pub(crate) use super::process::*;
pub(crate) use super::race::*;
pub(crate) use super::route::*;
pub(crate) use super::service::*;
use super::services::access::{AccessConfig, AdminConfig};
use super::services::config::{
    CatalogueConfig, ENGINE_ENDPOINT_URL, EngineSettings, RecordTypeConfig, ServedRegion, ViewsConfig,
};
use super::services::tls::{CatalogueTls, ServedRegionTls, ViewsTls};
use super::settings::Schema;
use super::table::{rows, unwritten};

pub(in crate::config) static SIDECAR: Schema = Schema {
    program: "nearside run",
    sections: &[
        rows::<Service>(),
        rows::<RegionConfig>(),
        rows::<RegionTls>(),
        rows::<Route>(),
        rows::<Credentials>(),
        rows::<Candidate>(),
        rows::<DictionaryFile>(),
        rows::<Listen>(),
        rows::<Admin>(),
        rows::<Cache>(),
        rows::<RaceConfig>(),
        rows::<FreshnessConfig>(),
        rows::<PermitsConfig>(),
        rows::<IssuerConfig>(),
        rows::<AnnouncementsConfig>(),
        rows::<Drain>(),
        rows::<Log>(),
    ],
    aws_endpoint: &ANNOUNCEMENTS_ENDPOINT_URL,
    other: &SERVICES,
};

pub(in crate::config) static SERVICES: Schema = Schema {
    program: "nearside catalogue, views and region",
    sections: &[
        rows::<EngineSettings>(),
        rows::<CatalogueConfig>(),
        rows::<CatalogueTls>(),
        rows::<RecordTypeConfig>(),
        rows::<ViewsConfig>(),
        rows::<ViewsTls>(),
        rows::<ServedRegion>(),
        rows::<ServedRegionTls>(),
        rows::<AccessConfig>(),
        rows::<IssuerConfig>(),
        rows::<AdminConfig>(),
        rows::<Drain>(),
        rows::<Log>(),
    ],
    aws_endpoint: &ENGINE_ENDPOINT_URL,
    other: &SIDECAR,
};

/// Settings as they are where nothing is written, with stand-ins for what must be.
macro_rules! defaults {
    ($($name:ident),+) => { $(
        impl Default for $name {
            fn default() -> Self {
                unwritten(&SIDECAR)
            }
        }
    )+ };
}

defaults! { Service, RegionConfig, Route, Listen, Admin, Cache, RaceConfig, FreshnessConfig }
defaults! { PermitsConfig }
defaults! { AnnouncementsConfig, Drain, Log, CatalogueConfig, ViewsConfig, ServedRegion, AccessConfig }

#[cfg(test)]
mod tests;
