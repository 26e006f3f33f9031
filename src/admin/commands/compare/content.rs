//! The facts that are shown of a content: its versions, its size and its digest.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContentSeen {
    pub status: u16,
    /// One for each record, 0 where none is stated; empty where none is stated at all.
    pub versions: Vec<u64>,
    pub etag: Option<String>,
    pub bytes: u64,
    /// The digest of the decoded content, of JSON by what it means, in hexadecimal.
    pub digest: String,
}
