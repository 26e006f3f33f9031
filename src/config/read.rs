//! From a file and the environment to a [`Config`]: each setting is read by the schema, then
//! [`super::checks`] looks at them together.
//!
//! All mistakes are reported at once, each with its place, and no text, however broken, makes this
//! panic.

use std::io::Read as _;
use std::path::Path;

use url::Url;

use super::scope::{Collector, Origins, SettingScope};
use super::settings::{self as schema, Schema, Section};
use super::tree::{self, Raw, Syntax, TomlTable, Value};
use super::{
    AnnouncementsConfig, Cache, Config, Credentials, Drain, FreshnessConfig, Heartbeats, IdentityMode, Listen, Log,
    PathTemplate, QueuesConfig, RaceConfig, RaceMode, RegionConfig, Route, Service, Transport, UnixSocket, Unrouted,
    checks, files, value, variables,
};
use crate::config::error::{ConfigError, ConfigProblem, Place};
use crate::config::limits;

mod admin;
mod compression;
mod payload;
mod second;
mod tls;

pub use admin::admin_alone;

/// Reads the file (`None`: the environment alone), lays the environment's variables over it, and
/// checks everything, including the files that it names.
///
/// # Errors
/// Every mistake, in the order of the file and then of the variables.
pub fn load(
    path: Option<&Path>,
    env: impl Iterator<Item = (String, String)>,
) -> Result<(Config, Origins), Vec<ConfigError>> {
    loaded(&schema::SIDECAR, path, env, |ledger, root| {
        let config = checked(ledger, root);
        files::check(ledger, &config);
        config
    })
}

/// Like [`load`], but without looking at the files that the settings name: for places that do not
/// have the sidecar's secrets, such as a pipeline or a scheduled janitor.
///
/// # Errors
/// Every mistake, in the order of the file and then of the variables.
pub fn load_without_files(
    path: Option<&Path>,
    env: impl Iterator<Item = (String, String)>,
) -> Result<(Config, Origins), Vec<ConfigError>> {
    loaded(&schema::SIDECAR, path, env, checked)
}

/// Reads file and environment by `schema`; `config` makes of them what the program uses.
pub(super) fn loaded<C>(
    schema: &'static Schema,
    path: Option<&Path>,
    env: impl Iterator<Item = (String, String)>,
    config: impl FnOnce(&mut Collector, &TomlTable) -> C,
) -> Result<(C, Origins), Vec<ConfigError>> {
    let (mut root, syntax) = match path {
        Some(path) => {
            let text = file_text(path).map_err(|mistake| vec![mistake])?;
            tree::parse(&path.display().to_string(), &text)
        }
        None => (variables::nowhere(), Syntax::default()),
    };
    let (mistakes, warnings) = variables::overlay(schema, &mut root, env);
    let mut ledger = Collector::new(schema, root.place.clone());
    ledger.mistakes = mistakes;
    ledger.origins.warnings = warnings;
    finish(ledger, &root, syntax, config)
}

/// Reads a text without the environment, and without looking at the files that it names.
///
/// # Errors
/// Every mistake, in the order of the text.
pub fn from_toml(text: &str) -> Result<Config, Vec<ConfigError>> {
    from_toml_with_origins(text).map(|(config, _)| config)
}

/// Like [`from_toml`], and also returns where each setting came from.
///
/// # Errors
/// Every mistake, in the order of the text.
pub fn from_toml_with_origins(text: &str) -> Result<(Config, Origins), Vec<ConfigError>> {
    let (root, syntax) = tree::parse("nearside.toml", text);
    finish(Collector::new(&schema::SIDECAR, root.place.clone()), &root, syntax, checked)
}

/// The configuration, or every mistake in it.
fn finish<C>(
    mut ledger: Collector,
    root: &TomlTable,
    syntax: Syntax,
    config: impl FnOnce(&mut Collector, &TomlTable) -> C,
) -> Result<(C, Origins), Vec<ConfigError>> {
    ledger.check_sections(root);
    let config = config(&mut ledger, root);
    let Collector { mut origins, mut mistakes, .. } = ledger;
    if !syntax.mistakes.is_empty() {
        // A value that TOML could not read is reported already, and so is all that may have gone
        // missing with it.
        let told = |place: &Place| syntax.mistakes.iter().any(|told| same_line(&told.place, place));
        mistakes.retain(|mistake| !syntax.lost && !told(&mistake.place));
    }
    mistakes.extend(syntax.mistakes);
    mistakes.sort();
    mistakes.dedup();
    origins.warnings.sort();
    origins.settings.sort_by_key(|known| (known.home(), known.item, known.setting.rank()));
    if mistakes.is_empty() { Ok((config, origins)) } else { Err(mistakes) }
}

