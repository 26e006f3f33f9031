//! The words that users see and write into dashboards, alerts and scripts: series of `/metrics`,
//! fields of `/status`. A change on purpose changes the list too, and is named in the CHANGELOG.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::program::get;
use crate::stage::Stage;

/// Asserts that the list names exactly what is there.
fn compare(list: &str, file: &str, found: &BTreeSet<String>) {
    let listed: BTreeSet<String> = list.lines().map(str::to_owned).collect();
    let gone = listed.difference(found).map(|line| format!("- {line}\n"));
    let differ: String = gone.chain(found.difference(&listed).map(|line| format!("+ {line}\n"))).collect();
    assert!(differ.is_empty(), "tests/it/words/{file}: gone (-) and new (+)\n{differ}");
}

#[tokio::test]
async fn metric_series_match_word_list() {
    let stage = Stage::builder().start().await;
    stage.live().await;
    let page = get(&format!("http://{}/metrics", stage.app.admin)).await.1;
    let series = page.lines().filter(|line| !line.starts_with('#') && !line.contains("_bucket{"));
    // Which tasks run is a matter of the moment.
    let series = series.filter(|line| !line.starts_with("nearside_task"));
    let series = series.filter_map(|line| line.rsplit_once(' ')).map(|(name, _)| name.to_owned()).collect();
    compare(include_str!("words/metrics.txt"), "metrics.txt", &series);
    stage.stop().await;
}

#[tokio::test]
async fn status_fields_match_word_list() {
    let stage = Stage::builder().start().await;
    stage.live().await;
    stage.get("/v1/contexts/acme").await;
    let page = get(&format!("http://{}/status", stage.app.admin)).await.1;
    let mut fields = BTreeSet::new();
    flatten(String::new(), &serde_json::from_str(&page).unwrap(), &mut fields);
    compare(include_str!("words/status.txt"), "status.txt", &fields);
    stage.stop().await;
}

/// Labels whose values are names, or are listed on a page of their own.
const NAMES: [&str; 5] = ["region", "route", "pointer", "version", "check"];

/// Words of these series that the row of their metric in `docs/metrics.md` lacks.
pub(crate) fn undocumented<'s>(series: impl Iterator<Item = &'s str>, names: &[&str]) -> BTreeSet<String> {
    let page = include_str!("../../docs/metrics.md");
    let mut missing = BTreeSet::new();
    for (metric, labels) in series.filter_map(|line| line.split_once('{')) {
        // Its row says that its words are those of the row above.
        let of = if metric == "nearside_payload_read_bytes_total" { "nearside_payload_work_seconds" } else { metric };
        let of = ["_bucket", "_sum", "_count"].iter().find_map(|end| of.strip_suffix(end)).unwrap_or(of);
        let start = format!("| `{of}` |");
        let rows: String = page.lines().filter(|line| line.starts_with(&start)).collect();
        for label in labels.rsplit_once('}').unwrap().0.split(',') {
            let (name, word) = label.split_once('=').unwrap();
            let word = word.trim_matches('"');
            if !NAMES.contains(&name) && !names.contains(&name) && !rows.contains(&format!("`{word}`")) {
                missing.insert(format!("{metric}: {name}={word}"));
            }
        }
    }
    missing
}

#[test]
fn metric_words_match_their_rows() {
    let missing = undocumented(include_str!("words/metrics.txt").lines(), &[]);
    assert!(missing.is_empty(), "put these into docs/metrics.md: {missing:#?}");
    let planted = undocumented(["nearside_reloads_total{outcome=\"lost\"}"].into_iter(), &[]);
    assert_eq!(planted, BTreeSet::from(["nearside_reloads_total: outcome=lost".to_owned()]));
}

fn flatten(path: String, value: &Value, fields: &mut BTreeSet<String>) {
    match value {
        _ if path == "/tasks" || path == "/task_panics" => {}
        Value::Object(object) => {
            object.iter().for_each(|(name, value)| flatten(format!("{path}/{name}"), value, fields))
        }
        Value::Array(items) => items.iter().for_each(|item| flatten(format!("{path}[]"), item, fields)),
        _ => drop(fields.insert(path)),
    }
}
