//! Bars for transfers and spinners for work, on a terminal; plain notes
//! elsewhere; nothing under `--quiet` and `--json`.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::{self, Output};
use crate::sanitize;

/// Characters of a file name that fit before a bar.
const LABEL: usize = 32;
const TICK: Duration = Duration::from_millis(100);

/// One line of progress. It disappears when dropped, on success, failure and
/// Ctrl-C alike, so that the terminal is left as it was.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// `doing` completes "NAME …": "sending", "fetching".
    pub(crate) fn transfer(out: &Output, doing: &str, name: &str, total: u64) -> Self {
        let label = sanitize::bounded(name, LABEL);
        let bar = out.bars().map(|bars| {
            let bar = bars.add(ProgressBar::new(total));
            bar.set_style(style(
                "{prefix} {msg} [{bar:24}] {bytes}/{total_bytes} {bytes_per_sec} {eta}",
            ));
            bar.set_prefix(doing.to_owned());
            bar.set_message(label.clone());
            bar
        });
        if bar.is_none() {
            out.note(&format!("{doing} {label} ({})", output::size(total)));
        }
        Self { bar }
    }

    /// A spinner with the time since it began.
    pub(crate) fn work(out: &Output, name: &str, state: &str) -> Self {
        let bar = out.bars().map(|bars| {
            let bar = bars.add(ProgressBar::new_spinner());
            bar.set_style(style("{spinner} {prefix} {msg} {elapsed}"));
            bar.set_prefix(sanitize::bounded(name, LABEL));
            bar.set_message(sanitize::bounded(state, LABEL));
            bar.enable_steady_tick(TICK);
            bar
        });
        if bar.is_none() {
            out.note(&format!("{name} is {state}"));
        }
        Self { bar }
    }

    pub(crate) fn position(&self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(bytes);
        }
    }

    /// A new state of the same work.
    pub(crate) fn state(&self, out: &Output, name: &str, state: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(sanitize::bounded(state, LABEL)),
            None => out.note(&format!("{name} is {state}")),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The templates are this file's own; a wrong one degrades to a plain bar.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_valid() {
        for template in [
            "{prefix} {msg} [{bar:24}] {bytes}/{total_bytes} {bytes_per_sec} {eta}",
            "{spinner} {prefix} {msg} {elapsed}",
        ] {
            assert!(ProgressStyle::with_template(template).is_ok());
        }
    }
}
