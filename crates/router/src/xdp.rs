//! Attaches the kernel programs that bring frames of an interface to AF_XDP sockets. Connects
//! `nw-faces`, which opens the sockets, with `nw-kernel`, which loads the programs. Also used by
//! programs of higher layers that open such sockets themselves.

use nw_api::management::XdpStatus;
use nw_faces::mac::Mac;
use nw_faces::xdp::{RIGHTS, SteeredInterface, Steering, SteeringError, SteeringRequest};
use nw_kernel::{KernelError, XdpMode, XdpOptions, XdpProgram};
use nw_name::HashKey;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

/// Loads and attaches the steering program.
#[derive(Debug)]
pub struct KernelSteering {
    /// Key of the name hash that chooses shards; the same as in the router's tables.
    pub key: HashKey,
    /// Number of shards of the router.
    pub shards: u8,
}

#[derive(Debug)]
struct Attached {
    steering: XdpProgram,
    mode: XdpMode,
}

impl Steering for KernelSteering {
    fn shards(&self) -> u8 {
        self.shards
    }

    fn attach(
        &mut self,
        wanted: &SteeringRequest<'_>,
    ) -> Result<Box<dyn SteeredInterface>, SteeringError> {
        let group = wanted.group.map_or(Mac::NDN_GROUP, |(group, _)| group);
        let options = XdpOptions {
            ports: wanted.ports.to_vec(),
            ethernet: wanted.group.map(|(_, vlan)| vlan),
            only: Some([wanted.mac.0, group.0]),
        };
        let mut steering = XdpProgram::load(&self.key, wanted.queues, self.shards, &options)
            .map_err(to_steering_error)?;
        let mode = steering.attach(wanted.interface, None).map_err(to_steering_error)?;
        Ok(Box::new(Attached { steering, mode }))
    }
}

impl SteeredInterface for Attached {
    fn is_native(&self) -> bool {
        self.mode == XdpMode::Native
    }

    fn set_socket(
        &mut self,
        queue: u32,
        shard: u8,
        socket: BorrowedFd<'_>,
    ) -> Result<(), SteeringError> {
        self.steering.set_socket(queue, shard, socket).map_err(to_steering_error)
    }

    fn set_destinations(&mut self, addresses: &[IpAddr]) -> Result<(), SteeringError> {
        self.steering.set_destinations(addresses).map_err(to_steering_error)
    }
}

/// Explains an error and what helps. The caller logs which interface is affected.
fn to_steering_error(error: KernelError) -> SteeringError {
    match error {
        KernelError::Rights { .. } => {
            format!("this process may not use kernel programs; {RIGHTS}").into()
        }
        KernelError::TooOld { release, .. } => {
            format!("Linux {release} is too old for the kernel program; 5.18 or newer is needed")
                .into()
        }
        KernelError::Refused { what, source } => {
            format!("the kernel refused {what}: {source}").into()
        }
        error => error.to_string().into(),
    }
}

/// Converts the status of an AF_XDP interface to its form in the management protocol.
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
