//! Measures what a member forwards: Interests that its agent answers on its far side, while the
//! member takes no names.
//!
//! The rate is measured and not computed from processor time, because the bottleneck may be a link,
//! a CPU quota or the agent. The balancer's own rate is an upper bound: all members faster than it
//! get the same weight.

use crate::config::Measure;
use crate::probe::{self, ProbeAnswer};
use core::time::Duration;
use nw_name::Name;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Instant;

/// 1/n of the duration is warm-up and does not count.
const WARM_UP: u32 = 5;
/// After this time without an answer, all outstanding Interests are taken for lost.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(50);

/// Returns the rate of the member at `address`, Interests per second.
///
/// # Errors
/// Nothing can be sent, or no Interest is answered.
pub fn measure_rate(address: SocketAddr, prefix: &Name, options: &Measure) -> io::Result<u32> {
    let own: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(own)?;
    socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let mut number = [0; 8];
    getrandom::fill(&mut number).map_err(|_| io::Error::other("no random bytes"))?;
    let mut number = u64::from_ne_bytes(number);
    let duration = Duration::from_millis(u64::from(options.duration_ms));
    let (start, warm) = (Instant::now(), duration / WARM_UP);
    let (mut outstanding, mut counted, mut answered) = (0, 0u32, 0u32);
    let mut buffer = vec![0; 9000];
    while start.elapsed() < duration {
        while outstanding < options.window {
            number = number.wrapping_add(1);
            socket.send_to(&probe::load_interest(prefix, options.content_len, number), address)?;
            outstanding += 1;
        }
        match socket.recv_from(&mut buffer) {
            Ok((len, from)) if from == address => {
                if let Some(ProbeAnswer::Data(_)) = probe::read(prefix, &buffer[..len]) {
                    outstanding = outstanding.saturating_sub(1);
                    answered += 1;
                    counted += u32::from(start.elapsed() >= warm);
                }
            }
            Ok(_) => {}
            Err(error)
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
            {
                outstanding = 0
            }
            Err(error) => return Err(error),
        }
    }
    if answered == 0 {
        return Err(io::Error::other("no Interest was answered through it"));
    }
    Ok((f64::from(counted) / (duration - warm).as_secs_f64()) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_wire::{DataBuilder, DigestSha256, Interest};

    #[test]
    fn rate_of_a_slow_member_is_measured() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 9000];
            while let Ok((len, from)) = socket.recv_from(&mut buffer) {
                let name = Interest::check(&buffer[..len]).unwrap().name().to_name();
                let Ok(wire) = DataBuilder::new(&name, &[b'n'; 10]).encode(&DigestSha256);
                std::thread::sleep(Duration::from_millis(5));
                let _ = socket.send_to(&wire, from);
            }
        });
        let options = Measure { duration_ms: 500, window: 8, content_len: 10 };
        let per_s = measure_rate(address, &probe::prefix("c", "m"), &options).unwrap();
        assert!((20..=200).contains(&per_s), "{per_s}");
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let error = measure_rate(silent.local_addr().unwrap(), &probe::prefix("c", "m"), &options)
            .unwrap_err();
        assert!(error.to_string().contains("no Interest was answered"), "{error}");
    }
}
