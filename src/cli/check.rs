//! Owns `nearside check`: the effective settings and where each came from, or every mistake.
//!
//! Before it: the command line. After it: a person, or a pipeline that goes by the exit code. Invariant: standard
//! output carries a configuration that can be loaded again, or nothing.

use std::io::Write;
use std::path::Path;

use super::{CommandError, paint, tell, variables};
use crate::config::{effective, read};

/// Reads the configuration as `nearside run` would, and tells what it came to.
pub(super) fn check(path: Option<&Path>) -> Result<(), CommandError> {
    let (config, origins) = match read::load(path, variables()) {
        Ok(loaded) => loaded,
        Err(mistakes) => {
            tell(&mistakes);
            return Err(CommandError::Usage(String::new()));
        }
    };
    let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
    let told = || -> std::io::Result<()> {
        let mut out = stdout.lock();
        effective::print(&mut out, &origins, paint::Styles::of(&stdout).settings)?;
        out.flush()?;
        let mut err = stderr.lock();
        paint::warnings(&mut err, &origins.warnings, paint::Styles::of(&stderr))?;
        writeln!(
            err,
            "no mistakes: {}, {}, {}",
            count(config.service.regions.len(), "region"),
            count(config.service.routes.len(), "route"),
            count(origins.warnings.len(), "warning")
        )
    };
    told().map_err(|error| CommandError::Failed(format!("the settings could not be printed: {error}")))
}

fn count(number: usize, of: &str) -> String {
    if number == 1 { format!("1 {of}") } else { format!("{number} {of}s") }
}
