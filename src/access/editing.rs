//! Changes of the document of grants: from the files of a repository, and in an incident.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::limits::{DOCUMENT_BYTES, DOCUMENT_DEPTH};
use super::strict_json::{self, NotStrict};
use crate::config::error::quoted;

/// Why a document cannot be changed so. Who asked has to correct it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    #[error("{file}: {why}")]
    Json { file: String, why: NotStrict },
    #[error("{file}: write the consumers under `consumers`, as in {{\"consumers\": {{\"jira\": {{..}}}}}}")]
    NoConsumers { file: String },
    #[error(
        "{file}: `stopped` is not who is stopped now; leave it out: `nearside grants stop` and `nearside grants resume` \
         change it"
    )]
    Stopped { file: String },
    #[error("{file}: {} does not belong here; the members are `format` and `consumers`", quoted(member))]
    Member { file: String, member: String },
    #[error("the consumer {} is in {file} and in another file; keep one", quoted(consumer))]
    Twice { file: String, consumer: String },
    #[error("no consumer is called {}; `nearside grants show` lists them", quoted(.0))]
    NoConsumer(String),
}

/// One document of several files, in which consumers that are stopped stay so, also one that no file has
/// any more: it comes back as it went. A file may repeat which these are, as a document that was shown
/// does.
///
/// # Errors
/// [`EditError`].
pub fn merged(files: &[(String, Vec<u8>)], stopped: &BTreeSet<String>) -> Result<Vec<u8>, EditError> {
    let mut consumers = Map::new();
    for (file, bytes) in files {
        let read = strict_json::object(bytes, DOCUMENT_DEPTH);
        let mut document = read.map_err(|why| EditError::Json { file: file.clone(), why })?;
        document.remove("format");
        if document.get("stopped").is_some_and(|listed| *listed == json!(stopped)) {
            document.remove("stopped");
        }
        let Some(Value::Object(of_file)) = document.remove("consumers") else {
            return Err(EditError::NoConsumers { file: file.clone() });
        };
        match document.keys().next() {
            None => {}
            Some(member) if member == "stopped" => return Err(EditError::Stopped { file: file.clone() }),
            Some(member) => return Err(EditError::Member { file: file.clone(), member: member.clone() }),
        }
        for (consumer, value) in of_file {
            if consumers.contains_key(&consumer) {
                return Err(EditError::Twice { file: file.clone(), consumer });
            }
            consumers.insert(consumer, value);
        }
    }
    Ok(written(&json!({"format": 1, "stopped": stopped, "consumers": consumers})))
}

/// An earlier document, in which consumers that are stopped now are stopped too.
///
/// # Errors
/// [`EditError`].
pub fn rolled_back(earlier: &[u8], stopped_now: &BTreeSet<String>) -> Result<Vec<u8>, EditError> {
    let mut names = stopped(earlier);
    if stopped_now.is_subset(&names) {
        return Ok(earlier.to_vec());
    }
    let read = strict_json::object(earlier, DOCUMENT_DEPTH);
    let mut document = read.map_err(|why| EditError::Json { file: "the document".to_owned(), why })?;
    names.extend(stopped_now.iter().cloned());
    document.insert("stopped".to_owned(), json!(names));
    Ok(written(&Value::Object(document)))
}

