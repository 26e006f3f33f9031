//! The settings of the services, by the sections of their file.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use super::access::AccessConfig;
use super::tls::{CatalogueTls, ServedRegionTls, ViewsTls};
use crate::config::arn::TopicArn;
use crate::config::error::{ConfigProblem, nearest, quoted};
use crate::config::limits;
use crate::config::process::{Drain, Log};
use crate::config::scope::{Collector, SettingScope};
use crate::config::table::{inner_or_empty, list, section, settings};
use crate::config::tree::TomlTable;
use crate::config::value::words;

/// Everything that the services need to know.
#[derive(Clone, Debug)]
pub struct ServicesConfig {
    pub engine: EngineConfig,
    pub catalogue: CatalogueConfig,
    pub views: ViewsConfig,
    /// The regions that are served, in the order of the file.
    pub regions: Vec<ServedRegion>,
    pub access: AccessConfig,
    pub drain: Drain,
    pub log: Log,
}

settings! {
    /// `[engine]`: where records lie.
    #[derive(Clone, Debug)]
    pub(in crate::config) struct EngineSettings in Engine {
        /// Place of the records: a directory, the memory of one process, or DynamoDB and Kinesis.
        kind: EngineWord = ENGINE_KIND(words::<EngineWord>(), Required("memory")) Restart;
        /// With `embedded`: the directory that holds everything; one process at a time opens it.
        directory: Option<PathBuf> = ENGINE_DIRECTORY(File, Is("")) Restart;
        /// With `aws`: the home region, where the catalogue and the views lie.
        region: Option<String> = ENGINE_REGION(RegionName, Is("")) Restart;
        /// With `aws`: beginning of the names of all tables and streams.
        prefix: String = ENGINE_PREFIX(Name, Is("nearside")) Restart;
        /// With `aws`: overrides every endpoint; where it is not written, `AWS_ENDPOINT_URL` does.
        endpoint_url: Option<Url> = ENGINE_ENDPOINT_URL(Url, Is("")) Restart;
    }
}

words! {
    /// Place of the records.
    pub(in crate::config) enum EngineWord {
        Embedded,
        Memory,
        Aws,
    }
}

/// Place of the records, with what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineConfig {
    /// The memory of one process, gone with it.
    Memory,
    Embedded {
        /// Created if its parent exists.
        directory: PathBuf,
    },
    Aws {
        /// The home region.
        region: String,
        /// Beginning of the names of tables and streams.
        prefix: String,
        /// `None`: AWS itself.
        endpoint_url: Option<Url>,
    },
}

impl EngineConfig {
    /// Takes nothing for what a kind lacks and needs, which the checks then report.
    fn of(settings: EngineSettings) -> Self {
        let EngineSettings { kind, directory, region, prefix, endpoint_url } = settings;
        match kind {
            EngineWord::Memory => Self::Memory,
            EngineWord::Embedded => Self::Embedded { directory: directory.unwrap_or_default() },
            EngineWord::Aws => Self::Aws { region: region.unwrap_or_default(), prefix, endpoint_url },
        }
    }

    /// The emulator of AWS, if one is used.
    pub const fn endpoint_url(&self) -> Option<&Url> {
        match self {
            Self::Aws { endpoint_url, .. } => endpoint_url.as_ref(),
            Self::Memory | Self::Embedded { .. } => None,
        }
    }

    /// As the file says it.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Embedded { .. } => "embedded",
            Self::Aws { .. } => "aws",
        }
    }
}

settings! {
    /// `[catalogue]`
    #[derive(Clone, Debug)]
    pub struct CatalogueConfig in Catalogue {
        /// Address and port at which writers reach the catalogue; port 0 picks a free one.
        listen: SocketAddr = CATALOGUE_LISTEN(Address, Is("127.0.0.1:8740")) Restart;
        /// Address and port of the catalogue's `/livez`, `/readyz`, `/status` and `/metrics`.
        admin: SocketAddr = CATALOGUE_ADMIN(Address, Is("127.0.0.1:8741")) Restart;
        /// Hosts accepted in `Host` besides loopback names and addresses, on both ports of the catalogue.
        allowed_hosts: Vec<String> = CATALOGUE_ALLOWED_HOSTS(Hosts, Is("")) Restart;
        /// Connections that the catalogue has open at once.
        max_connections: usize =
            CATALOGUE_MAX_CONNECTIONS(Count(1, limits::CONNECTIONS_AT_MOST as u64), Is("1024")) Restart;
        /// A proxy of yours ends TLS in front of the catalogue and, unless `access.mode` is `enforce`, decides
        /// who comes in: both ports may be at an address that other machines reach.
        behind_proxy: bool = CATALOGUE_BEHIND_PROXY(Flag, Is("false")) Restart;
        /// Certificate of the catalogue's ports.
        tls: CatalogueTls = inner_or_empty[] Restart;
        /// The types of records.
        types: Vec<RecordTypeConfig> = list[];
    }
}

settings! {
    /// `[[catalogue.type]]`
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct RecordTypeConfig in RecordType {
        /// Name of the record type in paths and in view definitions.
        name: String = TYPE_NAME(Name, Required("type-{N}")) Restart;
        /// A file with the JSON Schema that records of the type must fit; none takes any JSON object.
        schema: Option<PathBuf> = TYPE_SCHEMA(File, Is("")) Restart;
    }
}

