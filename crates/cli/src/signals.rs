//! Ctrl-C and SIGTERM as a flag that loops look at.

use anyhow::{Context, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// True once the user wants the program to end.
#[derive(Clone, Debug)]
pub struct Ended(Arc<AtomicBool>);

impl Ended {
    /// Watches SIGINT and SIGTERM. A second one ends the program at once.
    pub fn watch() -> Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            // Order matters: the conditional one looks at the flag before the other sets it.
            signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
                .context("can't watch for Ctrl-C")?;
        }
        Ok(Ended(flag))
    }

    /// For those who look by themselves.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// True once it happened.
    pub fn is_ended(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
