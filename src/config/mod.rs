//! The settings as the program uses them: validated, typed, complete. [`read`] makes them from a
//! TOML file and `NEARSIDE__*` variables, and collects every mistake with its place. A `Config`
//! that exists is usable; no code behind it checks a setting again. The file of the services is in
//! [`services`], and is read in the same way.

mod arn;
pub(crate) mod certificates;
pub(crate) mod change;
mod checks;
pub mod effective;
pub mod error;
mod file;
mod files;
mod ignored;
pub(crate) mod limits;
pub(crate) mod overrides;
pub mod proxies;
pub mod read;
pub mod scope;
mod second;
pub mod services;
mod settings;
pub mod template;
pub(crate) mod tree;
mod value;
mod variables;

pub use file::read_regular;
pub use ignored::HeaderPattern;
pub use second::{SecondWay, Share, UrlPerRegion, Way};
pub use value::check_filter;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;
use url::Url;

/// Everything that `nearside run` needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// The one service that this process fronts.
    pub service: Service,
    /// Where applications reach the sidecar.
    pub listen: Listen,
    /// Where operators reach it.
    pub admin: Admin,
    /// What is kept, and for how long.
    pub cache: Cache,
    /// How regions are asked.
    pub race: RaceConfig,
    pub freshness: FreshnessConfig,
    /// How announcements arrive.
    pub announcements: AnnouncementsConfig,
    /// How the process stops.
    pub drain: Drain,
    pub log: Log,
}

/// `[service]`
#[derive(Clone, Debug)]
pub struct Service {
    /// For logs and metrics.
    pub name: String,
    /// 1 to 16 regions, in the order of the file; the first is the primary unless `race.primary`
    /// names another.
    pub regions: Vec<RegionConfig>,
    /// Routed paths, matched in the order of the file.
    pub routes: Vec<Route>,
    /// The header in which replies state their records' versions (`x-record-version`).
    pub version_header: HeaderName,
    /// Its only region is a table that is read consistently: whatever that says is so. A region's
    /// node says this of itself; no file can.
    pub authoritative: bool,
}

/// `[[service.region]]`
#[derive(Clone, Debug)]
pub struct RegionConfig {
    /// For labels, `Cache-Status` details and logs.
    pub name: String,
    /// Scheme, host, port and perhaps a path prefix.
    pub url: Url,
    /// `None` if it announces nothing.
    pub topic: Option<TopicArn>,
    /// Whom the sidecar trusts and what it presents over TLS.
    pub tls: RegionTls,
}

/// `tls` of a region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionTls {
    /// The CA certificates to trust; `None` trusts the platform's.
    pub ca_file: Option<PathBuf>,
    /// What the sidecar presents.
    pub client: Option<ClientCertificate>,
}

/// `tls.client_cert` and `tls.client_key` of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate and those it was issued by.
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// A checked `arn:PARTITION:sns:REGION:ACCOUNT:NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TopicArn {
    pub arn: String,
    /// `aws`, `aws-cn`, `aws-us-gov`.
    pub partition: String,
    /// `eu-west-1`
    pub region: String,
    /// Twelve digits.
    pub account: String,
    pub name: String,
}

/// `[[service.route]]`
#[derive(Clone, Debug)]
pub struct Route {
    /// `/v1/contexts/{key}/{view}`, parsed.
    pub path: PathTemplate,
    /// `context:{key}`, parsed: the records that a matching path shows, 1 to 8.
    pub records: Vec<RecordTemplate>,
    /// Whose reply it is.
    pub identity: IdentityMode,
    /// Caller headers that reach a region and join the key.
    pub forward: Vec<HeaderName>,
    /// Caller headers that reach no region and change nothing.
    pub ignore: Vec<HeaderPattern>,
    /// How long a CONFIRMED entry holds, counted from when its request was sent.
    pub ttl: Duration,
    /// Store replies even if they are marked `no-store`.
    pub store_no_store: bool,
    /// What its callers may ask for besides the regions' own bytes.
    pub payload: RoutePayload,
    /// Where callers ask for many of its paths at once: it names what `path` names but one.
    pub batch: Option<PathTemplate>,
    /// Where every region takes the same request.
    pub upstream_batch: Option<PathTemplate>,
    /// Another way to the same records, to move to.
    pub second: Option<SecondWay>,
    /// What regions are asked to compress replies with.
    pub compression: Option<Compression>,
}

impl Route {
    /// Whether `other` shows the same records of the same paths to the same readers, so that one
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

