//! The link between a generator and a router, and the loop that drives a generator over it.

use super::generator::Generator;
use core::num::NonZeroU64;
use core::time::Duration;
use nw_name::NameRef;
use nw_wire::NackReason;

/// Requests sent before replies are read again.
const REQUESTS_PER_POLL: usize = 64;

/// A reply to an Interest.
#[derive(Clone, Copy, Debug)]
pub enum Reply<'a> {
    /// A Data packet.
    Data {
        /// Name of the Data.
        name: NameRef<'a>,
        /// Length of the packet in bytes.
        len: usize,
        /// Whether it carries a congestion mark.
        is_marked: bool,
    },
    /// A Nack.
    Nack {
        /// Name of the Interest.
        name: NameRef<'a>,
        /// Reason of the Nack.
        reason: NackReason,
    },
}

/// A link to the end that answers: a face of a router, a forwarding plane in memory, or a test
/// link.
pub trait Link {
    /// Why the link failed.
    type Error;

    /// Returns the time since the link was opened.
    fn now(&self) -> Duration;

    /// Queues an Interest, which `write` appends to a buffer.
    fn send(&mut self, write: impl FnOnce(&mut Vec<u8>));

    /// Sends the queued Interests, waits for at most `wait`, and passes each reply with its time to
    /// `on_reply`. Returns false if the user has stopped the run.
    ///
    /// # Errors
    /// If the link has failed.
    fn poll(
        &mut self,
        wait: Duration,
        on_reply: impl FnMut(Duration, Reply<'_>),
    ) -> Result<bool, Self::Error>;
}

/// Sets the timer slack of this thread to 1 ns, so that it wakes on time: the default allows 50 µs
/// more. If the kernel refuses, the report shows the lateness.
pub fn wake_on_time() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Drives a generator until it is done. Returns false if the user stopped it before.
///
/// # Errors
/// If the link fails. The generator keeps what it measured until then.
pub fn drive<L: Link>(link: &mut L, generator: &mut Generator) -> Result<bool, L::Error> {
    generator.start(link.now());
    let mut running = true;
    let mut result = Ok(());
    while running {
        let now = link.now();
        generator.expire(now);
        for _ in 0..REQUESTS_PER_POLL {
            if !generator.is_due(now) {
                break;
            }
            if let Some(interest) = generator.next_interest(now) {
                link.send(|out| generator.encode(interest, out));
            }
        }
        if generator.is_done(now) {
            break;
        }
        let wait = generator.next_wake(now).saturating_sub(now);
        match link.poll(wait, |now, reply| generator.on_reply(now, reply)) {
            Ok(is_running) => running = is_running,
            Err(error) => {
                running = false;
                result = Err(error);
            }
        }
    }
    generator.finish(link.now());
    result.map(|()| running)
}
