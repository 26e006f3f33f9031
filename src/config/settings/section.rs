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
    /// `second = { .. }` of a route.
    Second,
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
    /// `[[catalogue.type]]`
    RecordType,
    Views,
    /// `[[region]]` of the services: a region that they serve.
    ServedRegion,
    Drain,
    Log,
}

/// How variables tell the tables of a list apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addressed {
    /// By their `name`, written in capitals.
    Name,
    /// By their place, from 0.
    Place,
}

impl Addressed {
    /// What stands for it in the name of a variable.
    pub(crate) const fn placeholder(self) -> &'static str {
        match self {
            Self::Name => "{NAME}",
            Self::Place => "{N}",
        }
    }
}

impl Section {
    /// What a sidecar's file may hold, in the order in which it is documented and printed.
    pub(crate) const OF_SIDECARS: [Self; 15] = [
        Self::Service,
        Self::Region,
        Self::Tls,
        Self::Route,
        Self::Credentials,
        Self::Second,
        Self::Dictionary,
        Self::Listen,
        Self::Admin,
        Self::Cache,
        Self::Race,
        Self::Freshness,
        Self::Announcements,
        Self::Drain,
        Self::Log,
    ];

    /// The same of the services' file.
    pub(crate) const OF_SERVICES: [Self; 7] =
        [Self::Engine, Self::Catalogue, Self::RecordType, Self::Views, Self::ServedRegion, Self::Drain, Self::Log];

    /// The keys that lead to it: `service.region`.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Region => "service.region",
            Self::Tls => "service.region.tls",
            Self::Route => "service.route",
            Self::Credentials => "service.route.credentials",
            Self::Second => "service.route.second",
            Self::Dictionary => "service.route.dictionary",
            Self::Listen => "listen",
            Self::Admin => "admin",
            Self::Cache => "cache",
            Self::Race => "race",
            Self::Freshness => "freshness",
            Self::Announcements => "announcements",
            Self::Engine => "engine",
            Self::Catalogue => "catalogue",
            Self::RecordType => "catalogue.type",
            Self::Views => "views",
            Self::ServedRegion => "region",
            Self::Drain => "drain",
            Self::Log => "log",
        }
    }

    /// The keys of the tables inside this one.
    pub const fn nested(self) -> &'static [&'static str] {
        match self {
            Self::Service => &["region", "route"],
            Self::Region => &["tls"],
            Self::Route => &["credentials", "second", "dictionary"],
            Self::Catalogue => &["type"],
            _ => &[],
        }
    }

    /// The table under whose heading it belongs: credentials, the second way and the dictionary
    /// belong to their route, TLS to its region, and any other to itself.
    pub const fn home(self) -> Self {
        match self {
            Self::Tls => Self::Region,
            Self::Credentials | Self::Second | Self::Dictionary => Self::Route,
            section => section,
        }
    }

    /// Its key in its home; `None` for one that is its own.
    pub fn inner_key(self) -> Option<&'static str> {
        self.path().strip_prefix(self.home().path())?.strip_prefix('.')
    }

    /// How the tables of a list are told apart; `None` for a single table.
    pub(crate) const fn addressed(self) -> Option<Addressed> {
        match self.home() {
            Self::Region | Self::RecordType | Self::ServedRegion => Some(Addressed::Name),
            Self::Route => Some(Addressed::Place),
            _ => None,
        }
    }

    /// How a file begins it: `[cache]`, `[[service.region]]`.
    pub fn heading(self) -> String {
        let path = self.home().path();
        if self.addressed().is_some() { format!("[[{path}]]") } else { format!("[{path}]") }
    }

    /// What stands in the names of its variables before the key: `SERVICE`, `REGION`, `{NAME}`,
    /// `TLS`.
    pub(crate) fn variable_words(self) -> Vec<String> {
        let capitals = |text: &str| text.to_ascii_uppercase();
        let mut words: Vec<String> = self.home().path().split('.').map(capitals).collect();
        words.extend(self.addressed().map(|by| by.placeholder().to_owned()));
        words.extend(self.inner_key().map(capitals));
        words
    }
}