fn same_line(told: &Place, place: &Place) -> bool {
    match (told, place) {
        (Place::At { line: told, .. }, Place::At { line, .. }) => told == line,
        _ => false,
    }
}

/// The text of the file, within [`limits::CONFIG_BYTES`].
fn file_text(path: &Path) -> Result<String, ConfigError> {
    let name: std::sync::Arc<str> = path.display().to_string().into();
    let mistake = |wrong| ConfigError::new(Place::File(name.clone()), "", wrong);
    let mut bytes = Vec::new();
    crate::config::file::open(path)
        .and_then(|file| file.take(limits::CONFIG_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| {
            mistake(ConfigProblem::new(format!("cannot be read: {error}"), "name a configuration file with --config"))
        })?;
    if bytes.len() as u64 > limits::CONFIG_BYTES {
        let most = bytesize::ByteSize(limits::CONFIG_BYTES);
        return Err(mistake(ConfigProblem::new(
            format!("larger than {most}"),
            "name a configuration file with --config",
        )));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
        let last = valid.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        let column = String::from_utf8_lossy(last).chars().count() + 1;
        let place = Place::At { file: name.clone(), line, column };
        ConfigError::new(place, "", ConfigProblem::new("not UTF-8", "save the file as UTF-8"))
    })
}

/// The settings, each by itself and then together.
fn checked(ledger: &mut Collector, root: &TomlTable) -> Config {
    let config = config(ledger, root);
    checks::check(ledger, &config);
    config
}

fn config(ledger: &mut Collector, root: &TomlTable) -> Config {
    let cache = cache(ledger, root);
    let service = service(ledger, root);
    let race = race(ledger, root, &service.regions);
    Config {
        service,
        listen: listen(ledger, root),
        admin: admin::read(ledger, root),
        cache,
        race,
        freshness: freshness(ledger, root),
        announcements: announcements(ledger, root),
        drain: drain(ledger, root),
        log: log(ledger, root),
    }
}

fn service(ledger: &mut Collector, root: &TomlTable) -> Service {
    let scope = ledger.table(root, Section::Service, "service");
    let name = scope.given(ledger, &schema::SERVICE_NAME, value::text);
    let version_header = scope.given(ledger, &schema::VERSION_HEADER, value::header);
    let regions = ledger.items(&scope.table, Section::Region);
    let routes = ledger.items(&scope.table, Section::Route);
    Service {
        name,
        version_header,
        authoritative: false,
        regions: regions.iter().enumerate().map(|(at, scope)| region(ledger, scope, at)).collect(),
        routes: routes.iter().enumerate().map(|(at, scope)| route(ledger, scope, at)).collect(),
    }
}

fn region(ledger: &mut Collector, scope: &SettingScope, at: usize) -> RegionConfig {
    let stand_in = || Url::parse(&format!("http://127.0.0.1:1/{at}")).expect("a URL of our own");
    RegionConfig {
        name: scope.required(ledger, &schema::REGION_NAME, value::region_name, || format!("region-{at}")),
        url: scope.required(ledger, &schema::REGION_URL, value::url, stand_in),
        topic: scope.optional(ledger, &schema::REGION_TOPIC, value::topic),
        tls: tls::read(ledger, scope),
    }
}

fn route(ledger: &mut Collector, scope: &SettingScope, at: usize) -> Route {
    let stand_in = || PathTemplate { text: format!("/-/{at}"), segments: Vec::new() };
    let path = scope.required(ledger, &schema::ROUTE_PATH, value::path, stand_in);
    let records = scope.required(ledger, &schema::ROUTE_RECORDS, value::records, Vec::new);
    let sidecar = scope.given(ledger, &schema::ROUTE_IDENTITY, value::word) == 1;
    let identity = if sidecar { sidecar_identity(ledger, scope) } else { exact_identity(ledger, scope) };
    let payload = payload::read(ledger, scope);
    let second = second::read(ledger, scope, &identity, payload.message.as_ref());
    Route {
        path,
        records,
        identity,
        forward: scope.given(ledger, &schema::ROUTE_FORWARD, value::headers),
        ignore: scope.given(ledger, &schema::ROUTE_IGNORE, value::header_patterns),
        ttl: scope.given(ledger, &schema::ROUTE_TTL, value::duration),
        store_no_store: scope.given(ledger, &schema::ROUTE_STORE_NO_STORE, value::flag),
        payload,
        batch: scope.optional(ledger, &schema::ROUTE_BATCH, value::path),
        upstream_batch: scope.optional(ledger, &schema::ROUTE_UPSTREAM_BATCH, value::path),
        second,
        compression: compression::read(ledger, scope),
    }
}

