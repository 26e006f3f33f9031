//! The document of grants: who each consumer is, and what it may do. It is read whole, or not at all.

pub mod changes;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::limits::{DOCUMENT_BYTES, DOCUMENT_DEPTH, ERRORS};
use super::patterns::{self, Owners, Pattern, PatternError};
use super::principal::Principal;
use super::strict_json::{self, NotStrict};
use crate::config::error::quoted;
use crate::model::names::is_name;

/// Format of the documents that this version reads.
const FORMAT: u64 = 1;

/// A right besides reading views and writing records.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::EnumString, strum::VariantNames, strum::IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum May {
    /// To follow the stream of announcements.
    Announcements,
    /// To read metrics.
    Metrics,
    /// To see the admin pages, and to act there.
    Operate,
    /// To see contents, histories and who changed what, at admin ports.
    Inspect,
    /// To release writers that are stopped for changing too much.
    Guard,
    /// To write again what records were.
    Restore,
    /// To erase records with their history.
    Erase,
    /// To stage, pause and revert definitions of views.
    Views,
    /// To order faults.
    Chaos,
}

/// Rights of one consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    consumer: Arc<str>,
    is_stopped: bool,
    /// Who it is, in words.
    who: BTreeSet<String>,
    views: BTreeSet<String>,
    write: BTreeSet<String>,
    may: BTreeSet<May>,
    /// Words in `may` that this version does not know.
    unknown: BTreeSet<String>,
}

impl Rights {
    #[must_use]
    pub fn consumer(&self) -> &str {
        &self.consumer
    }

    /// True if it has been stopped: then it may do nothing, whatever else is written.
    #[must_use]
    pub const fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    #[must_use]
    pub fn reads(&self, view: &str) -> bool {
        self.views.contains(view)
    }

    #[must_use]
    pub fn writes(&self, record_type: &str) -> bool {
        self.write.contains(record_type)
    }

    #[must_use]
    pub fn writes_anything(&self) -> bool {
        !self.is_stopped && !self.write.is_empty()
    }

    #[must_use]
    pub fn may(&self, right: May) -> bool {
        self.may.contains(&right)
    }

    /// Each right in a word, as [`changes::Change`] names it; none of who is stopped.
    fn words(&self) -> BTreeSet<String> {
        let who = self.who.iter().map(|who| format!("is {who}"));
        let views = self.views.iter().map(|view| format!("reads {view}"));
        let types = self.write.iter().map(|record_type| format!("writes {record_type}"));
        let known = self.may.iter().map(|may| may.into_str());
        let others = known.chain(self.unknown.iter().map(String::as_str)).map(|may| format!("may {may}"));
        if self.is_stopped { BTreeSet::new() } else { who.chain(views).chain(types).chain(others).collect() }
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_stopped {
            return write!(f, "{} is stopped: it may do nothing", self.consumer);
        }
        let words: Vec<String> = self.words().into_iter().filter(|word| !word.starts_with("is ")).collect();
        write!(
            f,
            "{} {}",
            self.consumer,
            if words.is_empty() { "may do nothing".to_owned() } else { words.join(", ") }
        )
    }
}

/// A document, as it is asked.
#[derive(Clone, Debug)]
pub struct Grants {
    version: u64,
    consumers: BTreeMap<Arc<str>, Arc<Rights>>,
    /// Positions in `rights`.
    owners: Owners<usize>,
    rights: Vec<Arc<Rights>>,
    wide: Vec<String>,
}

/// A problem of a document: its place, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {why}")]
pub struct GrantsError {
    /// Members that lead to it, as in `consumers.jira.who[2].sub`.
    pub place: String,
    pub why: GrantsProblem,
}

/// Problem at a place of a document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantsProblem {
    #[error("it is larger than {DOCUMENT_BYTES} bytes; use patterns, or fewer consumers")]
    Large,
    #[error("{0}; correct it")]
    Json(NotStrict),
    /// This process is too old for it.
    #[error("this version reads format {FORMAT} only; upgrade it before the document")]
    Newer,
    #[error("nothing is called so here; the members are {0}")]
    Unknown(&'static str),
    #[error("{0} belongs here")]
    Type(&'static str),
    #[error("take a lower-case letter, then letters, digits, - and _, 64 in all")]
    Name,
    #[error("it is here twice; leave one out")]
    Twice,
    #[error("write iss and sub, or spiffe, or dns")]
    Who,
    #[error("{0}")]
    Pattern(#[from] PatternError),
    #[error(
        "this version knows `announcements`, `metrics` and `operate`; correct it, or upgrade catalogues and the command"
    )]
    May,
    #[error("it covers a principal that {0} covers too; give each principal to one consumer")]
    Overlap(String),
    #[error("{0} more errors are not listed; correct these first")]
    More(usize),
}

