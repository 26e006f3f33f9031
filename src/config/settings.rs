//! The schema: every setting, with its section, kind, range, default and one line about it.
//! [`super::read`], [`super::variables`] and [`super::effective`] follow it, and
//! `docs/configuration.md` is checked against it. The settings of the services are in [`services`].
//!
//! A setting that is not here does not exist, and every default here is accepted by its own kind.

use std::time::Duration;

use crate::config::limits;

mod described;
mod section;

pub(in crate::config) use described::PREFIX;
pub(crate) use section::Addressed;
pub(crate) use section::Section;

/// What the file of one program may say.
#[derive(Debug)]
pub(in crate::config) struct Schema {
    /// Who reads it.
    pub program: &'static str,
    /// In the order in which they are documented and printed.
    pub sections: &'static [Section],
    /// What `AWS_ENDPOINT_URL` stands for where it is not written.
    pub aws_endpoint: &'static Setting,
}

pub(in crate::config) static SIDECAR: Schema =
    Schema { program: "nearside run", sections: &Section::OF_SIDECARS, aws_endpoint: &ANNOUNCEMENTS_ENDPOINT_URL };

pub(in crate::config) static SERVICES: Schema = Schema {
    program: "nearside catalogue, views and region",
    sections: &Section::OF_SERVICES,
    aws_endpoint: &services::ENGINE_ENDPOINT_URL,
};

impl Schema {
    /// Every setting, in the order in which they are documented and printed.
    pub(crate) fn settings(&self) -> impl Iterator<Item = &'static Setting> {
        self.sections.iter().copied().flat_map(of)
    }
}

/// What a setting takes. Ranges include both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingKind {
    Text,
    RegionName,
    /// `true` or `false`.
    Flag,
    /// A whole number.
    Count(u64, u64),
    /// A number with a unit of time.
    Duration(Duration, Duration),
    /// A number with a unit of bytes.
    Size(u64, u64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// An address with a port.
    Address,
    /// An address with a port, or `false` or `""` for none.
    AddressOrNone,
    /// A base URL, `http` or `https`.
    Url,
    /// The ARN of an SNS topic.
    Topic,
    /// What a record type or a view may be called.
    Name,
    Names,
    File,
    /// Permission bits, octal.
    Mode,
    Uids,
    Header,
    Headers,
    /// Names of headers, or `prefix-*`.
    HeaderPatterns,
    /// Host names without a port.
    Hosts,
    /// AWS tags, each `name=value`.
    Tags,
    /// A KMS key, by its alias or id.
    KmsKey,
    /// A path with `{named}` segments.
    Path,
    /// `type:key` templates.
    Records,
    /// What `tracing` logs: `info`, `nearside=debug`.
    Filter,
    /// A file with descriptors and a message in it: `contexts.binpb#acme.v1.Context`.
    Message,
    /// What a query parameter is called.
    Parameter,
    /// A number from 0 to 1.
    Share,
    /// A base URL in which `{region}` stands for the region's name.
    UrlPerRegion,
    /// A SHA-256 hash in hexadecimal digits.
    Hash,
}

/// The value of a setting that is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresetValue {
    Required,
    /// This value, written as in a variable; `""` is none.
    Is(&'static str),
    /// The value of this other setting.
    Like(&'static Setting),
}

/// When a new value takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    Live,
    /// Only with a restart: applying it would cost the cache, the subscriptions or the listeners.
    Restart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    pub section: Section,
    pub key: &'static str,
    pub kind: SettingKind,
    pub preset: PresetValue,
    /// What it does, in one line.
    pub about: &'static str,
    /// When a new value takes effect.
    pub reload: Reload,
}

/// Writes the schema as a table: a constant for each setting, and [`ALL`] of them in order. A
/// setting without `Restart` takes effect with a reload.
macro_rules! settings {
    ($($name:ident = $section:ident $key:literal $kind:expr, $preset:expr, $about:literal $(, $reload:ident)?;)*) => {
        $(
            #[doc = $about]
            pub(crate) const $name: Setting = Setting {
                section: Section::$section,
                key: $key,
                kind: $kind,
                preset: $preset,
                about: $about,
                reload: reload!($($reload)?),
            };
        )*
        /// Every setting of this table, in order.
        pub(crate) const ALL: &[Setting] = &[$($name),*];
    };
}

