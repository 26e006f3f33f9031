//! `log`: the filter of what is logged, shown or changed.

use serde::{Deserialize, Serialize};

use super::Refused;
use crate::telemetry::log;

/// What is logged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Logging {
    /// The filter that holds now.
    pub filter: String,
    /// The one before, when the act changed it.
    pub before: Option<String>,
}

pub(super) fn log(filter: Option<String>) -> Result<Logging, Refused> {
    Ok(match filter {
        Some(filter) => Logging { before: Some(log::change(&filter)?), filter },
        None => Logging { filter: log::filter()?, before: None },
    })
}