impl Grants {
    /// Reads a document of this version. A word in `may` that this process does not know is passed over:
    /// it gives rights to something newer, and the rest of the document must go on reaching this one.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn read(bytes: &[u8], version: u64) -> Result<Self, Vec<GrantsError>> {
        let mut reading = Reading::default();
        if bytes.len() > DOCUMENT_BYTES {
            return Err(vec![error("the document".to_owned(), GrantsProblem::Large)]);
        }
        let document = strict_json::object(bytes, DOCUMENT_DEPTH)
            .map_err(|why| vec![error("the document".to_owned(), GrantsProblem::Json(why))])?;
        // What else a newer one has is not for this version to judge.
        match document.get("format").and_then(Value::as_u64) {
            Some(FORMAT) => {}
            Some(newer) if newer > FORMAT => return Err(vec![error("format".to_owned(), GrantsProblem::Newer)]),
            _ => reading.wrong("format", GrantsProblem::Type("1")),
        }
        reading.only(&document, "", "format, stopped, consumers", &["format", "stopped", "consumers"]);
        // A name may be without its consumer: who was stopped stays so when it comes back.
        let stopped = reading.names(document.get("stopped"), "stopped");
        let empty = Map::new();
        let consumers = match document.get("consumers") {
            Some(Value::Object(consumers)) => consumers,
            _ => {
                reading.wrong("consumers", GrantsProblem::Type("an object of consumers"));
                &empty
            }
        };
        consumers.iter().for_each(|(name, value)| reading.consumer(name, value, stopped.contains(name)));
        reading.finished(version)
    }

    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Words in `may` that this version does not know, and that are new beside `old`: misspelled, or of
    /// a version that the catalogue is to be upgraded to first. One that is there already hinders no
    /// older catalogue from stopping a consumer.
    #[must_use]
    pub fn unknown_rights(&self, old: Option<&Self>) -> Vec<GrantsError> {
        let mut errors = Vec::new();
        for (name, rights) in &self.consumers {
            let had = old.and_then(|old| old.consumers.get(name)).map(|had| &had.unknown);
            for word in rights.unknown.iter().filter(|word| !had.is_some_and(|had| had.contains(*word))) {
                errors.push(error(format!("consumers.{name}.may: {}", shown(word)), GrantsProblem::May));
            }
        }
        errors.truncate(ERRORS);
        errors
    }

    /// Places and patterns that cover a whole Kubernetes cluster: allowed, and seldom meant.
    #[must_use]
    pub fn cluster_wide(&self) -> &[String] {
        &self.wide
    }

    /// Rights of the consumer that the principal belongs to.
    #[must_use]
    pub fn rights_of(&self, principal: &Principal) -> Option<&Arc<Rights>> {
        self.rights.get(self.owners.of(principal)?)
    }
}

/// A name of the document's, of which nothing is known, on a line of its own.
fn shown(name: &str) -> String {
    if is_name(name) { name.to_owned() } else { quoted(name) }
}

const fn error(place: String, why: GrantsProblem) -> GrantsError {
    GrantsError { place, why }
}

/// A document that is being read.
#[derive(Default)]
struct Reading {
    errors: Vec<GrantsError>,
    /// Errors beyond [`ERRORS`].
    unlisted: usize,
    rights: Vec<Arc<Rights>>,
    /// Patterns, with the position of whose they are.
    patterns: Vec<(Pattern, usize)>,
    /// Place of each pattern.
    places: Vec<String>,
}

impl Reading {
    fn wrong(&mut self, place: &str, why: GrantsProblem) {
        if self.errors.len() < ERRORS {
            self.errors.push(error(place.to_owned(), why));
        } else {
            self.unlisted += 1;
        }
    }

    fn only(&mut self, object: &Map<String, Value>, place: &str, list: &'static str, known: &[&str]) {
        let separator = if place.is_empty() { "" } else { "." };
        for name in object.keys().filter(|name| !known.contains(&name.as_str())) {
            self.wrong(&format!("{place}{separator}{}", shown(name)), GrantsProblem::Unknown(list));
        }
    }

