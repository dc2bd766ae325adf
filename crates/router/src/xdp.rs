//! Brings frames of an interface to AF_XDP sockets: what faces ask for, from the crate that loads kernel programs.

use nw_faces::xdp::{RIGHTS, Steered, Steering, SteeringError};
use nw_kernel::{KernelError, XdpMode, XdpOptions, XdpSteering};
use nw_name::HashKey;
use std::os::fd::BorrowedFd;

/// All frames come to the first shard, which hands on what is others'.
const SHARDS: u8 = 1;
const FIRST: u8 = 0;

/// Attaches programs.
#[derive(Debug)]
pub struct KernelSteering {
    /// As of the router's tables.
    pub key: HashKey,
}

#[derive(Debug)]
struct Attached {
    steering: XdpSteering,
    mode: XdpMode,
}

impl Steering for KernelSteering {
    fn attach(
        &mut self,
        interface: &str,
        queues: u32,
        ports: &[u16],
        ethernet: bool,
    ) -> Result<Box<dyn Steered>, SteeringError> {
        let options = XdpOptions { ports: ports.to_vec(), ethernet };
        let mut steering = XdpSteering::load(&self.key, queues, SHARDS, &options).map_err(in_words)?;
        let mode = steering.attach(interface, None).map_err(in_words)?;
        Ok(Box::new(Attached { steering, mode }))
    }
}

impl Steered for Attached {
    fn is_native(&self) -> bool {
        self.mode == XdpMode::Native
    }

    fn set_socket(&mut self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), SteeringError> {
        self.steering.set_socket(queue, FIRST, socket).map_err(in_words)
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
