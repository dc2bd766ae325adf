//! Ctrl-C and SIGTERM as a flag that loops check.

use anyhow::{Context, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that is set by SIGINT or SIGTERM. Clones share the flag.
#[derive(Clone, Debug)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Watches SIGINT and SIGTERM. A second one ends the program at once.
    pub fn watch() -> Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            // Order matters: the conditional handler reads the flag before the other one sets it.
            signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
                .context("can't watch for Ctrl-C")?;
        }
        Ok(StopFlag(flag))
    }

    /// Returns the shared flag, for libraries that check it themselves.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Returns whether a signal has arrived.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