    /// A list of texts, each once, with their positions; empty where there is none.
    fn strings(&mut self, value: Option<&Value>, place: &str) -> Vec<(usize, String)> {
        let mut strings: Vec<(usize, String)> = Vec::new();
        let mut known = BTreeSet::new();
        let elements = match value {
            None => return strings,
            Some(Value::Array(elements)) => elements,
            Some(_) => {
                self.wrong(place, GrantsProblem::Type("a list"));
                return strings;
            }
        };
        for (at, element) in elements.iter().enumerate() {
            match element {
                Value::String(text) if known.insert(text) => strings.push((at, text.clone())),
                Value::String(_) => self.wrong(&format!("{place}[{at}]"), GrantsProblem::Twice),
                _ => self.wrong(&format!("{place}[{at}]"), GrantsProblem::Type("a text")),
            }
        }
        strings
    }

    fn names(&mut self, value: Option<&Value>, place: &str) -> BTreeSet<String> {
        let names = self.strings(value, place);
        for (at, _) in names.iter().filter(|(_, name)| !is_name(name)) {
            self.wrong(&format!("{place}[{at}]"), GrantsProblem::Name);
        }
        names.into_iter().map(|(_, name)| name).collect()
    }

    /// The rights that are known, and the words of those that are not.
    fn may(&mut self, value: Option<&Value>, place: &str) -> (BTreeSet<May>, BTreeSet<String>) {
        let (mut may, mut unknown) = (BTreeSet::new(), BTreeSet::new());
        for (_, word) in self.strings(value, place) {
            match word.parse() {
                Ok(right) => drop(may.insert(right)),
                Err(_) => drop(unknown.insert(word)),
            }
        }
        (may, unknown)
    }

    fn consumer(&mut self, name: &str, value: &Value, is_stopped: bool) {
        let place = format!("consumers.{}", shown(name));
        if !is_name(name) {
            self.wrong(&place, GrantsProblem::Name);
        }
        let Value::Object(consumer) = value else {
            return self.wrong(&place, GrantsProblem::Type("an object"));
        };
        self.only(consumer, &place, "who, views, write, may", &["who", "views", "write", "may"]);
        let at = self.rights.len();
        match consumer.get("who") {
            Some(Value::Array(who)) if !who.is_empty() => {
                for (number, who) in who.iter().enumerate() {
                    self.who(who, &format!("{place}.who[{number}]"), at);
                }
            }
            _ => self.wrong(&format!("{place}.who"), GrantsProblem::Type("a list of who it is")),
        }
        let views = self.names(consumer.get("views"), &format!("{place}.views"));
        let write = self.names(consumer.get("write"), &format!("{place}.write"));
        let (may, unknown) = self.may(consumer.get("may"), &format!("{place}.may"));
        let who = self.patterns.iter().filter(|(_, of)| *of == at).map(|(pattern, _)| pattern.to_string()).collect();
        self.rights.push(Arc::new(Rights { consumer: name.into(), is_stopped, who, views, write, may, unknown }));
    }

    fn who(&mut self, who: &Value, place: &str, consumer: usize) {
        let texts: Option<Vec<(&str, &str)>> = who
            .as_object()
            .and_then(|who| who.iter().map(|(name, value)| Some((name.as_str(), value.as_str()?))).collect());
        let texts = texts.map(|mut texts| {
            texts.sort_unstable();
            texts
        });
        let pattern = match texts.as_deref() {
            Some([("iss", iss), ("sub", sub)]) => patterns::of_tokens(iss, sub),
            Some([("spiffe", id)]) => patterns::of_spiffe(id),
            Some([("dns", name)]) => patterns::of_dns(name),
            _ => return self.wrong(place, GrantsProblem::Who),
        };
        match pattern {
            Ok(pattern) => {
                self.patterns.push((pattern, consumer));
                self.places.push(place.to_owned());
            }
            Err(why) => self.wrong(place, why.into()),
        }
    }

    fn finished(mut self, version: u64) -> Result<Grants, Vec<GrantsError>> {
        let owners = Owners::new(&self.patterns).unwrap_or_else(|overlaps| {
            for (one, other) in overlaps {
                let (first, second) = (self.places[one].clone(), self.places[other].clone());
                self.wrong(&second, GrantsProblem::Overlap(first));
            }
            Owners::default()
        });
        if !self.errors.is_empty() {
            if self.unlisted > 0 {
                self.errors.push(error("the document".to_owned(), GrantsProblem::More(self.unlisted)));
            }
            return Err(self.errors);
        }
        let wide = self.patterns.iter().zip(&self.places).filter(|((pattern, _), _)| pattern.covers_cluster());
        let wide = wide.map(|((pattern, _), place)| format!("{place}: {pattern}")).collect();
        let consumers = self.rights.iter().map(|rights| (rights.consumer.clone(), rights.clone())).collect();
        Ok(Grants { version, consumers, owners, rights: self.rights, wide })
    }
}

#[cfg(test)]
mod tests;