settings! {
    /// `[views]`
    #[derive(Clone, Debug)]
    pub struct ViewsConfig in Views {
        /// Address and port of the views service's `/livez`, `/readyz`, `/status` and `/metrics`.
        admin: SocketAddr = VIEWS_ADMIN(Address, Is("127.0.0.1:8743")) Restart;
        /// Hosts accepted in `Host` besides loopback names and addresses, on the views' port.
        allowed_hosts: Vec<String> = VIEWS_ALLOWED_HOSTS(Hosts, Is("")) Restart;
        /// The file with the definitions of the views; `nearside views` needs it.
        file: Option<PathBuf> = VIEWS_FILE(File, Is("")) Restart;
        /// Views that jobs make at most per second, below the quota of the smallest region's topic.
        rate: u64 = VIEWS_RATE(Count(1, 100_000), Is("200")) Restart;
        /// Time in which everything is compared once, to find what the feeds have skipped.
        sweep: Duration = VIEWS_SWEEP(seconds(MINUTE, 7 * DAY), Is("6h")) Restart;
        /// A proxy of yours ends TLS in front of the views service and, unless `access.mode` is `enforce`,
        /// decides who comes in: `admin` may be an address that other machines reach.
        behind_proxy: bool = VIEWS_BEHIND_PROXY(Flag, Is("false")) Restart;
        /// Certificate of the views service's port.
        tls: ViewsTls = inner_or_empty[] Restart;
    }
}

settings! {
    /// `[[region]]`
    #[derive(Clone, Debug)]
    pub struct ServedRegion in ServedRegion {
        /// Name of the region; with the `aws` engine, where its tables lie.
        name: String = SERVED_NAME(RegionName, Required("region-{N}")) Restart;
        /// The SNS topic on which the region announces its changes; the `aws` engine needs it.
        topic: Option<TopicArn> = SERVED_TOPIC(Topic, Is("")) Restart;
        /// Address and port at which sidecars reach the region's node; port 0 picks a free one.
        listen: SocketAddr = SERVED_LISTEN(Address, Is("127.0.0.1:8744")) Restart;
        /// Address and port of the region's `/livez`, `/readyz`, `/status` and `/metrics`.
        admin: SocketAddr = SERVED_ADMIN(Address, Is("127.0.0.1:8745")) Restart;
        /// Hosts accepted in `Host` besides loopback names and addresses, on both ports of the region.
        allowed_hosts: Vec<String> = SERVED_ALLOWED_HOSTS(Hosts, Is("")) Restart;
        /// The views that the region takes; none takes them all.
        views: Vec<String> = SERVED_VIEWS(Names, Is("")) Restart;
        /// Coding in which the region's node answers with 1 KiB and more, for sidecars that ask for it.
        compression: NodeCompression = SERVED_COMPRESSION(words::<NodeCompression>(), Is("off")) Restart;
        /// A proxy of yours ends TLS in front of the region and, unless `access.mode` is `enforce`, decides who
        /// comes in: both ports may be at an address that other machines reach.
        behind_proxy: bool = SERVED_BEHIND_PROXY(Flag, Is("false")) Restart;
        /// Certificate of the region's ports.
        tls: ServedRegionTls = inner_or_empty[] Restart;
    }
}

words! {
    /// Coding of a node's answers.
    pub enum NodeCompression {
        Off,
        Zstd,
    }
}

impl ServedRegion {
    /// The views that it takes; `None` for all.
    pub fn only(&self) -> Option<BTreeSet<String>> {
        (!self.views.is_empty()).then(|| self.views.iter().cloned().collect())
    }
}

impl ServicesConfig {
    pub(super) fn read(collector: &mut Collector, root: &TomlTable) -> Self {
        Self {
            engine: EngineConfig::of(section(collector, root)),
            catalogue: section(collector, root),
            views: section(collector, root),
            regions: list(collector, &SettingScope { table: root.clone(), item: None }, []),
            access: section(collector, root),
            drain: section(collector, root),
            log: section(collector, root),
        }
    }

    /// The region of this name; without a name, the only one of the file.
    ///
    /// # Errors
    /// If there is none, or none was named where there are several.
    pub fn region(&self, name: Option<&str>) -> Result<&ServedRegion, ConfigProblem> {
        let known: Vec<_> = self.regions.iter().map(|region| region.name.as_str()).collect();
        match (name, self.regions.as_slice()) {
            (None, [only]) => Ok(only),
            (None, _) => {
                let suggestion = format!("say which one it is with --name: {}", known.join(", "));
                Err(ConfigProblem::new(format!("the file has {} regions", self.regions.len()), suggestion))
            }
            (Some(name), regions) => regions.iter().find(|region| region.name == name).ok_or_else(|| {
                let suggestion = match nearest(name, known.iter().copied()) {
                    Some(name) => format!("did you mean {name}?"),
                    None => format!("name one of {}", known.join(", ")),
                };
                ConfigProblem::new(format!("no region is called {}", quoted(name)), suggestion)
            }),
        }
    }
}
