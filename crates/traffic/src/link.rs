//! What a generator sends by and hears from, and the loop that turns it.

use super::generator::Generator;
use core::num::NonZeroU64;
use core::time::Duration;
use nw_name::NameRef;
use nw_wire::NackReason;

/// Requests between two looks at what came.
const BURST: usize = 64;

/// Something that came back.
#[derive(Clone, Copy, Debug)]
pub enum Arrival<'a> {
    /// An answer.
    Data {
        /// Its name.
        name: NameRef<'a>,
        /// Octets of the packet.
        octets: usize,
        /// The way it came is congested.
        is_marked: bool,
    },
    /// A refusal.
    Nack {
        /// Of the Interest.
        name: NameRef<'a>,
        /// Why.
        reason: NackReason,
    },
}

/// A way to where answers come from: a face to a router, a forwarding plane in memory, or a test's.
pub trait Link {
    /// Why it ended.
    type Error;

    /// Time since it began.
    fn now(&self) -> Duration;

    /// Queues an Interest that `write` appends to a buffer.
    fn send(&mut self, write: impl FnOnce(&mut Vec<u8>));

    /// Sends what is queued, waits at most so long, and shows what came and when. False when the user wants an end.
    ///
    /// # Errors
    /// When nothing can come any more.
    fn turn(
        &mut self,
        wait: Duration,
        arrived: impl FnMut(Duration, Arrival<'_>),
    ) -> Result<bool, Self::Error>;
}

/// Makes this thread wake when it wants to: else the kernel may let it sleep 50 µs longer. Where that is refused, the report shows the lateness.
pub fn wake_on_time() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Turns a generator until it is done. False when the user ended it before.
///
/// # Errors
/// When the link ended; what was measured so far stays in the generator.
pub fn drive<L: Link>(link: &mut L, generator: &mut Generator) -> Result<bool, L::Error> {
    generator.start(link.now());
    let mut goes_on = true;
    let mut result = Ok(());
    while goes_on {
        let now = link.now();
        generator.expire(now);
        for _ in 0..BURST {
            if !generator.is_due(now) {
                break;
            }
            if let Some(ask) = generator.ask(now) {
                link.send(|out| generator.write(ask, out));
            }
        }
        if generator.is_done(now) {
            break;
        }
        let wait = generator.wake(now).saturating_sub(now);
        match link.turn(wait, |now, arrival| generator.arrived(now, arrival)) {
            Ok(on) => goes_on = on,
            Err(error) => {
                goes_on = false;
                result = Err(error);
            }
        }
    }
    generator.end(link.now());
    result.map(|()| goes_on)
}
