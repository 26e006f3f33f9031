//! Owns where log lines go: standard error, as JSON or for people, through an env-filter.
//!
//! Before it: the configuration's `[log]`. After it: whoever collects standard error; standard output belongs to
//! commands that print. Invariant: it is set once per process; nothing that a caller or a region sent as body, token
//! or key is given to it (the call sites hold that, the tests of each stage check it).

use std::io::IsTerminal;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::config::Log;

/// For commands that do one thing in a terminal: warnings and what they did, for people.
pub fn for_commands() -> Log {
    Log { json: false, filter: "nearside=info,warn".to_owned() }
}

/// Why logging could not be set up: the settings' fault; a retry does not help.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// `log.filter` is no env-filter.
    #[error(
        "log.filter is not understood: {0}; write a level (`info`) or targets with levels (`nearside=debug,warn`)"
    )]
    Filter(#[from] tracing_subscriber::filter::ParseError),
}

/// Sends this process's log lines to standard error from now on.
///
/// Where a subscriber is already set (a test's, an embedding program's) it stays, and this does nothing.
pub fn init(settings: &Log) -> Result<(), LogError> {
    let lines = subscriber(settings, std::io::stderr, std::io::stderr().is_terminal())?;
    if tracing::subscriber::set_global_default(lines).is_err() {
        tracing::debug!("a subscriber is already set; it stays");
    }
    Ok(())
}

fn filter(text: &str) -> Result<EnvFilter, LogError> {
    Ok(EnvFilter::builder().with_default_directive(LevelFilter::INFO.into()).parse(text)?)
}

fn subscriber<W>(settings: &Log, to: W, colours: bool) -> Result<Box<dyn tracing::Subscriber + Send + Sync>, LogError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt().with_env_filter(filter(&settings.filter)?).with_writer(to);
    Ok(if settings.json {
        Box::new(lines.json().flatten_event(true).with_span_list(false).finish())
    } else {
        Box::new(lines.with_ansi(colours).with_target(false).finish())
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(json: bool, filter: &str, say: impl FnOnce()) -> String {
        let page = Page::default();
        let to = page.clone();
        let settings = Log { json, filter: filter.to_owned() };
        let lines = subscriber(&settings, move || to.clone(), false).unwrap();
        tracing::subscriber::with_default(lines, say);
        let bytes = page.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn json_lines_are_objects_with_the_fields_beside_the_message() {
        let text = logged(true, "info", || tracing::info!(region = "eu-west-1", "subscribed"));
        let line: serde_json::Value = serde_json::from_str(text.trim_end()).unwrap();
        assert_eq!((&line["message"], &line["region"]), (&"subscribed".into(), &"eu-west-1".into()));
    }

    #[test]
    fn the_filter_decides_what_is_written() {
        let say = || {
            tracing::info!("not this");
            tracing::warn!("but this");
        };
        let text = logged(false, "warn", say);
        assert!(text.contains("but this") && !text.contains("not this"), "{text}");
        assert!(!text.contains('\u{1b}'), "no colours off a terminal: {text:?}");
    }

    #[test]
    fn a_filter_that_is_none_is_an_error_that_says_what_to_write() {
        let error = filter("nearside=loud").unwrap_err();
        assert!(error.to_string().contains("write a level"), "{error}");
        assert!(filter("nearside=debug,warn").is_ok());
    }
}