    /// Whether the codings that callers accept make no difference to what is stored.
    #[inline]
    pub const fn is_stored_plain(&self) -> bool {
        self.compression.is_some() || self.payload.zstd
    }
}

/// What a route's callers may ask for besides the regions' own bytes; nothing by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoutePayload {
    /// The message that its replies are, so that it has two forms.
    pub message: Option<MessageSettings>,
    /// The query parameter that names the fields to answer with.
    pub fields: Option<String>,
    /// Who asks for zstd gets it. A region's node says this of itself; no file can.
    pub zstd: bool,
}

impl RoutePayload {
    pub const fn is_declared(&self) -> bool {
        self.message.is_some() || self.fields.is_some() || self.zstd
    }
}

/// `schema` of a route, and what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageSettings {
    pub schema: MessageRef,
    /// What regions are asked for.
    pub form: Form,
    /// Derived JSON names fields as the schema does, not in camel case.
    pub proto_names: bool,
    /// Derived JSON has the fields without presence that have their default.
    pub print_defaults: bool,
    /// 406 to an `Accept` that names neither form.
    pub strict_accept: bool,
}

/// A message, and the file with a FileDescriptorSet that describes it: `FILE#MESSAGE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRef {
    pub file: PathBuf,
    /// With its package: `acme.v1.Context`.
    pub message: String,
}

/// One of the two ways to write a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    Json,
    Protobuf,
}

/// `compression` of a route, and its `dictionary`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compression {
    Gzip,
    /// Else gzip.
    Zstd(Option<DictionaryFile>),
}

/// `dictionary` of a route: a file, and the SHA-256 hash that it must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DictionaryFile {
    pub file: PathBuf,
    /// 64 hexadecimal digits.
    pub hash: String,
}

/// A path with named segments; parsed by [`PathTemplate::parse`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathTemplate {
    /// As written.
    pub text: String,
    /// Between the slashes.
    pub segments: Vec<Segment>,
}

/// One segment of a path template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Must match byte for byte.
    Literal(String),
    /// Any one non-empty segment, under this name.
    Named(String),
}

/// A record type and a key made of named segments and literal text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordTemplate {
    /// The record type that announcements name.
    pub record_type: String,
    /// The parts of the key, in order.
    pub key: Vec<Segment>,
}

/// Whose reply an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityMode {
    /// Private to the values of these headers, which also go to the regions.
    Exact(Vec<HeaderName>),
    /// Any caller may read; the sidecar uses credentials of its own and drops the caller's.
    Sidecar(Credentials),
}

/// A header whose value is a file's (trimmed) content, read again when the file changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// `authorization`
    pub header: HeaderName,
    /// Prepended to the file's content: `"Bearer "`.
    pub prefix: String,
    pub file: PathBuf,
}

/// `[listen]`
#[derive(Clone, Debug)]
pub struct Listen {
    /// Loopback unless `allow_non_loopback`; port 0 picks one.
    pub tcp: Option<SocketAddr>,
    pub unix: Option<UnixSocket>,
    /// Hosts accepted in `Host` and `:authority` besides loopback names and addresses.
    pub allowed_hosts: Vec<String>,
    /// Refuse requests that carry `X-Forwarded-For` or `Forwarded`.
    pub refuse_forwarded: bool,
    /// Serve requests that a browser makes for a page of another site.
    pub allow_cross_site: bool,
    /// The file with a token that callers must send in `x-nearside-token`.
    pub token_file: Option<PathBuf>,
    /// Over all listeners.
    pub max_connections: usize,
    /// Plain HTTP/1.1 requests are answered before hyper reads them.
    pub fast: bool,
}

/// `listen.unix`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixSocket {
    /// Where it is created; a stale socket there is replaced, anything else is an error.
    pub path: PathBuf,
    /// Permission bits, `0o600`.
    pub mode: u32,
    /// The uids of peers that are accepted; if empty, only the process's own.
    pub uids: Vec<u32>,
}

/// `[admin]`
#[derive(Clone, Debug)]
pub struct Admin {
    /// `127.0.0.1:8701`
    pub listen: SocketAddr,
    /// A Unix socket where operators may act.
    pub unix: Option<UnixSocket>,
    /// The file with the token that lets operators act over TCP.
    pub token_file: Option<PathBuf>,
}

