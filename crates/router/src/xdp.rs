//! Brings frames of an interface to AF_XDP sockets: what faces ask for, from the crate that loads kernel programs. Also for programs of higher layers
//! that open such sockets themselves.

use nw_api::management::XdpStatus;
use nw_faces::mac::Mac;
use nw_faces::xdp::{RIGHTS, Steered, Steering, SteeringError, Wanted};
use nw_kernel::{KernelError, XdpMode, XdpOptions, XdpSteering};
use nw_name::HashKey;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

/// Attaches programs.
#[derive(Debug)]
pub struct KernelSteering {
    /// As of the router's tables.
    pub key: HashKey,
    /// How many the router has.
    pub shards: u8,
}

#[derive(Debug)]
struct Attached {
    steering: XdpSteering,
    mode: XdpMode,
}

impl Steering for KernelSteering {
    fn shards(&self) -> u8 {
        self.shards
    }

    fn attach(&mut self, wanted: &Wanted<'_>) -> Result<Box<dyn Steered>, SteeringError> {
        let group = wanted.group.map_or(Mac::NDN_GROUP, |(group, _)| group);
        let options = XdpOptions {
            ports: wanted.ports.to_vec(),
            ethernet: wanted.group.map(|(_, vlan)| vlan),
            only: Some([wanted.mac.0, group.0]),
        };
        let mut steering =
            XdpSteering::load(&self.key, wanted.queues, self.shards, &options).map_err(in_words)?;
        let mode = steering.attach(wanted.interface, None).map_err(in_words)?;
        Ok(Box::new(Attached { steering, mode }))
    }
}

impl Steered for Attached {
    fn is_native(&self) -> bool {
        self.mode == XdpMode::Native
    }

    fn set_socket(&mut self, queue: u32, shard: u8, socket: BorrowedFd<'_>) -> Result<(), SteeringError> {
        self.steering.set_socket(queue, shard, socket).map_err(in_words)
    }

    fn set_destinations(&mut self, addresses: &[IpAddr]) -> Result<(), SteeringError> {
        self.steering.set_destinations(addresses).map_err(in_words)
    }
}

/// What is lost is said by whoever asked; here is why, and what helps.
fn in_words(error: KernelError) -> SteeringError {
    match error {
        KernelError::Rights { .. } => format!("this process may not use kernel programs; {RIGHTS}").into(),
        KernelError::TooOld { release, .. } => {
            format!("Linux {release} is too old for the kernel program; 5.18 or newer is needed").into()
        }
        KernelError::Refused { what, source } => format!("the kernel refused {what}: {source}").into(),
        error => error.to_string().into(),
    }
}

/// As management shows it.
pub fn status(status: nw_faces::xdp::XdpStatus) -> XdpStatus {
    XdpStatus {
        mode: status.mode().to_owned(),
        memory: status.memory().to_owned(),
        interface: status.interface.into(),
        queues: status.queues as u64,
        received: status.received,
        sent: status.sent,
        lost: status.lost,
        others: status.others,
    }
}
