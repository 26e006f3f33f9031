//! Follows a refresh until it has ended.

use std::time::Duration;

use serde_json::{Value, json};

use super::ask::CtlClient;
use super::print;
use crate::admin::commands::jobs::JobsSeen;
use crate::admin::commands::refresh::Refreshing;
use crate::cli::error::CommandError;

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Prints the progress, and finally the result.
pub(super) fn refresh(asking: &CtlClient, begun: Value, as_json: bool) -> Result<(), CommandError> {
    let Ok(Refreshing { job: Some(job), .. }) = serde_json::from_value(begun.clone()) else {
        return print::reply("refresh", &begun, as_json);
    };
    let mut shown = None;
    loop {
        let reply = asking.command("jobs", &json!({}))?;
        let seen: JobsSeen =
            serde_json::from_value(reply).map_err(|error| CommandError::Failed(error.to_string()))?;
        let Some(now) = seen.jobs.into_iter().find(|seen| seen.job == job.job) else {
            return Err(CommandError::Failed(format!("job {} is no longer remembered", job.job)));
        };
        let ended = now.state != "running";
        if as_json && ended {
            return print::reply("jobs", &json!(JobsSeen { jobs: vec![now] }), true);
        }
        if !as_json && shown.as_ref() != Some(&(now.done, now.failed, now.state.clone())) {
            print::reply("jobs", &json!(JobsSeen { jobs: vec![now.clone()] }), false)?;
            shown = Some((now.done, now.failed, now.state));
        }
        if ended {
            return Ok(());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
