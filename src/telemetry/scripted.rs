//! Counts log lines in tests.

use std::io::{self, Write};
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::Dispatch;
use tracing::subscriber::{DefaultGuard, NoSubscriber, set_default};

/// The lines of this thread, until it is dropped.
pub(crate) struct CountedLines {
    page: Page,
    _guard: DefaultGuard,
    // With one alone, another test's thread that comes to a line first would decide for all that
    // nobody listens to it.
    _second: Dispatch,
}

#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl CountedLines {
    pub(crate) fn start() -> Self {
        let page = Page::default();
        let to = page.clone();
        let lines = tracing_subscriber::fmt().with_ansi(false).with_writer(move || to.clone()).finish();
        let second = Dispatch::new(NoSubscriber::new());
        Self { page, _guard: set_default(lines), _second: second }
    }

    /// The line that came most often, its fields aside, and how often it came.
    pub(crate) fn most(&self) -> (usize, String) {
        let mut counts = std::collections::BTreeMap::<String, usize>::new();
        for line in String::from_utf8_lossy(&self.page.0.lock()).lines() {
            // After the time, up to the first field.
            let said = line.split_once(' ').map_or(line, |(_, said)| said);
            *counts.entry(said.split('=').next().unwrap_or(said).to_owned()).or_default() += 1;
        }
        counts.into_iter().map(|(said, count)| (count, said)).max().unwrap_or_default()
    }

    /// Number of those with this in them.
    pub(crate) fn with(&self, part: &str) -> usize {
        let bytes = self.page.0.lock();
        String::from_utf8_lossy(&bytes).lines().filter(|line| line.contains(part)).count()
    }
}
