//! AF_XDP for both ends of `forward/veth/xdp` and its null forwarder, with the rings, frames and
//! kernel program of the router.

use super::path::{self, LEFT, Position, RIGHT, WIRE};
use anyhow::{Context, Result, anyhow};
use nw_faces::mac::Mac;
use nw_faces::xdp::Port;
use nw_faces::xdp::frame::{self, Body};
use nw_faces::xdp::rings::Xsk;
use nw_traffic::xdp::{FRAMES, FrameHeaders, interface, open};
use rustix::event::{PollFd, PollFlags, poll};

/// An end over AF_XDP.
#[derive(Debug)]
pub struct XdpEnd {
    port: Port,
    heads: FrameHeaders,
}

impl XdpEnd {
    /// Opens the end in its namespace; `middle` is the forwarder's namespace.
    ///
    /// # Errors
    /// If AF_XDP is not available.
    pub fn open(namespace: &str, middle: &str, place: Position, port: u16) -> Result<Self> {
        let towards = if place == Position::Downstream { LEFT } else { RIGHT };
        let mac = path::within(middle, || Ok(interface(towards)?.mac))?
            .context("the forwarder has no interface")?;
        let open = path::within(namespace, || Ok(open(&interface(WIRE)?, &[port], false)?))?;
        let ends = (path::end_address(place, port), path::forwarder_address(place, port));
        let heads = FrameHeaders::udp((open.mac, mac), ends).context("addresses of two kinds")?;
        Ok(XdpEnd { port: open, heads })
    }

    /// Writes a datagram to the ring. It is lost if the ring is full, as on a wire.
    pub fn write(&mut self, datagram: &[u8]) {
        self.heads.put([datagram, &[]], &mut self.port);
    }

    /// Sends the ring's frames.
    pub fn send(&mut self) {
        let _ = self.port.kick();
    }

    /// Reads the received datagrams and returns their number.
    pub fn receive(&mut self, mut each: impl FnMut(&[u8])) -> usize {
        let mut count = 0;
        for xsk in &mut self.port.queues {
            xsk.receive(FRAMES, |bytes| {
                if let Ok(frame::ParsedFrame { body: Body::Udp { payload, .. }, .. }) =
                    frame::read(bytes)
                {
                    each(&bytes[payload]);
                    count += 1;
                }
                true
            });
        }
        count
    }

    /// Returns the socket, to be polled.
    pub fn socket(&self) -> &Xsk {
        &self.port.queues[0]
    }
}

/// Forwards datagrams between both interfaces until the process is ended, with one copy from ring
/// to ring and without a lookup.
///
/// # Errors
/// If AF_XDP is not available.
pub fn forward(port: u16) -> Result<()> {
    let side = |name| open(&interface(name)?, &[port], false);
    let mut sides = [side(LEFT)?, side(RIGHT)?];
    let ends = [Position::Downstream, Position::Answerer]
        .map(|end| (path::forwarder_address(end, port), path::end_address(end, port)));
    // The last peer seen at each interface.
    let mut heads: [Option<(Mac, FrameHeaders)>; 2] = [None, None];
    loop {
        let mut ready: Vec<PollFd<'_>> = sides
            .iter()
            .flat_map(|side| &side.queues)
            .map(|xsk| PollFd::new(xsk, PollFlags::IN))
            .collect();
        poll(&mut ready, None)?;
        for (from, ends) in ends.into_iter().enumerate() {
            let [left, right] = &mut sides;
            let (near, there) = if from == 0 { (left, right) } else { (right, left) };
            let own = near.mac;
            for xsk in &mut near.queues {
                let [left, right] = &mut heads;
                let (back, on) = if from == 0 { (left, &*right) } else { (right, &*left) };
                xsk.receive(FRAMES, |bytes| {
                    let Ok(frame::ParsedFrame { source, body: Body::Udp { payload, .. }, .. }) =
                        frame::read(bytes)
                    else {
                        return true;
                    };
                    if back.as_ref().is_none_or(|(known, _)| *known != source) {
                        *back = FrameHeaders::udp((own, source), ends).map(|heads| (source, heads));
                    }
                    if let Some((_, heads)) = on {
                        heads.put([&bytes[payload], &[]], there);
                    }
                    true
                });
            }
        }
        for side in &mut sides {
            side.kick().map_err(|errno| anyhow!("an interface is gone: {errno}"))?;
        }
    }
}
