//! Problem documents (RFC 9457) of the admin side and of the services.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Map, Value, json};

/// The `type` of the problem with this word.
pub(crate) fn urn(word: &str) -> String {
    format!("urn:nearside:problem:{word}")
}

/// An answer that says what is wrong; `more` are members of its own.
pub(crate) fn document(status: StatusCode, word: &str, detail: &str, mut more: Map<String, Value>) -> Response {
    more.insert("type".to_owned(), urn(word).into());
    more.insert("title".to_owned(), status.canonical_reason().unwrap_or("Error").into());
    more.insert("status".to_owned(), json!(status.as_u16()));
    more.insert("detail".to_owned(), detail.into());
    let mut response = (status, Value::Object(more).to_string()).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    response
}

/// Holds `docs/problems.md` against what each place can say.
#[cfg(test)]
pub(crate) mod page {
    use std::collections::BTreeSet;

    use serde_json::Value;

    /// Rows of one chapter of the page: each word with each of its statuses.
    pub(crate) fn chapter(heading: &str) -> BTreeSet<(String, u16)> {
        let page = include_str!("../../docs/problems.md");
        let (_, chapter) = page.split_once(&format!("\n## {heading}\n")).expect("a chapter of the page");
        let chapter = chapter.split("\n## ").next().unwrap_or_default();
        let mut rows = BTreeSet::new();
        for row in chapter.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
            let &[words, statuses, fault, advice] = &cells[..] else { panic!("not four cells: {row}") };
            assert!(!fault.is_empty() && !advice.is_empty(), "{row}");
            for word in words.split(", ").map(|word| word.trim_matches('`')) {
                rows.extend(statuses.split(", ").map(|status| (word.to_owned(), status.parse().expect("a status"))));
            }
        }
        rows
    }

    /// Type and status of a problem document, as the page shows them.
    pub(crate) fn row(document: &[u8]) -> (String, u16) {
        let document: Value = serde_json::from_slice(document).expect("a document is JSON");
        let word = document["type"].as_str().and_then(|urn| urn.strip_prefix(&super::urn(""))).expect("a type");
        (word.to_owned(), document["status"].as_u64().and_then(|it| it.try_into().ok()).expect("a status"))
    }

    /// All variants of an enum, some of them several times; one that is left out does not compile.
    macro_rules! every {
        ($of:ident: [$($unit:ident),*] $(, $pattern:pat => [$($value:expr),*])* $(,)?) => {{
            let _is_known = |it: &$of| match it { $($of::$unit => (),)* $($pattern => (),)* };
            vec![$($of::$unit,)* $($($value,)*)*]
        }};
    }
    pub(crate) use every;
}
