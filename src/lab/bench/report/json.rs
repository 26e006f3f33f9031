//! The report as JSON, and back. What was written reads back with every figure that is shown.

use thiserror::Error;

use crate::lab::bench::result::BenchReport;

#[derive(Debug, Error)]
pub enum JsonError {
    /// A figure that JSON cannot express.
    #[error("the report cannot be written as JSON: {0}; this is a defect of the harness, please report it")]
    Write(serde_json::Error),
    /// Not a report, or one of another version.
    #[error("this is no report of `nearside bench`: {0}; give the JSON file that a run of this version wrote")]
    Read(serde_json::Error),
}

/// The report as JSON for people and programs, with a line break at the end.
pub fn written(report: &BenchReport) -> Result<String, JsonError> {
    let text = serde_json::to_string_pretty(report).map_err(JsonError::Write)?;
    Ok(text + "\n")
}

pub fn read(text: &str) -> Result<BenchReport, JsonError> {
    serde_json::from_str(text).map_err(JsonError::Read)
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
        let again = read(&text).unwrap();
        assert_eq!(table(&again), table(&sample()));
        assert!(page(&again) == page(&sample()));
        assert!(text.starts_with("{\n  \"began\""));
        assert!(text.ends_with("}\n"));
    }

    #[test]
    fn a_file_that_is_no_report_is_told_apart() {
        let error = read("{\"began\": 3}").unwrap_err().to_string();
        assert!(error.starts_with("this is no report of `nearside bench`"), "{error}");
    }
}