fn exact_identity(ledger: &mut Collector, scope: &SettingScope) -> IdentityMode {
    if let Some(raw) = scope.table.get("credentials") {
        let wrong = ConfigProblem::new(
            "credentials on a route whose callers send their own",
            "write identity = \"sidecar\", or remove the credentials",
        );
        ledger.mistake(&schema::CREDENTIALS_FILE, scope.item, raw.place.clone(), wrong);
    }
    IdentityMode::Exact(scope.given(ledger, &schema::ROUTE_IDENTITY_HEADERS, value::headers))
}

fn sidecar_identity(ledger: &mut Collector, scope: &SettingScope) -> IdentityMode {
    let headers = &schema::ROUTE_IDENTITY_HEADERS;
    if let Some(raw) = scope.table.get(headers.key) {
        let wrong = ConfigProblem::new(
            "identity headers on a route that asks with the sidecar's credentials",
            "remove them, or write identity = \"exact\"",
        );
        ledger.mistake(headers, scope.item, raw.place.clone(), wrong);
    }
    let table = match scope.table.get("credentials") {
        Some(Raw { value: Value::Table(table), .. }) => table.clone(),
        other => {
            let place = other.map_or(&scope.table.place, |raw| &raw.place);
            let wrong = ConfigProblem::new(
                "identity = \"sidecar\" without credentials",
                "write credentials = { file = \"/run/secrets/token\", prefix = \"Bearer \" }",
            );
            ledger.mistake(&schema::CREDENTIALS_FILE, scope.item, place.clone(), wrong);
            TomlTable::empty(place.clone())
        }
    };
    let inner = ledger.scope(table, Section::Credentials, scope.item);
    IdentityMode::Sidecar(Credentials {
        file: inner.required(ledger, &schema::CREDENTIALS_FILE, value::file, std::path::PathBuf::new),
        header: inner.given(ledger, &schema::CREDENTIALS_HEADER, value::header),
        prefix: inner.given(ledger, &schema::CREDENTIALS_PREFIX, value::text),
    })
}

fn listen(ledger: &mut Collector, root: &TomlTable) -> Listen {
    let scope = ledger.table(root, Section::Listen, "listen");
    let tcp = scope.optional(ledger, &schema::LISTEN_TCP, value::address);
    let path = scope.optional(ledger, &schema::LISTEN_UNIX, value::file);
    let mode = scope.given(ledger, &schema::LISTEN_UNIX_MODE, value::mode);
    let uids = scope.given(ledger, &schema::LISTEN_UNIX_UIDS, value::uids);
    let allow_non_loopback = scope.given(ledger, &schema::LISTEN_ALLOW_NON_LOOPBACK, value::flag);
    if let Some(address) = tcp.filter(|address| !address.ip().is_loopback() && !allow_non_loopback) {
        checks::refuse_non_loopback(ledger, &schema::LISTEN_TCP, &schema::LISTEN_ALLOW_NON_LOOPBACK, address);
    }
    Listen {
        tcp,
        unix: path.map(|path| UnixSocket { path, mode, uids }),
        allowed_hosts: scope.given(ledger, &schema::LISTEN_ALLOWED_HOSTS, value::hosts),
        refuse_forwarded: scope.given(ledger, &schema::LISTEN_REFUSE_FORWARDED, value::flag),
        allow_cross_site: scope.given(ledger, &schema::LISTEN_ALLOW_CROSS_SITE, value::flag),
        token_file: scope.optional(ledger, &schema::LISTEN_TOKEN_FILE, value::file),
        max_connections: usize_of(scope.given(ledger, &schema::LISTEN_MAX_CONNECTIONS, value::count)),
        fast: scope.given(ledger, &schema::LISTEN_FAST, value::flag),
    }
}

fn cache(ledger: &mut Collector, root: &TomlTable) -> Cache {
    let scope = ledger.table(root, Section::Cache, "cache");
    let cached = scope.given(ledger, &schema::CACHE_UNROUTED, value::word) == 1;
    Cache {
        ttl: scope.given(ledger, &schema::CACHE_TTL, value::duration),
        negative_ttl: scope.given(ledger, &schema::CACHE_NEGATIVE_TTL, value::duration),
        soft_ttl: scope.given(ledger, &schema::CACHE_SOFT_TTL, value::duration),
        max_bytes: scope.optional(ledger, &schema::CACHE_MAX_BYTES, value::size),
        unrouted: if cached { Unrouted::Cache } else { Unrouted::Pass },
        stale_if_error: scope.given(ledger, &schema::CACHE_STALE_IF_ERROR, value::duration),
    }
}

