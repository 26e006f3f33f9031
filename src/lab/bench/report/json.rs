//! The report as JSON, and back. What was written reads back with every figure that is shown.

use thiserror::Error;

use crate::lab::bench::result::BenchReport;

#[derive(Debug, Error)]
pub(crate) enum JsonError {
    /// A figure that JSON cannot express.
    #[error("the report cannot be written as JSON: {0}; this is a defect of the harness, please report it")]
    Write(serde_json::Error),
}

/// The report as JSON for people and programs, with a line break at the end.
pub(crate) fn written(report: &BenchReport) -> Result<String, JsonError> {
    let text = serde_json::to_string_pretty(report).map_err(JsonError::Write)?;
    Ok(text + "\n")
}

#[cfg(test)]
mod tests {
    use super::super::page::page;
    use super::super::sample::sample;
    use super::super::table::table;
    use super::*;

    #[test]
    fn a_report_reads_back_as_it_was_written() {
        let text = written(&sample()).unwrap();
        let again: BenchReport = serde_json::from_str(&text).unwrap();
        assert_eq!(table(&again), table(&sample()));
        assert!(page(&again) == page(&sample()));
        assert!(text.starts_with("{\n  \"began\""));
        assert!(text.ends_with("}\n"));
    }
}
