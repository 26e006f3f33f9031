//! Routes: the paths that show records.

use std::time::Duration;

use http::HeaderName;

use super::cache::CACHE_TTL;
use super::candidate::Candidate;
use super::compression::{Compression, CompressionWord};
use super::identity::{IdentityMode, IdentityWord};
use super::ignored::HeaderPattern;
use super::payload::{Form, RoutePayload};
use super::scope::Origins;
use super::table::settings;
use super::template::{PathTemplate, RecordTemplate};
use crate::config::error::{ConfigError, ConfigProblem};

settings! {
    /// `[[service.route]]`
    #[derive(Clone, Debug)]
    pub struct Route in Route {
        /// The path, with `{named}` segments; the first route that matches is taken.
        path: PathTemplate = ROUTE_PATH(Path, Required("/-/{N}"));
        /// The records that a matching path shows, each `type:key`, the key made of named segments.
        records: Vec<RecordTemplate> = ROUTE_RECORDS(Records, Required("none:none"));
        /// Owner of its replies.
        identity: IdentityMode = IdentityMode::read[
            /// Owner of the reply: the caller (`exact`), or all: by `credentials` (`sidecar`), or permits (`granted`); or all with the same `claims` (`verified`).
            ROUTE_IDENTITY("identity", words::<IdentityWord>(), Is("exact"));
            /// With `exact`: the headers that distinguish callers; they go to the regions.
            ROUTE_IDENTITY_HEADERS("identity_headers", Headers, Is("authorization,cookie"));
            /// With `verified`: every claim that the service decides by, or `all`.
            ROUTE_CLAIMS("claims", Claims, Is(""));
        ];
        /// Further headers of the caller that go to the regions; each value is cached apart.
        forward: Vec<HeaderName> = ROUTE_FORWARD(Headers, Is(""));
        /// Headers of callers that change no answer, `prefix-*` for all that begin so: regions get them
        /// only with what is passed on whole.
        ignore: Vec<HeaderPattern> = ROUTE_IGNORE(HeaderPatterns, Is(""));
        /// Time that a confirmed reply is kept, whatever max-age it states.
        ttl: Duration = ROUTE_TTL(seconds(1, 30 * DAY), Like(&CACHE_TTL));
        /// Keep replies marked `no-store` all the same.
        store_no_store: bool = ROUTE_STORE_NO_STORE(Flag, Is("false"));
        /// Payload that its callers may ask for besides the regions' own bytes.
        payload: RoutePayload = RoutePayload::read[
            /// The Protobuf message of replies: a FileDescriptorSet's file, `#`, and its full name.
            ROUTE_SCHEMA("schema", Message, Is(""));
            /// With `schema`: the form that regions are asked for; callers of the other get it derived.
            ROUTE_FORM("form", words::<Form>(), Is("json"));
            /// The query parameter by which callers name fields; none leaves all of them to regions.
            ROUTE_FIELDS("fields", Parameter, Is(""));
        ];
        /// A path of the sidecar's to which callers POST many keys: it names what `path` names but one.
        batch: Option<PathTemplate> = ROUTE_BATCH(Path, Is(""));
        /// The path at which every region takes the same POST; without it they are asked key by key.
        upstream_batch: Option<PathTemplate> = ROUTE_UPSTREAM_BATCH(Path, Is(""));
        /// Another upstream of the same records, to move to.
        candidate: Option<Candidate> = Candidate::inner[] => (&identity, payload.message.as_ref());
        /// Coding in which regions are asked for replies.
        compression: Option<Compression> = Compression::read[
            /// Coding asked of regions, `zstd` being zstd or else gzip; callers get it decompressed.
            ROUTE_COMPRESSION("compression", words::<CompressionWord>(), Is("off"));
        ];
    }
}

impl Route {
    /// Returns whether `other` shows the same records of the same paths to the same readers, so that one
    /// may serve what the other stored.
    pub fn shows_the_same(&self, other: &Self) -> bool {
        self.path == other.path
            && self.records == other.records
            && self.identity == other.identity
            && self.forward == other.forward
            && self.store_no_store == other.store_no_store
            // By what is ignored no stored reply may vary, and by what makes requests pass on it may.
            && self.ignore == other.ignore
            && self.payload == other.payload
    }

    /// View that it shows, as nodes announce and name it: the type of its first record.
    pub fn view(&self) -> &str {
        self.records.first().map_or("", |record| record.record_type.as_str())
    }

    /// Returns whether the codings that callers accept make no difference to what is stored.
    #[inline]
    pub const fn is_stored_plain(&self) -> bool {
        self.compression.is_some() || self.payload.zstd
    }
}

impl Origins {
    /// An error in what the file of a route's `schema` holds: found when it is read, by those who
    /// know what a schema is.
    pub fn schema_error(&self, route: usize, problem: ConfigProblem) -> ConfigError {
        ConfigError::new(self.place(&ROUTE_SCHEMA, Some(route)), ROUTE_SCHEMA.path(), problem)
    }
}