fn race(ledger: &mut Collector, root: &TomlTable, regions: &[RegionConfig]) -> RaceConfig {
    let scope = ledger.table(root, Section::Race, "race");
    let mode = match scope.given(ledger, &schema::RACE_MODE, value::word) {
        1 => RaceMode::Pair,
        2 => RaceMode::Hedge,
        _ => RaceMode::All,
    };
    let deadline = scope.given(ledger, &schema::RACE_DEADLINE, value::duration);
    let primary = scope.optional(ledger, &schema::RACE_PRIMARY, value::text);
    let permits = usize_of(scope.given(ledger, &schema::RACE_PERMITS, value::count));
    RaceConfig { mode, deadline, primary: checks::primary(ledger, regions, primary.as_deref()), permits }
}

fn freshness(ledger: &mut Collector, root: &TomlTable) -> FreshnessConfig {
    let scope = ledger.table(root, Section::Freshness, "freshness");
    let required = scope.given(ledger, &schema::FRESHNESS_HEARTBEATS, value::word) == 1;
    FreshnessConfig {
        heartbeats: if required { Heartbeats::Required } else { Heartbeats::Auto },
        worst_lag: scope.given(ledger, &schema::FRESHNESS_WORST_LAG, value::duration),
        grace: scope.given(ledger, &schema::FRESHNESS_GRACE, value::duration),
        max_jump: scope.given(ledger, &schema::FRESHNESS_MAX_JUMP, value::count),
        strict: scope.given(ledger, &schema::FRESHNESS_STRICT, value::flag),
        audit_period: scope.given(ledger, &schema::FRESHNESS_AUDIT_PERIOD, value::duration),
        state_file: scope.optional(ledger, &schema::FRESHNESS_STATE_FILE, value::file),
    }
}

fn announcements(ledger: &mut Collector, root: &TomlTable) -> AnnouncementsConfig {
    let scope = ledger.table(root, Section::Announcements, "announcements");
    let word = scope.given(ledger, &schema::ANNOUNCEMENTS_TRANSPORT, value::word);
    let endpoint_url = scope.optional(ledger, &schema::ANNOUNCEMENTS_ENDPOINT_URL, value::url);
    let signer = scope.optional(ledger, &schema::ANNOUNCEMENTS_INSECURE_SNS_SIGNER, value::url);
    let listen = scope.optional(ledger, &schema::ANNOUNCEMENTS_HTTP_LISTEN, value::address);
    let public_url = scope.optional(ledger, &schema::ANNOUNCEMENTS_HTTP_PUBLIC_URL, value::url);
    let transport = match (word, listen, public_url) {
        (1, Some(listen), Some(public_url)) => Transport::Http { listen, public_url },
        (1, listen, public_url) => {
            checks::incomplete_http(ledger, listen.is_none(), public_url.is_none());
            Transport::Off
        }
        (2, ..) => Transport::Off,
        _ => Transport::Sqs,
    };
    let queues = QueuesConfig {
        tags: scope.given(ledger, &schema::ANNOUNCEMENTS_QUEUE_TAGS, value::tags),
        kms_key: scope.optional(ledger, &schema::ANNOUNCEMENTS_QUEUE_KMS_KEY, value::kms_key),
    };
    AnnouncementsConfig { transport, endpoint_url, insecure_sns_signer: signer, queues }
}

pub(super) fn drain(ledger: &mut Collector, root: &TomlTable) -> Drain {
    let scope = ledger.table(root, Section::Drain, "drain");
    Drain {
        linger: scope.given(ledger, &schema::DRAIN_LINGER, value::duration),
        deadline: scope.given(ledger, &schema::DRAIN_DEADLINE, value::duration),
    }
}

pub(super) fn log(ledger: &mut Collector, root: &TomlTable) -> Log {
    let scope = ledger.table(root, Section::Log, "log");
    Log {
        json: scope.given(ledger, &schema::LOG_FORMAT, value::word) == 1,
        filter: scope.given(ledger, &schema::LOG_FILTER, value::filter),
    }
}

/// For counts whose range fits any machine.
pub(super) fn usize_of(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
