//! The interface to the data path: the kernel's program, or in tests an object that records its
//! calls.

use nw_kernel::KernelError;
use nw_kernel::balancer::{
    AttachMode, Balancer, BalancerCounters, BalancerOptions, HeldFragments, Link, MemberEntry,
};
use nw_slot_table::Rules;
use std::net::SocketAddr;

/// The methods of [`Balancer`] that the event loop uses.
#[allow(missing_docs, clippy::missing_errors_doc)]
pub trait DataPath: Send {
    fn adopted(&self) -> bool;
    fn attach(
        &mut self,
        interface: &str,
        wanted: Option<AttachMode>,
    ) -> Result<AttachMode, KernelError>;
    fn detach(&mut self, interface: &str) -> Result<(), KernelError>;
    fn attached(&self) -> Vec<(u32, AttachMode)>;
    fn remove(self: Box<Self>) -> Result<(), KernelError>;
    fn members(&self) -> Vec<(u8, MemberEntry)>;
    fn set_member(&mut self, number: u8, entry: &MemberEntry) -> Result<(), KernelError>;
    fn clear_member(&mut self, number: u8) -> Result<(), KernelError>;
    fn set_slots(&mut self, slots: &[u8]) -> Result<usize, KernelError>;
    fn set_control(&mut self, number: u8) -> Result<(), KernelError>;
    fn set_rules(&mut self, rules: &Rules) -> Result<(), KernelError>;
    fn set_one_port_peers(&mut self, peers: &[SocketAddr]) -> Result<(), KernelError>;
    fn set_links(&mut self, links: &[Link]) -> Result<(), KernelError>;
    fn counters(&self) -> Result<BalancerCounters, KernelError>;
    /// Returns the buffer for out-of-order fragments. `None` if the data path has no frames.
    fn held_fragments(&mut self) -> Result<Option<HeldFragments>, KernelError>;
}

impl DataPath for Balancer {
    fn adopted(&self) -> bool {
        Balancer::adopted(self)
    }

    fn attach(
        &mut self,
        interface: &str,
        wanted: Option<AttachMode>,
    ) -> Result<AttachMode, KernelError> {
        Balancer::attach(self, interface, wanted)
    }

    fn detach(&mut self, interface: &str) -> Result<(), KernelError> {
        Balancer::detach(self, interface)
    }

    fn attached(&self) -> Vec<(u32, AttachMode)> {
        Balancer::attached(self)
    }

    fn remove(self: Box<Self>) -> Result<(), KernelError> {
        Balancer::remove(*self)
    }

    fn members(&self) -> Vec<(u8, MemberEntry)> {
        Balancer::members(self).iter().map(|(number, entry)| (*number, *entry)).collect()
    }

    fn set_member(&mut self, number: u8, entry: &MemberEntry) -> Result<(), KernelError> {
        Balancer::set_member(self, number, entry)
    }

    fn clear_member(&mut self, number: u8) -> Result<(), KernelError> {
        Balancer::clear_member(self, number)
    }

    fn set_slots(&mut self, slots: &[u8]) -> Result<usize, KernelError> {
        Balancer::set_slots(self, slots)
    }

    fn set_control(&mut self, number: u8) -> Result<(), KernelError> {
        Balancer::set_control(self, number)
    }

    fn set_rules(&mut self, rules: &Rules) -> Result<(), KernelError> {
        Balancer::set_rules(self, rules)
    }

    fn set_one_port_peers(&mut self, peers: &[SocketAddr]) -> Result<(), KernelError> {
        Balancer::set_one_port_peers(self, peers)
    }

    fn set_links(&mut self, links: &[Link]) -> Result<(), KernelError> {
        Balancer::set_links(self, links)
    }

    fn counters(&self) -> Result<BalancerCounters, KernelError> {
        Balancer::counters(self)
    }

    fn held_fragments(&mut self) -> Result<Option<HeldFragments>, KernelError> {
        Balancer::held_fragments(self).map(Some)
    }
}

/// Loads the kernel's program, or takes over the one an earlier process left.
///
/// # Errors
/// The kernel or the process lacks something.
pub fn load(options: &BalancerOptions) -> Result<Box<dyn DataPath>, KernelError> {
    Ok(Box::new(Balancer::load(options)?))
}
