//! Principals and consumers that may do nothing, in a file beside the grants: for an incident in which
//! neither the home region nor an issuer can be reached. It only denies, so its order does not matter.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::limits::{DENY_BYTES, DENY_EVERY, DOCUMENT_DEPTH};
use super::patterns::{self, Owners, Pattern, PatternError};
use super::principal::Principal;
use super::strict_json::{self, NotStrict};
use crate::model::names::is_name;
use crate::model::time::Clock;
use crate::tasks::file_stamp::FileStamp;
use crate::tasks::supervision::pass_panic_on;
use crate::tasks::{Tasks, on_disk};
use crate::telemetry::rate_limiter::RateLimiter;

/// `access.deny_file` cannot be used; the last list stays in use. The operator has to fix it.
#[derive(Debug, thiserror::Error)]
pub enum DenyFileError {
    #[error("access.deny_file {} cannot be read: {error}", file.display())]
    Unreadable { file: PathBuf, error: std::io::Error },
    #[error("access.deny_file {} is larger than {DENY_BYTES} bytes", file.display())]
    Large { file: PathBuf },
    #[error("access.deny_file {}, line {line}: {why}", file.display())]
    Line { file: PathBuf, line: usize, why: DenyProblem },
    #[error("access.deny_file {}: {why}", file.display())]
    Json { file: PathBuf, why: DenyProblem },
}

/// Problem of an entry.
#[derive(Debug, thiserror::Error)]
pub enum DenyProblem {
    #[error("write `consumer NAME`, `token ISS SUB`, `spiffe ID` or `dns NAME`")]
    Entry,
    #[error("{0}")]
    Pattern(#[from] PatternError),
    #[error("{0}")]
    Strict(#[from] NotStrict),
    #[error("the members are `consumers`, a list of names, and `who`, a list as in the grants")]
    Members,
}

/// Those who are denied everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DenyList {
    consumers: BTreeSet<String>,
    who: Owners<()>,
    entries: usize,
}

impl DenyList {
    /// True if this principal, or the consumer that it belongs to, is denied everything.
    #[must_use]
    pub fn denies(&self, principal: &Principal, consumer: Option<&str>) -> bool {
        consumer.is_some_and(|consumer| self.consumers.contains(consumer)) || self.who.of(principal).is_some()
    }

    /// Number of entries.
    #[must_use]
    pub const fn entries(&self) -> usize {
        self.entries
    }

    /// Reads a file's content: JSON if it begins so, else a line for each entry.
    ///
    /// # Errors
    /// The entry, or the part of the JSON, that is none.
    pub fn read(file: &Path, content: &[u8]) -> Result<Self, DenyFileError> {
        let file = file.to_owned();
        if content.trim_ascii_start().starts_with(b"{") {
            return of_json(content).map_err(|why| DenyFileError::Json { file, why });
        }
        let (mut consumers, mut who) = (BTreeSet::new(), Vec::new());
        for (at, line) in content.split(|byte| *byte == b'\n').enumerate() {
            let line = String::from_utf8_lossy(line);
            let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
            let read = entry(&words, &mut consumers, &mut who);
            read.map_err(|why| DenyFileError::Line { file: file.clone(), line: at + 1, why })?;
        }
        Ok(Self::of(consumers, who))
    }

    fn of(consumers: BTreeSet<String>, who: Vec<Pattern>) -> Self {
        let entries = consumers.len() + who.len();
        let who: Vec<(Pattern, ())> = who.into_iter().map(|pattern| (pattern, ())).collect();
        // All have one owner, so none of them overlap.
        Self { consumers, who: Owners::new(&who).unwrap_or_default(), entries }
    }
}

fn entry(words: &[&str], consumers: &mut BTreeSet<String>, who: &mut Vec<Pattern>) -> Result<(), DenyProblem> {
    match words {
        [] => {}
        ["consumer", name] if is_name(name) => drop(consumers.insert((*name).to_owned())),
        ["token", iss, sub] => who.push(patterns::of_tokens(iss, sub)?),
        ["spiffe", id] => who.push(patterns::of_spiffe(id)?),
        ["dns", name] => who.push(patterns::of_dns(name)?),
        _ => return Err(DenyProblem::Entry),
    }
    Ok(())
}

fn of_json(content: &[u8]) -> Result<DenyList, DenyProblem> {
    let mut read = strict_json::object(content, DOCUMENT_DEPTH)?;
    let (mut consumers, mut who) = (BTreeSet::new(), Vec::new());
    for name in list(&mut read, "consumers")? {
        let name = name.as_str().filter(|name| is_name(name)).ok_or(DenyProblem::Members)?;
        consumers.insert(name.to_owned());
    }
    for principal in list(&mut read, "who")? {
        let texts = principal.as_object().ok_or(DenyProblem::Members)?;
        let text = |name: &str| texts.get(name).and_then(Value::as_str);
        who.push(match (texts.len(), text("iss"), text("sub"), text("spiffe"), text("dns")) {
            (2, Some(iss), Some(sub), None, None) => patterns::of_tokens(iss, sub)?,
            (1, None, None, Some(id), None) => patterns::of_spiffe(id)?,
            (1, None, None, None, Some(name)) => patterns::of_dns(name)?,
            _ => return Err(DenyProblem::Members),
        });
    }
    if read.is_empty() { Ok(DenyList::of(consumers, who)) } else { Err(DenyProblem::Members) }
}

fn list(object: &mut Map<String, Value>, name: &str) -> Result<Vec<Value>, DenyProblem> {
    match object.remove(name) {
        None => Ok(Vec::new()),
        Some(Value::Array(elements)) => Ok(elements),
        Some(_) => Err(DenyProblem::Members),
    }
}

/// The file and what it says.
#[derive(Clone, Debug)]
pub struct DenyFile {
    file: PathBuf,
    seen: Option<FileStamp>,
    list: Arc<ArcSwap<DenyList>>,
    /// Reason for which the file as it is now is not in use.
    failure: Arc<Mutex<Option<String>>>,
}

impl DenyFile {
    /// # Errors
    /// [`DenyFileError`].
    pub fn open(file: &Path) -> Result<Self, DenyFileError> {
        // Taken before the content, so that a write in between is seen as a change later.
        let seen = FileStamp::of(file);
        let list = Arc::new(ArcSwap::from_pointee(content(file)?));
        Ok(Self { file: file.to_owned(), seen, list, failure: Arc::default() })
    }