/// `[cache]`
#[derive(Clone, Debug)]
pub struct Cache {
    /// The default TTL of routes: 1 h.
    pub ttl: Duration,
    /// How long an absence holds: at most 30 s (R6).
    pub negative_ttl: Duration,
    /// How long an entry holds without a lease: 30 s (R9).
    pub soft_ttl: Duration,
    /// How much memory the cache may take, bytes; if `None`, [`crate::cache::capacity`] decides.
    pub max_bytes: Option<u64>,
    /// What happens to paths that no route names.
    pub unrouted: Unrouted,
    /// How long past its time a stored reply may be served, labelled, when every region fails: 24
    /// h.
    pub stale_if_error: Duration,
}

/// What happens to paths that no route names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unrouted {
    /// Passed to one region, and not stored.
    Pass,
    /// Stored for all callers as RFC 9111 lets a shared cache.
    Cache,
}

/// `[race]`
#[derive(Clone, Debug)]
pub struct RaceConfig {
    pub mode: RaceMode,
    /// For all legs together.
    pub deadline: Duration,
    /// The region asked first in `pair` and `hedge`, by its place.
    pub primary: usize,
    /// Requests under way at once to one region.
    pub permits: usize,
}

/// Who is asked, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaceMode {
    /// Every region at once.
    All,
    /// The primary and one other, drawn at random.
    Pair,
    /// The primary; the others after its p95.
    Hedge,
}

/// `[freshness]`
#[derive(Clone, Debug)]
pub struct FreshnessConfig {
    /// Whether the weak grade of proof is accepted.
    pub heartbeats: Heartbeats,
    /// How far a region's ingest may lag behind another's (R2, R5, R15): 60 s.
    pub worst_lag: Duration,
    /// How long a reader may get the previous value while an announced refetch runs: 0.
    pub grace: Duration,
    /// A version this far above a record's last moves the generation, not the floor (R15).
    pub max_jump: u64,
    /// Answer 504 rather than with something known to be below the floor.
    pub strict: bool,
    /// Each stored reply is compared with all regions once in this time (R17): 10 min; zero
    /// switches the audit off.
    pub audit_period: Duration,
    /// Where "this region sends heartbeats" is remembered across restarts; `None` remembers
    /// nothing.
    pub state_file: Option<PathBuf>,
}

impl FreshnessConfig {
    /// The part that the protocol itself uses.
    pub fn protocol(&self) -> crate::protocol::Settings {
        crate::protocol::Settings {
            worst_lag: self.worst_lag,
            max_jump: self.max_jump,
            heartbeats_required: self.heartbeats == Heartbeats::Required,
        }
    }
}

/// Whether heartbeats are needed for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heartbeats {
    /// Weak proof counts until a region's first heartbeat.
    Auto,
    /// Only heartbeats and messages prove anything.
    Required,
}

/// `[announcements]`
#[derive(Clone, Debug)]
pub struct AnnouncementsConfig {
    /// How messages arrive.
    pub transport: Transport,
    /// Overrides every AWS endpoint, for an emulator; `AWS_ENDPOINT_URL` does the same.
    pub endpoint_url: Option<Url>,
    /// Relaxes the checks of scheme, host and chain of the signing certificate for exactly this
    /// origin. Refused unless `endpoint_url` is set too.
    pub insecure_sns_signer: Option<Url>,
    /// What our own queues are created with.
    pub queues: QueuesConfig,
}

/// What the queues of the sqs transport are created with, besides what the transport itself needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuesConfig {
    /// Name and value of each tag, for example to tell costs apart.
    pub tags: Vec<(String, String)>,
    /// The KMS key that encrypts them: an alias that each topic's region has, or a key's id. `None`
    /// uses SQS's own key.
    pub kms_key: Option<String>,
}

/// How messages arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// One queue per topic, created and removed by this process.
    Sqs,
    /// SNS posts to us.
    Http {
        listen: SocketAddr,
        /// The URL at which SNS reaches us; the region's index is appended as a path segment.
        public_url: Url,
    },
    /// No announcements: soft TTLs only.
    Off,
}

/// `[drain]`
#[derive(Clone, Copy, Debug)]
pub struct Drain {
    /// After SIGTERM everything is still answered for this long.
    pub linger: Duration,
    /// Then fills must end and subscriptions be removed within this.
    pub deadline: Duration,
}

/// `[log]`
#[derive(Clone, Debug)]
pub struct Log {
    /// One JSON object per line; otherwise text for people.
    pub json: bool,
    /// An env-filter: `info`, `nearside=debug`.
    pub filter: String,
}

/// Whether a URL stays on this machine.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    }
}
