//! What a balancer does with its data path: the kernel's program, or in tests something that remembers what it was told.

use nw_kernel::KernelError;
use nw_kernel::balancer::{
    AttachMode, Balancer, BalancerCounters, BalancerOptions, HeldFragments, Link, MemberEntry,
};
use nw_slot_table::Rules;
use std::net::SocketAddr;

/// See [`Balancer`], whose methods these are.
#[allow(missing_docs, clippy::missing_errors_doc)]
pub trait DataPath: Send {
    fn adopted(&self) -> bool;
    fn attach(&mut self, interface: &str, wanted: Option<AttachMode>) -> Result<AttachMode, KernelError>;
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
    /// `None` where there are no frames.
    fn held_fragments(&mut self) -> Result<Option<HeldFragments>, KernelError>;
}

impl DataPath for Balancer {
    fn adopted(&self) -> bool {
        Balancer::adopted(self)
    }

    fn attach(&mut self, interface: &str, wanted: Option<AttachMode>) -> Result<AttachMode, KernelError> {
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

/// Loads the kernel's program.
///
/// # Errors
/// What the machine lacks.
pub fn load(options: &BalancerOptions) -> Result<Box<dyn DataPath>, KernelError> {
    Ok(Box::new(Balancer::load(options)?))
}
