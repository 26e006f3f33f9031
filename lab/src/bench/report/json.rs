//! The report as JSON, and back. What was written reads back with every figure.

use crate::bench::result::BenchReport;

/// The report as JSON for people and programs, with a line break at the end.
pub(crate) fn written(report: &BenchReport) -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string_pretty(report)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::super::render::{page, text as table};
    use super::super::sample::sample;
    use super::*;

    #[test]
    fn report_round_trips_as_json() {
        let text = written(&sample()).unwrap();
        let again: BenchReport = serde_json::from_str(&text).unwrap();
        assert_eq!(table(&again).unwrap(), table(&sample()).unwrap());
        assert!(page(&again).unwrap() == page(&sample()).unwrap());
        assert!(text.starts_with("{\n  \"began\""));
        assert!(text.ends_with("}\n"));
    }
}
