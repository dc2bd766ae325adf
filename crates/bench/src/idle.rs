//! `idle`: memory and wake-ups of a router without traffic.

use crate::report::Row;
use crate::transfer::Place;
use anyhow::Result;
use std::time::Duration;

/// Measures the rows.
///
/// # Errors
/// If the router does not start.
pub fn run() -> Result<Vec<Row>> {
    const WATCHED: Duration = Duration::from_secs(5);
    let place = Place::new()?;
    let (mut rss, mut wakeups) = (Vec::new(), Vec::new());
    for run in 0..3 {
        let listen =
            "[faces.udp]\nlisten = [\"127.0.0.1:0\"]\n[faces.tcp]\nlisten = [\"127.0.0.1:0\"]\n";
        let (router, _) = place.router(&format!("idle{run}"), listen)?;
        std::thread::sleep(Duration::from_millis(500));
        let before = router.status("voluntary_ctxt_switches");
        std::thread::sleep(WATCHED);
        wakeups.push(
            (router.status("voluntary_ctxt_switches") - before) as f64 / WATCHED.as_secs_f64(),
        );
        rss.push(router.status("VmRSS") as f64 / 1024.0);
    }
    Ok(vec![Row::new("idle", "rss_mib", &rss), Row::new("idle", "wakeups_per_s", &wakeups)])
}
