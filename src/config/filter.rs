//! Filters of the log.

use super::error::{ConfigProblem, nearest, quoted};

pub(super) const FILTER_SUGGESTION: &str = "write a level (off, error, warn, info, debug, trace) or levels by module, such as \
                              \"info,nearside::sidecar=debug\"";

/// Checks a log filter. `EnvFilter` takes any word for a module, so a mistyped level would silence
/// the log: here a word by itself must be a level.
pub fn check_filter(text: &str) -> Result<(), ConfigProblem> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    for part in text.split(',').filter(|_| !text.contains('[')) {
        let level = part.rsplit('=').next().unwrap_or_default().trim().to_ascii_lowercase();
        if !LEVELS.contains(&level.as_str()) {
            let suggestion = match nearest(&level, LEVELS) {
                Some(known) => format!("did you mean \"{known}\"?"),
                None => FILTER_SUGGESTION.to_owned(),
            };
            return Err(ConfigProblem::new(format!("{} is not a level", quoted(&level)), suggestion));
        }
    }
    match tracing_subscriber::EnvFilter::builder().parse(text) {
        Ok(_) => Ok(()),
        Err(_) => Err(ConfigProblem::new(format!("{} is not a filter", quoted(text)), FILTER_SUGGESTION)),
    }
}