macro_rules! reload {
    () => {
        Reload::Live
    };
    ($reload:ident) => {
        Reload::$reload
    };
}

pub(crate) mod services;

use PresetValue::{Is, Like, Required};
use SettingKind::{
    Address, AddressOrNone, Count, File, Filter, Flag, Hash, Header, HeaderPatterns, Headers, Hosts, KmsKey, Message,
    Mode, Parameter, Path, Records, RegionName, Share, Size, Tags, Text, Topic, Uids, Url, UrlPerRegion, Word,
};

const fn millis(from: u64, to: u64) -> SettingKind {
    SettingKind::Duration(Duration::from_millis(from), Duration::from_millis(to))
}

const fn seconds(from: u64, to: u64) -> SettingKind {
    SettingKind::Duration(Duration::from_secs(from), Duration::from_secs(to))
}

const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;
const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

settings! {
    SERVICE_NAME = Service "name" Text, Is("service"),
        "What logs and metrics call the service.", Restart;
    VERSION_HEADER = Service "version_header" Header, Is("x-record-version"),
        "The header in which replies state their records' versions.", Restart;

    REGION_NAME = Region "name" RegionName, Required,
        "What labels, `Cache-Status` and logs call the region.", Restart;
    REGION_URL = Region "url" Url, Required,
        "Where the region answers: scheme, host, port and perhaps a path prefix.";
    REGION_TOPIC = Region "topic" Topic, Is(""),
        "The SNS topic on which the region announces its changes; none when it announces nothing.", Restart;

    TLS_CA_FILE = Tls "ca_file" File, Is(""),
        "A PEM file with the CA certificates that are trusted for this region instead of the platform's.";
    TLS_CLIENT_CERT = Tls "client_cert" File, Is(""),
        "A PEM file with the certificate that the sidecar shows this region, and what it was issued by.";
    TLS_CLIENT_KEY = Tls "client_key" File, Is(""),
        "A PEM file with that certificate's private key.";

    ROUTE_PATH = Route "path" Path, Required,
        "The path, with `{named}` segments; the first route that matches is taken.";
    ROUTE_RECORDS = Route "records" Records, Required,
        "The records that a matching path shows, each `type:key`, the key made of named segments.";
    ROUTE_IDENTITY = Route "identity" Word(&["exact", "sidecar"]), Is("exact"),
        "Whose reply it is: the caller's own (`exact`), or anyone's, asked for with `credentials` (`sidecar`).";
    ROUTE_IDENTITY_HEADERS = Route "identity_headers" Headers, Is("authorization,cookie"),
        "With `exact`: the headers that tell callers apart; they go to the regions.";
    ROUTE_FORWARD = Route "forward" Headers, Is(""),
        "Further headers of the caller that go to the regions; each value is cached apart.";
    ROUTE_IGNORE = Route "ignore" HeaderPatterns, Is(""),
        "Headers of callers that change no answer, `prefix-*` for all that begin so: regions get them only with what is passed on whole.";
    ROUTE_TTL = Route "ttl" seconds(1, 30 * DAY), Like(&CACHE_TTL),
        "How long a confirmed reply is kept, whatever max-age it states.";
    ROUTE_STORE_NO_STORE = Route "store_no_store" Flag, Is("false"),
        "Keep replies marked `no-store` all the same.";
    ROUTE_SCHEMA = Route "schema" Message, Is(""),
        "The Protobuf message that a reply is: a file with a FileDescriptorSet, `#`, and the message's full name.";
    ROUTE_FORM = Route "form" Word(&["json", "protobuf"]), Is("json"),
        "With `schema`: the form that regions are asked for; callers of the other get it derived.";
    ROUTE_NAMES = Route "names" Word(&["camel", "proto"]), Is("camel"),
        "With `schema`: how derived JSON names fields, as Protobuf's JSON does (`camel`) or as the schema does (`proto`).";
    ROUTE_PRINT_DEFAULTS = Route "print_defaults" Flag, Is("false"),
        "With `schema`: derived JSON has fields without presence that have their default.";
    ROUTE_STRICT_ACCEPT = Route "strict_accept" Flag, Is("false"),
        "With `schema`: answer 406 to an `Accept` that names neither JSON nor Protobuf, instead of passing it on.";
    ROUTE_FIELDS = Route "fields" Parameter, Is(""),
        "The query parameter in which callers name the fields that they want; none leaves every parameter to the regions.";
    ROUTE_BATCH = Route "batch" Path, Is(""),
        "A path of the sidecar's own to which callers POST many keys at once: it names what `path` names but one.";
    ROUTE_UPSTREAM_BATCH = Route "upstream_batch" Path, Is(""),
        "The path at which every region takes the same POST; without it regions are asked for one key at a time.";
    ROUTE_COMPRESSION = Route "compression" Word(&["off", "gzip", "zstd"]), Is("off"),
        "What regions are asked to compress their replies with, `zstd` meaning zstd or else gzip; callers get them decompressed.";

    CREDENTIALS_FILE = Credentials "file" File, Required,
        "With `sidecar`: the file that holds what is sent, read again when it changes.";
    CREDENTIALS_HEADER = Credentials "header" Header, Is("authorization"),
        "With `sidecar`: the header it is sent in.";
    CREDENTIALS_PREFIX = Credentials "prefix" Text, Is(""),
        "With `sidecar`: what is put before it, such as `Bearer ` with its space.";

    SECOND_PATH = Second "path" Path, Is(""),
        "The second way's path, with the same `{named}` segments; none means the route's own.";
    SECOND_FORM = Second "form" Word(&["json", "protobuf"]), Is(""),
        "With `schema`: the form that the second way is asked for; none means the route's own.";
    SECOND_URL = Second "url" UrlPerRegion, Is(""),
        "Where another service answers, `{region}` standing for the region's name; none means the regions' own URLs.";
    SECOND_VERSIONS = Second "versions" Word(&["same", "own"]), Is("same"),
        "Whether the second way states the same versions as the first and the announcements, or numbers of its `own`.";
    SECOND_CREDENTIALS_FILE = Second "credentials_file" File, Is(""),
        "With `sidecar`: what the second way is sent instead, under the same header and prefix.";
    SECOND_WAY = Second "way" Word(&["old", "check", "new"]), Is("old"),
        "Who answers: the first (`old`), the first while a share is compared with the second (`check`), or the second (`new`).";
    SECOND_CHECK_SHARE = Second "check_share" Share, Is("0.01"),
        "With `check`: the share of stored fills that are compared with the second way.";
    SECOND_NEW_SHARE = Second "new_share" Share, Is("1"),
        "With `new`: the share of records that the second way answers, always the same ones; the first answers the rest.";

    DICTIONARY_FILE = Dictionary "file" File, Required,
        "With `zstd`, and every region over https: a compression dictionary that the regions have too, 1 MiB at most.";
    DICTIONARY_HASH = Dictionary "hash" Hash, Required,
        "The SHA-256 hash of that file, by which regions know it.";

    LISTEN_TCP = Listen "tcp" AddressOrNone, Is("127.0.0.1:8700"),
        "Where applications connect; port 0 picks a free one, `false` listens on no port.", Restart;
    LISTEN_UNIX = Listen "unix" File, Is(""),
        "A Unix socket where applications connect.", Restart;
    LISTEN_UNIX_MODE = Listen "unix_mode" Mode, Is("0600"),
        "The socket's permission bits, octal.", Restart;
    LISTEN_UNIX_UIDS = Listen "unix_uids" Uids, Is(""),
        "User ids that may connect to the socket; none means Nearside's own only.", Restart;
    LISTEN_ALLOWED_HOSTS = Listen "allowed_hosts" Hosts, Is(""),
        "Hosts accepted in `Host` besides loopback names and addresses.";
    LISTEN_REFUSE_FORWARDED = Listen "refuse_forwarded" Flag, Is("false"),
        "Refuse requests that a proxy passed on (`X-Forwarded-For`, `Forwarded`).";
    LISTEN_ALLOW_CROSS_SITE = Listen "allow_cross_site" Flag, Is("false"),
        "Serve requests that a browser made for a page of another site (`Sec-Fetch-Site`), on the admin port too.";
    LISTEN_TOKEN_FILE = Listen "token_file" File, Is(""),
        "A file whose content callers must send in `x-nearside-token`.";
    LISTEN_MAX_CONNECTIONS = Listen "max_connections" Count(1, limits::CONNECTIONS_AT_MOST as u64), Is("4096"),
        "Connections open at once.";
    LISTEN_FAST = Listen "fast" Flag, Is("true"),
        "Answer plain HTTP/1.1 requests before hyper reads them; without, every request is hyper's, at more CPU.";
    LISTEN_ALLOW_NON_LOOPBACK = Listen "allow_non_loopback" Flag, Is("false"),
        "Let `listen.tcp` be an address that other machines reach.";

    ADMIN_LISTEN = Admin "listen" Address, Is("127.0.0.1:8701"),
        "Where `/livez`, `/readyz`, `/status` and `/metrics` are served; port 0 picks a free one.", Restart;
    ADMIN_ALLOW_NON_LOOPBACK = Admin "allow_non_loopback" Flag, Is("false"),
        "Let `admin.listen` be an address that other machines reach, as a kubelet's probe needs.";
    ADMIN_UNIX = Admin "unix" File, Is(""),
        "A Unix socket for operators: the pages, and the acts of `nearside ctl`; none keeps the acts closed.";
    ADMIN_UNIX_MODE = Admin "unix_mode" Mode, Is("0600"),
        "The operators' socket's permission bits, octal.";
    ADMIN_UNIX_UIDS = Admin "unix_uids" Uids, Is(""),
        "User ids that may use the operators' socket; none means Nearside's own only.";
    ADMIN_TOKEN_FILE = Admin "token_file" File, Is(""),
        "A file whose content opens the acts on `admin.listen`, sent as `Authorization: Bearer`; none keeps them closed there.";

    CACHE_TTL = Cache "ttl" seconds(1, 30 * DAY), Is("1h"),
        "How long a confirmed reply is kept where a route does not say.";
    CACHE_NEGATIVE_TTL = Cache "negative_ttl" seconds(0, 30), Is("30s"),
        "How long an absence (404, 410) is kept.";
    CACHE_SOFT_TTL = Cache "soft_ttl" seconds(0, HOUR), Is("30s"),
        "How long a reply is kept while nothing proves that announcements arrive.";
    CACHE_MAX_BYTES = Cache "max_bytes" Size(MIB, TIB), Is(""),
        "How much memory the cache may take; by default half of the cgroup's limit, or a sixteenth of the machine's memory.";
    CACHE_UNROUTED = Cache "unrouted" Word(&["pass", "cache"]), Is("pass"),
        "Paths that no route names: passed to one region and never stored, or shared by all callers as RFC 9111 allows.";
    CACHE_STALE_IF_ERROR = Cache "stale_if_error" seconds(0, 30 * DAY), Is("24h"),
        "How long past its time a reply may be served, labelled, while every region fails.";

    RACE_MODE = Race "mode" Word(&["all", "pair", "hedge"]), Is("all"),
        "Who is asked: every region, the primary and one other, or the primary and later the others.";
    RACE_DEADLINE = Race "deadline" millis(10, 60_000), Is("2s"),
        "How long a caller waits at most for the regions.";
    RACE_PRIMARY = Race "primary" Text, Is(""),
        "The name of the region asked first in `pair` and `hedge`; none means the first.";
    RACE_PERMITS = Race "permits" Count(1, limits::PERMITS_PER_REGION_AT_MOST as u64), Is("512"),
        "Requests under way at once to one region.";

    FRESHNESS_HEARTBEATS = Freshness "heartbeats" Word(&["auto", "required"]), Is("auto"),
        "Whether a working subscription proves anything until a region's first heartbeat (`auto`), or never.", Restart;
    FRESHNESS_WORST_LAG = Freshness "worst_lag" millis(100, HOUR * 1000), Is("60s"),
        "How far one region's ingest may lag behind another's.";
    FRESHNESS_GRACE = Freshness "grace" millis(0, 10_000), Is("0s"),
        "How long a reader may get the previous value while an announced change is fetched.";
    FRESHNESS_MAX_JUMP = Freshness "max_jump" Count(1, (1 << 62) - 1), Is("100000000000000"),
        "A version this far above a record's last is not believed; room for counters and microseconds.";
    FRESHNESS_STRICT = Freshness "strict" Flag, Is("false"),
        "Answer 504 rather than with something known to be too old.";
    FRESHNESS_AUDIT_PERIOD = Freshness "audit_period" millis(0, DAY * 1000), Is("10m"),
        "In how long each stored reply is compared with all regions once; `0s` switches the audit off.";
    FRESHNESS_STATE_FILE = Freshness "state_file" File, Is(""),
        "Where it is remembered across restarts which regions send heartbeats; none remembers nothing.", Restart;

    ANNOUNCEMENTS_TRANSPORT = Announcements "transport" Word(&["sqs", "http", "off"]), Is("sqs"),
        "How announcements arrive: through a queue of our own per topic, by posts of SNS to us, or not at all.", Restart;
    ANNOUNCEMENTS_ENDPOINT_URL = Announcements "endpoint_url" Url, Is(""),
        "Overrides every AWS endpoint, for an emulator; `AWS_ENDPOINT_URL` does too where this is not written.", Restart;
    ANNOUNCEMENTS_INSECURE_SNS_SIGNER = Announcements "insecure_sns_signer" Url, Is(""),
        "INSECURE: take signing certificates from this origin too; only with `endpoint_url`, for an emulator.", Restart;
    ANNOUNCEMENTS_QUEUE_TAGS = Announcements "queue_tags" Tags, Is(""),
        "With `sqs`: tags for the queues, such as those by which your costs are told apart.", Restart;
    ANNOUNCEMENTS_QUEUE_KMS_KEY = Announcements "queue_kms_key" KmsKey, Is(""),
        "With `sqs`: the KMS key that encrypts the queues; none means SQS's own.", Restart;
    ANNOUNCEMENTS_HTTP_LISTEN = Announcements "http_listen" AddressOrNone, Is(""),
        "With `http`: where SNS's posts arrive.", Restart;
    ANNOUNCEMENTS_HTTP_PUBLIC_URL = Announcements "http_public_url" Url, Is(""),
        "With `http`: the URL by which SNS reaches that address.", Restart;

    DRAIN_LINGER = Drain "linger" millis(0, 300_000), Is("5s"),
        "After SIGTERM everything is still answered for this long.";
    DRAIN_DEADLINE = Drain "deadline" millis(100, 300_000), Is("10s"),
        "Then requests under way end and subscriptions are removed, within this.";

    LOG_FORMAT = Log "format" Word(&["human", "json"]), Is("human"),
        "For people, or one JSON object per line.", Restart;
    LOG_FILTER = Log "filter" Filter, Is("info"),
        "What is logged: a level, or levels by module, such as `info,nearside::sidecar=debug`.";
}

/// The settings of all programs.
fn every() -> impl Iterator<Item = &'static Setting> {
    ALL.iter().chain(services::ALL)
}

/// The settings of one section, in order.
pub(super) fn of(section: Section) -> impl Iterator<Item = &'static Setting> {
    every().filter(move |setting| setting.section == section)
}

#[cfg(test)]
mod tests;
