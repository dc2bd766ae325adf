//! What the balancer is measured against.

use super::options::Hop;
use crate::error::{Cause, KernelError};
use aya::maps::{MapError, PerCpuArray, PerCpuValues};
use aya::programs::xdp::{XdpLinkId, XdpMode as Flags};
use aya::programs::{ProgramError, Xdp};
use aya::util::nr_cpus;
use aya::{Ebpf, EbpfLoader};

static CODE: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/swap.o"));

/// A program that swaps the addresses and ports of each UDP datagram over IPv4 and sends it by one next hop, natively: the least that a
/// program that forwards can do. For figures.
#[derive(Debug)]
pub struct Swap {
    ebpf: Ebpf,
    links: Vec<XdpLinkId>,
}

impl Swap {
    /// Loads the program; frames will leave by `hop`.
    ///
    /// # Errors
    /// As [`Balancer::load`](super::Balancer::load).
    pub fn load(hop: &Hop) -> Result<Swap, KernelError> {
        let load = || -> Result<Swap, Cause> {
            let mut ebpf = EbpfLoader::new().btf(None).load(CODE)?;
            let map = ebpf.map_mut("target").ok_or(MapError::ElementNotFound)?;
            let mut map: PerCpuArray<_, [u64; 3]> = map.try_into()?;
            let cpus = nr_cpus().map_err(|(_, e)| e)?;
            map.set(0, PerCpuValues::try_from(vec![words(hop); cpus])?, 0)?;
            let mut swap = Swap { ebpf, links: Vec::new() };
            swap.xdp()?.load()?;
            Ok(swap)
        };
        load().map_err(|e| KernelError::of("the program that swaps addresses", e))
    }

    /// Attaches to an interface, natively.
    ///
    /// # Errors
    /// When the driver can't, or another program is there.
    pub fn attach(&mut self, interface_index: u32) -> Result<(), KernelError> {
        let attach = |swap: &mut Swap| -> Result<XdpLinkId, Cause> {
            Ok(swap.xdp()?.attach_to_if_index(interface_index, Flags::Driver)?)
        };
        self.links.push(attach(self).map_err(|e| KernelError::of("the program that swaps addresses", e))?);
        Ok(())
    }

    /// Frames that were swapped and sent.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn frames(&self) -> Result<u64, KernelError> {
        let read = || -> Result<u64, Cause> {
            let map = self.ebpf.map("target").ok_or(MapError::ElementNotFound)?;
            let map: PerCpuArray<_, [u64; 3]> = map.try_into()?;
            Ok(map.get(&0, 0)?.iter().map(|[_, _, frames]| frames).sum())
        };
        read().map_err(|e| KernelError::of("reading what was swapped", e))
    }

    /// The program, for its statistics and test runs.
    ///
    /// # Errors
    /// Never, of a loaded one.
    pub fn xdp(&mut self) -> Result<&mut Xdp, Cause> {
        Ok(self.ebpf.program_mut("nw_swap").ok_or(ProgramError::NotLoaded)?.try_into()?)
    }
}

/// `struct target` of `bpf/swap.bpf.c`.
fn words(hop: &Hop) -> [u64; 3] {
    let octets = [&hop.mac[..], &hop.own_mac, &hop.interface_index.to_ne_bytes()].concat();
    let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| octets[at + i]));
    [word(0), word(8), 0]
}
