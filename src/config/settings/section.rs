//! The tables of a configuration, and how variables address them.

/// One table of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Section {
    Service,
    /// `[[service.region]]`
    Region,
    /// `tls = { .. }` of a region.
    Tls,
    /// `[[service.route]]`
    Route,
    /// `credentials = { .. }` of a route.
    Credentials,
    /// `candidate = { .. }` of a route.
    Candidate,
    /// `dictionary = { .. }` of a route.
    Dictionary,
    Listen,
    Admin,
    Cache,
    Race,
    Freshness,
    Announcements,
    Engine,
    Catalogue,
    /// `tls = { .. }` of the catalogue.
    CatalogueTls,
    /// `[[catalogue.type]]`
    RecordType,
    Views,
    /// `tls = { .. }` of the views service.
    ViewsTls,
    /// `[[region]]` of the services: a region that they serve.
    ServedRegion,
    /// `tls = { .. }` of a region that they serve.
    ServedRegionTls,
    /// `[access]`, of the services or of a sidecar.
    Access,
    /// `[[access.issuer]]`
    Issuer,
    /// `[[access.admin]]`
    GrantsAdmin,
    Drain,
    Log,
}

/// Ways in which variables address the tables of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addressed {
    /// Their `name`, written in capitals.
    Name,
    /// Their index, from 0.
    Index,
}

impl Addressed {
    /// Placeholder for it in the name of a variable.
    pub(crate) const fn placeholder(self) -> &'static str {
        match self {
            Self::Name => "{NAME}",
            Self::Index => "{N}",
        }
    }
}

impl Section {
    /// The keys that lead to it: `service.region`.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Region => "service.region",
            Self::Tls => "service.region.tls",
            Self::Route => "service.route",
            Self::Credentials => "service.route.credentials",
            Self::Candidate => "service.route.candidate",
            Self::Dictionary => "service.route.dictionary",
            Self::Listen => "listen",
            Self::Admin => "admin",
            Self::Cache => "cache",
            Self::Race => "race",
            Self::Freshness => "freshness",
            Self::Announcements => "announcements",
            Self::Engine => "engine",
            Self::Catalogue => "catalogue",
            Self::CatalogueTls => "catalogue.tls",
            Self::RecordType => "catalogue.type",
            Self::Views => "views",
            Self::ViewsTls => "views.tls",
            Self::ServedRegion => "region",
            Self::ServedRegionTls => "region.tls",
            Self::Access => "access",
            Self::Issuer => "access.issuer",
            Self::GrantsAdmin => "access.admin",
            Self::Drain => "drain",
            Self::Log => "log",
        }
    }

    /// The keys of the tables inside this one.
    pub const fn nested(self) -> &'static [&'static str] {
        match self {
            Self::Service => &["region", "route"],
            Self::Region | Self::Views | Self::ServedRegion => &["tls"],
            Self::Route => &["credentials", "candidate", "dictionary"],
            Self::Catalogue => &["type", "tls"],
            Self::Access => &["issuer", "admin"],
            _ => &[],
        }
    }

    /// The table under whose heading it belongs: credentials, the candidate and the dictionary
    /// belong to their route, TLS to its region or service, and any other to itself.
    pub const fn home(self) -> Self {
        match self {
            Self::Tls => Self::Region,
            Self::CatalogueTls => Self::Catalogue,
            Self::ViewsTls => Self::Views,
            Self::ServedRegionTls => Self::ServedRegion,
            Self::Credentials | Self::Candidate | Self::Dictionary => Self::Route,
            section => section,
        }
    }

    /// Its key in its home; `None` for one that is its own.
    pub fn inner_key(self) -> Option<&'static str> {
        self.path().strip_prefix(self.home().path())?.strip_prefix('.')
    }

    /// Way in which the tables of a list are addressed; `None` for a single table.
    pub(crate) const fn addressed(self) -> Option<Addressed> {
        match self.home() {
            Self::Region | Self::RecordType | Self::ServedRegion => Some(Addressed::Name),
            Self::Route | Self::Issuer | Self::GrantsAdmin => Some(Addressed::Index),
            _ => None,
        }
    }

    /// Suggests how to write a table inside another one.
    pub(crate) const fn example(self) -> &'static str {
        match self {
            Self::Tls => "write tls = { ca_file = \"/etc/nearside/ca.pem\" }",
            Self::CatalogueTls | Self::ViewsTls | Self::ServedRegionTls => {
                "write tls = { certificate = \"/etc/nearside/tls.crt\", key = \"/etc/nearside/tls.key\" }"
            }
            Self::Credentials => "write credentials = { file = \"/run/secrets/token\", prefix = \"Bearer \" }",
            Self::Candidate => "write candidate = { path = \"/v2/..\", mode = \"old\" }, or remove it",
            Self::Dictionary => "write dictionary = { file = \"..\", hash = \"..\" }",
            _ => "write a table",
        }
    }

    /// The line that begins it in a file: `[cache]`, `[[service.region]]`.
    pub fn heading(self) -> String {
        let path = self.home().path();
        if self.addressed().is_some() { format!("[[{path}]]") } else { format!("[{path}]") }
    }

    /// Words of the names of its variables before the key: `SERVICE`, `REGION`, `{NAME}`,
    /// `TLS`.
    pub(crate) fn variable_words(self) -> Vec<String> {
        let mut words: Vec<String> = self.home().path().split('.').map(str::to_ascii_uppercase).collect();
        words.extend(self.addressed().map(|by| by.placeholder().to_owned()));
        words.extend(self.inner_key().map(str::to_ascii_uppercase));
        words
    }
}
