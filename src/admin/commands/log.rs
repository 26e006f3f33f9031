//! `log`: shows or changes the log filter.

use serde::{Deserialize, Serialize};

use super::refused::CommandRefused;
use crate::telemetry::log;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Logging {
    /// The filter that holds now.
    pub filter: String,
    /// The filter before it, if the command changed it.
    pub before: Option<String>,
}

pub(super) fn log(filter: Option<String>) -> Result<Logging, CommandRefused> {
    Ok(match filter {
        Some(filter) => Logging { before: Some(log::change(&filter)?), filter },
        None => Logging { filter: log::filter()?, before: None },
    })
}
