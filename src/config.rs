//! The settings as the program uses them: validated, typed, complete. [`read`] makes them from a
//! TOML file and `NEARSIDE__*` variables, and collects every error with its place. A `Config`
//! that exists is usable; no code behind it checks a setting again. The file of the services is in
//! [`services`], and is read in the same way.

mod access;
mod announcements;
mod arn;
mod cache;
mod candidate;
pub(crate) mod certificates;
pub(crate) mod change;
mod checks;
mod compression;
mod credentials;
pub mod effective;
pub mod error;
mod file;
mod files;
mod filter;
mod freshness;
pub(crate) mod grants_version;
mod identity;
mod ignored;
mod issuers;
pub(crate) mod limits;
mod listen;
mod loopback;
pub(crate) mod overrides;
mod payload;
mod process;
pub mod proxies;
mod race;
pub mod read;
pub(crate) mod record_floor;
mod route;
mod schema;
pub mod scope;
mod server_certificate;
mod service;
pub mod services;
mod settings;
mod sidecar;
mod table;
pub mod template;
pub(crate) mod tree;
mod value;
mod variables;

pub use access::PermitsConfig;
pub use announcements::{AnnouncementsConfig, QueuesConfig, Transport};
pub use arn::TopicArn;
pub use cache::{Cache, Unrouted};
pub use candidate::{Candidate, MigrationMode, Share, UrlPerRegion};
pub use compression::{Compression, DictionaryFile};
pub use credentials::{
    BEARER, CredentialSource, Credentials, CredentialsFile, JwtMinting, Minting, OauthMinting, Sigv4Signing,
    StsMinting,
};
pub use file::read_regular;
pub use filter::check_filter;
pub use freshness::{FreshnessConfig, Heartbeats};
pub use identity::{Claims, IdentityMode};
pub use ignored::HeaderPattern;
pub use issuers::{IssuerConfig, TrustedIssuers};
pub use listen::{Admin, Listen, UnixSocket};
pub use loopback::is_loopback;
pub use payload::{Form, MessageRef, MessageSettings, RoutePayload};
pub use process::{Drain, Log, LogFormat};
pub use race::{RaceConfig, RaceMode};
pub use route::Route;
pub use server_certificate::ServerCertificate;
pub use service::{ClientCertificate, RegionConfig, RegionTls, Service};
pub use sidecar::Config;
pub use template::{PathTemplate, RecordTemplate, Segment};