    /// True if this principal, or the consumer that it belongs to, is denied everything.
    #[must_use]
    pub fn denies(&self, principal: &Principal, consumer: Option<&str>) -> bool {
        self.list.load().denies(principal, consumer)
    }

    #[must_use]
    pub fn entries(&self) -> usize {
        self.list.load().entries()
    }

    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// Takes what changes in the file into use, until the process stops.
    pub fn watch(&self, tasks: &Tasks) {
        let (own, stopping) = (self.clone(), tasks.stopping());
        tasks.spawn_service("deny-file", move || {
            let (own, stopping) = (own.clone(), stopping.clone());
            async move { stopping.run_until_cancelled(own.look()).await }
        });
    }

    async fn look(self) {
        let (lines, mut seen) = (RateLimiter::new(), self.seen);
        loop {
            tokio::time::sleep(DENY_EVERY).await;
            let (file, before) = (self.file.clone(), seen);
            let is_failing = self.failure().is_some();
            let looked = on_disk(move || {
                let now = FileStamp::of(&file);
                (now, (now != before || is_failing).then(|| content(&file)))
            });
            let Some((now, changed)) = looked.await else { pass_panic_on() };
            match changed {
                None => {}
                Some(Ok(list)) => {
                    let entries = list.entries();
                    self.list.store(Arc::new(list));
                    (seen, *self.failure.lock()) = (now, None);
                    tracing::info!(entries, "access.deny_file was read again");
                }
                Some(Err(error)) => {
                    *self.failure.lock() = Some(error.to_string());
                    if let Some(suppressed) = lines.admit(Clock::System.now()) {
                        tracing::warn!(%error, suppressed, "the last list of who is denied stays in use");
                    }
                }
            }
        }
    }
}

fn content(file: &Path) -> Result<DenyList, DenyFileError> {
    if std::fs::metadata(file).map_err(|error| unreadable(file, error))?.len() > DENY_BYTES {
        return Err(DenyFileError::Large { file: file.to_owned() });
    }
    DenyList::read(file, &std::fs::read(file).map_err(|error| unreadable(file, error))?)
}

fn unreadable(file: &Path, error: std::io::Error) -> DenyFileError {
    DenyFileError::Unreadable { file: file.to_owned(), error }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISS: &str = "https://issuer.example";

    fn read(text: &str) -> Result<DenyList, String> {
        DenyList::read(Path::new("deny"), text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn lines_and_json_deny_alike() {
        let lines =
            "# stolen\nconsumer jira\n\n token https://issuer.example system:x:* # all\nspiffe spiffe://corp/a\n";
        let json = r#" {"consumers": ["jira"], "who": [{"iss": "https://issuer.example", "sub": "system:x:*"},
                       {"spiffe": "spiffe://corp/a"}]}"#;
        for text in [lines, json] {
            let list = read(text).unwrap();
            assert_eq!(list.entries(), 3);
            let other = Principal::token(ISS, "other");
            assert!(list.denies(&other, Some("jira")) && !list.denies(&other, Some("wiki")));
            assert!(!list.denies(&other, None));
            assert!(list.denies(&Principal::token(ISS, "system:x:pod"), None));
            assert!(list.denies(&Principal::Spiffe("spiffe://corp/a".into()), Some("wiki")));
        }
        assert_eq!(read("").unwrap(), DenyList::default());
    }

    #[test]
    fn unclear_entries_refuse_the_file() {
        for (text, expected) in [
            ("consumer jira\nconsumer", "line 2: write `consumer NAME`"),
            ("consumer Jira", "line 1: write"),
            ("jira", "line 1: write"),
            ("token https://issuer.example x*", "line 1: a `*` stands only"),
            ("dns 1.2.3.4", "line 1: it is no DNS name"),
            (r#"{"consumer": []}"#, "the members are"),
            (r#"{"who": [{"iss": "x"}]}"#, "the members are"),
            (r#"{"who": 1}"#, "the members are"),
            (r#"{"who": [], "who": []}"#, "names a member twice"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
