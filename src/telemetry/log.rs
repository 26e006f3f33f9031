//! Sends log lines to standard error, as JSON or for people, through an env-filter.
//!
//! Lines are queued and written by a thread of their own (`telemetry::sink`): a log that nobody reads,
//! or that cannot be written, costs lines and nothing else. It is set up once per process. Standard output belongs to commands that print. No body, token or
//! key that a caller or a region sent is logged: the call sites see to that, and the tests of each
//! stage check it.

use std::io::{IsTerminal, Write};
use std::sync::OnceLock;

use parking_lot::{Mutex, MutexGuard};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use super::rate_limiter::RateLimiter;
use super::sink::LogSink;
use crate::config::{Log, LogFormat, check_filter};
use crate::model::time::Clock;

/// For commands that do one thing in a terminal: warnings and what they did, for people.
pub(crate) fn for_commands() -> Log {
    Log { format: LogFormat::Human, filter: "nearside=info,warn".to_owned(), ..Default::default() }
}

/// Why logging could not be set up. The settings are at fault, and a retry does not help.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// `log.filter` is not an env-filter.
    #[error(
        "log.filter is not understood: {0}; write a level (`info`) or targets with levels (`nearside=debug,warn`)"
    )]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    #[error("{what}: {instead}")]
    Level { what: String, instead: String },
    /// Another subscriber receives this process's lines.
    #[error("this process's log was set up by another program: its filter cannot be changed here")]
    NotOurs,
    /// The machine gave no thread for the log. A limit on processes may be too low.
    #[error("the thread that writes the log could not be started: {0}; raise the limit on processes and threads")]
    Thread(std::io::Error),
}

/// The process's filter, which can change while it runs.
struct Changeable {
    swap: Swap,
    /// The filter as it was last written.
    text: Mutex<String>,
}

/// Replaces the current filter; false if the subscriber has gone.
type Swap = Box<dyn Fn(EnvFilter) -> bool + Send + Sync>;

static FILTER: OnceLock<Changeable> = OnceLock::new();
/// Destination of this process's lines, once that is set up.
static SINK: OnceLock<LogSink> = OnceLock::new();

/// The current filter, as it was written.
///
/// # Errors
/// [`LogError::NotOurs`]
pub(crate) fn filter() -> Result<String, LogError> {
    FILTER.get().map(|filter| filter.text().clone()).ok_or(LogError::NotOurs)
}

/// Replaces the filter and returns the previous one.
///
/// # Errors
/// If `text` is not a filter, the previous one stays. [`LogError::NotOurs`] if another subscriber
/// is set.
pub(crate) fn change(text: &str) -> Result<String, LogError> {
    let known = FILTER.get().ok_or(LogError::NotOurs)?;
    check_filter(text).map_err(|wrong| LogError::Level { what: wrong.what, instead: wrong.suggestion })?;
    let filter = read_filter(text)?;
    let mut shown = known.text();
    if !(known.swap)(filter) {
        return Err(LogError::NotOurs);
    }
    Ok(std::mem::replace(&mut shown, text.to_owned()))
}

impl Changeable {
    fn text(&self) -> MutexGuard<'_, String> {
        // The text is replaced as a whole, so a panic elsewhere cannot leave half of it.
        self.text.lock()
    }
}

/// Sends this process's log lines to standard error from now on.
///
/// Does nothing if a subscriber is already set, by a test or an embedding program.
pub fn init(settings: &Log) -> Result<(), LogError> {
    if SINK.get().is_some() {
        return Ok(());
    }
    let sink = LogSink::start(std::io::stderr()).map_err(LogError::Thread)?;
    let (lines, swap) = subscriber(settings, sink.clone(), std::io::stderr().is_terminal())?;
    if tracing::subscriber::set_global_default(lines).is_err() {
        tracing::debug!("a subscriber is already set; it stays");
    } else {
        let _ = FILTER.set(Changeable { swap, text: Mutex::new(settings.filter.clone()) });
        let _ = SINK.set(sink);
        std::panic::set_hook(Box::new(log_panic));
    }
    Ok(())
}

/// Ration of panics' lines: a caller that finds a request that panics can send it again and again.
static PANIC_LINES: RateLimiter = RateLimiter::new();

/// Logs a panic. The hook of the standard library would write from the thread that panicked, and
/// wait for the reader of the log.
fn log_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let Some(suppressed) = PANIC_LINES.admit(Clock::System.now()) else { return };
    let (thread, place) = (std::thread::current(), panic.location().map(ToString::to_string));
    let what = panic.payload_as_str().unwrap_or("no text");
    let backtrace = std::backtrace::Backtrace::capture();
    let backtrace = (backtrace.status() == std::backtrace::BacktraceStatus::Captured).then(|| backtrace.to_string());
    tracing::error!(thread = thread.name(), place, backtrace, suppressed, "a thread panicked: {what}");
}

/// Writes a line to standard error: through the log's queue where there is one, else at once. An
/// error leaves nobody to report it to.
pub(crate) fn last_words(line: &str) {
    match SINK.get() {
        Some(sink) => sink.push(format!("{line}\n").as_bytes()),
        None => drop(writeln!(std::io::stderr().lock(), "{line}")),
    }
}

/// Writes what is still queued when it is dropped, under a short deadline.
pub(crate) struct FlushAtExit;

impl Drop for FlushAtExit {
    fn drop(&mut self) {
        if let Some(sink) = SINK.get() {
            sink.flush();
        }
    }
}