/// The consumers that a document stops; none where it is no document.
#[must_use]
pub fn stopped(document: &[u8]) -> BTreeSet<String> {
    let read = strict_json::object(document, DOCUMENT_DEPTH).unwrap_or_default();
    let listed = read.get("stopped").and_then(Value::as_array).into_iter().flatten();
    listed.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The document with a consumer stopped, or no longer.
///
/// # Errors
/// [`EditError`].
pub fn with_stopped(document: &[u8], consumer: &str, is_stopped: bool) -> Result<Vec<u8>, EditError> {
    let read = strict_json::object(document, DOCUMENT_DEPTH);
    let mut changed = read.map_err(|why| EditError::Json { file: "the document".to_owned(), why })?;
    let mut names = stopped(document);
    let is_known = changed.get("consumers").and_then(Value::as_object).is_some_and(|all| all.contains_key(consumer));
    if !is_known && !names.contains(consumer) {
        return Err(EditError::NoConsumer(consumer.to_owned()));
    }
    if is_stopped {
        names.insert(consumer.to_owned());
    } else {
        names.remove(consumer);
    }
    changed.insert("stopped".to_owned(), json!(names));
    Ok(written(&Value::Object(changed)))
}

/// Text in one order: differences between versions are those of content. It is indented for people,
/// unless that would make it too large.
fn written(document: &Value) -> Vec<u8> {
    let indented = format!("{document:#}\n").into_bytes();
    if indented.len() <= DOCUMENT_BYTES { indented } else { document.to_string().into_bytes() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::grants::Grants;
    use crate::access::principal::Principal;

    fn file(name: &str, text: &str) -> (String, Vec<u8>) {
        (name.to_owned(), text.as_bytes().to_vec())
    }

    #[test]
    fn files_are_merged_and_stops_kept() {
        let files = [
            file("a.json", r#"{"consumers": {"jira": {"views": ["limits"]}}}"#),
            file("b.json", r#"{"format": 1, "consumers": {"wiki": {}}}"#),
        ];
        let stopped_before = BTreeSet::from(["wiki".to_owned(), "gone".to_owned()]);
        let document = merged(&files, &stopped_before).unwrap();
        let read: Value = serde_json::from_slice(&document).unwrap();
        let consumers = json!({"jira": {"views": ["limits"]}, "wiki": {}});
        assert_eq!(read, json!({"format": 1, "stopped": ["gone", "wiki"], "consumers": consumers}));
        assert_eq!(stopped(&document), stopped_before);
    }

    #[test]
    fn removed_consumer_stays_stopped() {
        let with = [file("a.json", r#"{"consumers": {"jira": {"who": [{"dns": "j.example"}], "views": ["v"]}}}"#)];
        let without = [file("a.json", r#"{"consumers": {}}"#)];
        let first = merged(&with, &BTreeSet::new()).unwrap();
        let stop = with_stopped(&first, "jira", true).unwrap();
        let removed = merged(&without, &stopped(&stop)).unwrap();
        assert!(Grants::read(&removed, 1).is_ok(), "the catalogue takes a name of nobody's");
        let back = merged(&with, &stopped(&removed)).unwrap();
        let grants = Grants::read(&back, 1).unwrap();
        assert!(grants.rights_of(&Principal::Dns("j.example".into())).unwrap().is_stopped());
        assert!(stopped(&with_stopped(&removed, "jira", false).unwrap()).is_empty(), "resume takes it out");
    }

    #[test]
    fn rollback_lifts_no_stop() {
        let first =
            merged(&[file("a.json", r#"{"consumers": {"jira": {}, "wiki": {}}}"#)], &BTreeSet::new()).unwrap();
        let one = with_stopped(&first, "wiki", true).unwrap();
        let back = rolled_back(&one, &BTreeSet::from(["jira".to_owned()])).unwrap();
        assert_eq!(stopped(&back), BTreeSet::from(["jira".to_owned(), "wiki".to_owned()]));
        assert_eq!(rolled_back(&one, &BTreeSet::new()).unwrap(), one);
    }

    #[test]
    fn shown_document_can_be_merged() {
        let stopped = BTreeSet::from(["jira".to_owned()]);
        let shown = merged(&[file("a.json", r#"{"consumers": {"jira": {}}}"#)], &stopped).unwrap();
        let again = merged(&[("shown.json".to_owned(), shown.clone())], &stopped).unwrap();
        assert_eq!(again, shown);
        let resumed = merged(&[("shown.json".to_owned(), shown)], &BTreeSet::new()).unwrap_err();
        assert!(resumed.to_string().contains("nearside grants resume"), "somebody resumed it meanwhile");
    }

    #[test]
    fn clashing_files_are_refused() {
        let one = file("a.json", r#"{"consumers": {"jira": {}}}"#);
        for (text, expected) in [
            (r#"{"consumers": {"jira": {}}}"#, "in b.json and in another file"),
            (r#"{"consumers": {}, "stopped": ["jira"]}"#, "b.json: `stopped` is not who is stopped now"),
            (r#"{"consumers": {}, "stopped": 5}"#, "b.json: `stopped` is not who is stopped now"),
            (r#"{"consumers": {}, "views": []}"#, "b.json: `views` does not belong here"),
            (r#"{"wiki": {"views": ["limits"]}}"#, "b.json: write the consumers under `consumers`, as in {\""),
            (r#"{"consumers": [], "stopped": []}"#, "b.json: write the consumers under `consumers`"),
            (r#"{"consumers": {"x": {}, "x": {}}}"#, "b.json: an object in it names a member twice"),
            ("[]", "b.json: it is not an object"),
        ] {
            let error = merged(&[one.clone(), file("b.json", text)], &BTreeSet::new()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn stop_and_resume_change_nothing_else() {
        let document = merged(&[file("a.json", r#"{"consumers": {"jira": {"views": ["v"]}}}"#)], &BTreeSet::new());
        let document = document.unwrap();
        let once = with_stopped(&document, "jira", true).unwrap();
        assert_eq!(stopped(&once), BTreeSet::from(["jira".to_owned()]));
        assert_eq!(with_stopped(&once, "jira", true).unwrap(), once);
        assert_eq!(with_stopped(&once, "jira", false).unwrap(), document);
        assert_eq!(with_stopped(&document, "wiki", true), Err(EditError::NoConsumer("wiki".to_owned())));
    }

    #[test]
    fn large_documents_are_compact() {
        let consumers: Map<String, Value> = (0..3_000)
            .map(|number| (format!("c-{number}"), json!({"who": [{"dns": format!("n{number}.example")}]})))
            .collect();
        let file = file("a.json", &json!({ "consumers": consumers }).to_string());
        let document = merged(&[file], &BTreeSet::new()).unwrap();
        assert!(document.len() <= DOCUMENT_BYTES, "{}", document.len());
        let indented = format!("{:#}", serde_json::from_slice::<Value>(&document).unwrap());
        assert!(indented.len() > DOCUMENT_BYTES, "{}", indented.len());
    }
}
