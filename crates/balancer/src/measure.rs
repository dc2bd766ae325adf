//! What a member carries: Interests that its agent answers at its other end, as many as come back, while it takes no names.
//!
//! It is measured and not computed from processor time, because what bounds a member may as well be a link, a quota or its agent; and a router need
//! tell nothing for it. The balancer's own rate is a bound: members that are faster than it all weigh the same.

use crate::config::Measure;
use crate::probe::{self, Echo};
use core::time::Duration;
use nw_name::Name;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Instant;

/// Of the time, this part is to get going and does not count.
const WARM_UP: u32 = 5;
/// When nothing comes back for so long, what is on its way is lost.
const SILENCE: Duration = Duration::from_millis(50);

/// Interests a second that came back through the member at `address`.
///
/// # Errors
/// When nothing can be sent, or nothing comes back.
pub fn measure(address: SocketAddr, prefix: &Name, options: &Measure) -> io::Result<u32> {
    let own: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(own)?;
    socket.set_read_timeout(Some(SILENCE))?;
    let mut number = [0; 8];
    getrandom::fill(&mut number).map_err(|_| io::Error::other("no random octets"))?;
    let mut number = u64::from_ne_bytes(number);
    let duration = Duration::from_millis(u64::from(options.duration_ms));
    let (start, warm) = (Instant::now(), duration / WARM_UP);
    let (mut open, mut counted, mut back) = (0, 0u32, 0u32);
    let mut buffer = vec![0; 9000];
    while start.elapsed() < duration {
        while open < options.window {
            number = number.wrapping_add(1);
            socket.send_to(&probe::load_interest(prefix, options.content_len, number), address)?;
            open += 1;
        }
        match socket.recv_from(&mut buffer) {
            Ok((len, from)) if from == address => {
                if let Some(Echo::Back(_)) = probe::read(prefix, &buffer[..len]) {
                    open = open.saturating_sub(1);
                    back += 1;
                    counted += u32::from(start.elapsed() >= warm);
                }
            }
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                open = 0
            }
            Err(error) => return Err(error),
        }
    }
    if back == 0 {
        return Err(io::Error::other("no Interest came back through it"));
    }
    Ok((f64::from(counted) / (duration - warm).as_secs_f64()) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_wire::{DataBuilder, DigestSha256, Interest};

    #[test]
    fn a_slow_member_is_measured_as_slow() {
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
        let per_s = measure(address, &probe::prefix("c", "m"), &options).unwrap();
        assert!((20..=200).contains(&per_s), "{per_s}");
        let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
        let error = measure(nobody.local_addr().unwrap(), &probe::prefix("c", "m"), &options).unwrap_err();
        assert!(error.to_string().contains("no Interest came back"), "{error}");
    }
}
