//! Owns what a person sees while it is measured: a bar on a terminal, plain lines anywhere else.
//!
//! Before it: [`super::run`] begins and ends rounds. After it: standard error. Invariant: standard output is left to the
//! report; nothing is drawn while a round is measured but when it begins.

use std::io::{IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A bar that is drawn over.
    Bar,
    /// A line per scenario.
    Lines,
    /// Not at all.
    Hidden,
}

/// One scenario's.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
}

impl Progress {
    /// What suits this process's standard error.
    pub fn for_stderr() -> Self {
        if std::io::stderr().is_terminal() { Self::Bar } else { Self::Lines }
    }

    /// A scenario is done.
    pub fn took(self, name: &str, seconds: f64) {
        if self != Self::Hidden {
            // Nobody is left to tell when standard error is closed.
            let _ = writeln!(std::io::stderr().lock(), "{name}: {seconds:.0} s");
        }
    }

    /// A scenario of so many steps begins.
    pub fn scenario(self, name: &str, steps: usize) -> Bar {
        if self == Self::Lines {
            // Nobody is left to tell when standard error is closed.
            let _ = writeln!(std::io::stderr().lock(), "{name}: {steps} rounds");
        }
        let target = if self == Self::Bar { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(steps as u64), target);
        let style = ProgressStyle::with_template("{prefix:>14} {bar:30} {pos}/{len} {msg}");
        // The template is a constant; without it a bar looks plainer.
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(name.to_owned());
        Bar { bar }
    }
}

impl Bar {
    /// What begins now.
    pub fn doing(&self, what: &str) {
        self.bar.set_message(what.to_owned());
        self.bar.tick();
    }

    /// A step is done.
    pub fn done_one(&self) {
        self.bar.inc(1);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
