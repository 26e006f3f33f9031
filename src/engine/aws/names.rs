//! Names of tables and streams.

use crate::engine::{Stream, Table};

pub fn table_name(prefix: &str, table: Table) -> String {
    format!("{prefix}-{}", table.into_str())
}

pub fn stream_name(prefix: &str, stream: Stream) -> String {
    format!("{prefix}-{}", stream.into_str())
}
