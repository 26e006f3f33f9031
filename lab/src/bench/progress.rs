//! Progress of a measurement for people: a bar on a terminal, plain lines anywhere else. It goes to
//! standard error, because standard output belongs to the report. While a round is measured,
//! nothing is drawn except at its beginning.

use std::io::{IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// A bar that is redrawn in place.
    Bar,
    Lines,
    Hidden,
}

/// The progress of one scenario.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    bar: ProgressBar,
}

impl Progress {
    /// The kind that suits this process's standard error.
    pub(crate) fn for_stderr() -> Self {
        if std::io::stderr().is_terminal() { Self::Bar } else { Self::Lines }
    }

    /// Says that a scenario is done, and how long it took.
    pub(crate) fn took(self, name: &str, seconds: f64) {
        if self != Self::Hidden {
            // When standard error is closed, nobody is left to tell.
            let _ = writeln!(std::io::stderr().lock(), "{name}: {seconds:.0} s");
        }
    }

    /// Begins a scenario of `steps` steps.
    pub(crate) fn scenario(self, name: &str, steps: usize) -> ProgressLine {
        if self == Self::Lines {
            // When standard error is closed, nobody is left to tell.
            let _ = writeln!(std::io::stderr().lock(), "{name}: {steps} rounds");
        }
        let target = if self == Self::Bar { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(steps as u64), target);
        let style = ProgressStyle::with_template("{prefix:>14} {bar:30} {pos}/{len} {msg}");
        // The template is a constant; without it the bar only looks plainer.
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(name.to_owned());
        ProgressLine { bar }
    }
}

impl ProgressLine {
    /// Shows what begins now.
    pub(crate) fn doing(&self, what: &str) {
        self.bar.set_message(what.to_owned());
        self.bar.tick();
    }

    pub(crate) fn done_one(&self) {
        self.bar.inc(1);
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
