//! AF_XDP for both ends of `forward/veth/xdp` and for its null forwarder: the rings, frames and kernel program that a router uses.

use super::path::{self, LEFT, Place, RIGHT, WIRE};
use anyhow::{Context, Result, anyhow};
use nw_faces::interfaces::Interfaces;
use nw_faces::mac::Mac;
use nw_faces::xdp::frame::{self, Body, Heads};
use nw_faces::xdp::rings::Xsk;
use nw_faces::xdp::{Port, Steered, Steering, SteeringError, Wanted};
use nw_kernel::{XdpMode, XdpOptions, XdpSteering};
use nw_name::HashKey;
use rustix::event::{PollFd, PollFlags, poll};
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

/// Frames of one ring before others have their turn, as a router takes.
const FRAMES: u32 = 256;

#[derive(Debug)]
struct Program;

#[derive(Debug)]
struct Attached(XdpSteering, XdpMode);

impl Steering for Program {
    fn attach(&mut self, wanted: &Wanted<'_>) -> Result<Box<dyn Steered>, SteeringError> {
        let group = wanted.group.unwrap_or(Mac::NDN_GROUP);
        let options = XdpOptions {
            ports: wanted.ports.to_vec(),
            ethernet: wanted.group.is_some(),
            only: Some([wanted.mac.0, group.0]),
        };
        let mut steering = XdpSteering::load(&HashKey::new([1, 2, 3, 4]), wanted.queues, 1, &options)?;
        let mode = steering.attach(wanted.interface, None)?;
        Ok(Box::new(Attached(steering, mode)))
    }
}

impl Steered for Attached {
    fn is_native(&self) -> bool {
        self.1 == XdpMode::Native
    }

    fn set_socket(&mut self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), SteeringError> {
        Ok(self.0.set_socket(queue, 0, socket)?)
    }

    fn set_destinations(&mut self, addresses: &[IpAddr]) -> Result<(), SteeringError> {
        Ok(self.0.set_destinations(addresses)?)
    }
}

/// Opens an interface of the namespace this thread is in.
fn open(interface: &str, port: u16) -> Result<Port> {
    let interfaces = Interfaces::watch()?;
    let interface = interfaces.named(interface).with_context(|| format!("no interface {interface}"))?;
    let addresses: Vec<IpAddr> = interface.addresses.iter().copied().collect();
    let mut open = Port::open(interface, (&[port], None), &mut Program)?;
    open.set_destinations(&addresses).map_err(|error| anyhow!("{error}"))?;
    Ok(open)
}

/// An end that sends to the forwarder, and hears it.
#[derive(Debug)]
pub struct XdpEnd {
    port: Port,
    heads: Heads,
}

impl XdpEnd {
    /// In its namespace; the forwarder's is `middle`.
    ///
    /// # Errors
    /// When this system has no AF_XDP.
    pub fn open(namespace: &str, middle: &str, place: Place, port: u16) -> Result<Self> {
        let towards = if place == Place::Asker { LEFT } else { RIGHT };
        let mac: Mac = path::within(middle, || {
            let interfaces = Interfaces::watch()?;
            interfaces
                .named(towards)
                .and_then(|interface| interface.mac)
                .context("the forwarder has no interface")
        })?;
        let open = path::within(namespace, || open(WIRE, port))?;
        let (own, to) = (path::end_address(place, port), path::middle_address(place, port));
        let heads = Heads::new((open.mac, mac), own, to).context("addresses of two kinds")?;
        Ok(XdpEnd { port: open, heads })
    }

    /// Puts a datagram into the ring. What has no room is lost, as on a wire.
    pub fn write(&mut self, datagram: &[u8]) {
        let heads = &self.heads;
        let put = |port: &mut Port| port.put(|id, frame| heads.write([datagram, &[]], id, frame));
        if !put(&mut self.port) {
            let _ = self.port.kick();
            put(&mut self.port);
        }
    }

    /// Sends.
    pub fn send(&mut self) {
        let _ = self.port.kick();
    }

    /// Takes what has come; how much there was.
    pub fn receive(&mut self, mut each: impl FnMut(&[u8])) -> usize {
        let mut count = 0;
        for xsk in &mut self.port.queues {
            xsk.receive(FRAMES, |bytes| {
                if let Ok(frame::Seen { body: Body::Udp { payload, .. }, .. }) = frame::read(bytes) {
                    each(&bytes[payload]);
                    count += 1;
                }
                true
            });
        }
        count
    }

    /// To be waited for.
    pub fn socket(&self) -> &Xsk {
        &self.port.queues[0]
    }
}

/// Passes on what comes by one interface to the end of the other, until it is ended. One copy, from ring to ring; nothing is looked up.
///
/// # Errors
/// When this system has no AF_XDP.
pub fn forward(port: u16) -> Result<()> {
    let mut sides = [open(LEFT, port)?, open(RIGHT, port)?];
    let ends = [Place::Asker, Place::Answerer]
        .map(|end| (path::middle_address(end, port), path::end_address(end, port)));
    // Whoever was heard last at a side.
    let mut heads: [Option<(Mac, Heads)>; 2] = [None, None];
    loop {
        let mut ready: Vec<PollFd<'_>> =
            sides.iter().flat_map(|side| &side.queues).map(|xsk| PollFd::new(xsk, PollFlags::IN)).collect();
        poll(&mut ready, None)?;
        for (from, (here, end)) in ends.into_iter().enumerate() {
            let [left, right] = &mut sides;
            let (near, there) = if from == 0 { (left, right) } else { (right, left) };
            let own = near.mac;
            for xsk in &mut near.queues {
                let [left, right] = &mut heads;
                let (back, on) = if from == 0 { (left, &*right) } else { (right, &*left) };
                xsk.receive(FRAMES, |bytes| {
                    let Ok(frame::Seen { source, body: Body::Udp { payload, .. }, .. }) = frame::read(bytes)
                    else {
                        return true;
                    };
                    if back.as_ref().is_none_or(|(known, _)| *known != source) {
                        *back = Heads::new((own, source), here, end).map(|heads| (source, heads));
                    }
                    if let Some((_, heads)) = on {
                        pass_on(there, heads, &bytes[payload]);
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

fn pass_on(there: &mut Port, heads: &Heads, payload: &[u8]) {
    if !there.put(|id, frame| heads.write([payload, &[]], id, frame)) && there.kick().is_ok() {
        there.put(|id, frame| heads.write([payload, &[]], id, frame));
    }
}