/// The line that says how many were lost.
const LOSSES: &str = "nearside::telemetry::sink";

/// Target of operators' commands: only a filter that names this target silences it.
const COMMANDS: &str = "nearside::admin::commands";

/// Crates that would drown our lines when a filter asks for everything, so they stay at `info`
/// unless the filter names them.
const OTHERS: [&str; 12] = [
    "aws_config",
    "aws_runtime",
    "aws_sdk_sns",
    "aws_sdk_sqs",
    "aws_smithy_http_client",
    "aws_smithy_runtime",
    "aws_smithy_runtime_api",
    "h2",
    "hickory_resolver",
    "hyper",
    "hyper_util",
    "rustls",
];

/// True if a part of a filter asks for much of everything.
fn is_verbose_for_all(part: &str) -> bool {
    ["debug", "trace"].contains(&part.trim().to_ascii_lowercase().as_str())
}

fn read_filter(text: &str) -> Result<EnvFilter, LogError> {
    let mut filter = EnvFilter::builder().with_default_directive(LevelFilter::INFO.into()).parse(text)?;
    if text.split(',').any(is_verbose_for_all) {
        for other in OTHERS.iter().filter(|other| !text.contains(**other)) {
            filter = filter.add_directive(format!("{other}=info").parse()?);
        }
    }
    for always in [COMMANDS, LOSSES].iter().filter(|always| !text.contains(**always)) {
        filter = filter.add_directive(format!("{always}=info").parse()?);
    }
    Ok(filter)
}

type Subscriber = Box<dyn tracing::Subscriber + Send + Sync>;

fn subscriber<W>(settings: &Log, to: W, colours: bool) -> Result<(Subscriber, Swap), LogError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt().with_env_filter(read_filter(&settings.filter)?).with_writer(to);
    // The fallback for what cannot be formatted writes to standard error, and panics if it cannot.
    let lines = lines.log_internal_errors(false);
    Ok(if settings.format == LogFormat::Json {
        let lines = lines.json().flatten_event(true).with_span_list(false).with_filter_reloading();
        let handle = lines.reload_handle();
        (Box::new(lines.finish()), Box::new(move |filter| handle.reload(filter).is_ok()))
    } else {
        let lines = lines.with_ansi(colours).with_target(false).with_filter_reloading();
        let handle = lines.reload_handle();
        (Box::new(lines.finish()), Box::new(move |filter| handle.reload(filter).is_ok()))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(json: bool, filter: &str, say: impl FnOnce()) -> String {
        let page = Page::default();
        let to = page.clone();
        let format = if json { LogFormat::Json } else { LogFormat::Human };
        let settings = Log { format, filter: filter.to_owned(), ..Default::default() };
        let (lines, _) = subscriber(&settings, move || to.clone(), false).unwrap();
        tracing::subscriber::with_default(lines, say);
        let bytes = page.0.lock().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn json_lines_put_fields_beside_message() {
        let text = logged(true, "info", || tracing::info!(region = "eu-west-1", "subscribed"));
        let line: serde_json::Value = serde_json::from_str(text.trim_end()).unwrap();
        assert_eq!((&line["message"], &line["region"]), (&"subscribed".into(), &"eu-west-1".into()));
    }

    #[test]
    fn operator_commands_are_logged_despite_filter() {
        assert!(logged(false, "off", command).contains("an operator's command"));
        assert!(logged(false, "error", command).contains("an operator's command"));
        assert_eq!(logged(false, "info,nearside::admin::commands=off", command), "");
    }

    fn command() {
        tracing::info!(target: "nearside::admin::commands", "an operator's command");
    }

    #[test]
    fn the_filter_decides_what_is_written() {
        let text = logged(false, "warn", || {
            tracing::info!("not this");
            tracing::warn!("but this");
        });
        assert!(text.contains("but this") && !text.contains("not this"), "{text}");
        assert!(!text.contains('\u{1b}'), "no colours off a terminal: {text:?}");
    }

    #[test]
    fn debug_omits_unnamed_sdk_lines() {
        let text = logged(false, "debug", debug);
        assert!(text.contains("ours") && !text.contains("theirs"), "{text}");
        assert!(logged(false, "debug,aws_smithy_runtime=debug", debug).contains("theirs"));
        assert_eq!(logged(false, "error", debug), "");
    }

    fn debug() {
        tracing::debug!(target: "nearside::sidecar", "ours");
        tracing::debug!(target: "aws_smithy_runtime::client", "theirs");
    }

    #[test]
    fn invalid_filter_error_names_remedy() {
        let error = read_filter("nearside=loud").unwrap_err();
        assert!(error.to_string().contains("write a level"), "{error}");
        assert!(read_filter("nearside=debug,warn").is_ok());
    }

    #[test]
    fn filter_changes_while_lines_are_written() {
        let page = Page::default();
        let to = page.clone();
        let (lines, swap) = subscriber(
            &Log { format: LogFormat::Json, filter: "warn".to_owned(), ..Default::default() },
            move || to.clone(),
            false,
        )
        .unwrap();
        tracing::subscriber::with_default(lines, || {
            tracing::info!("before");
            assert!(swap(read_filter("info").unwrap()));
            tracing::info!("after");
        });
        let text = String::from_utf8(page.0.lock().clone()).unwrap();
        assert!(text.contains("after") && !text.contains("before"), "{text}");
        assert!(!swap(read_filter("info").unwrap()), "nobody is left to filter for");
    }
}
