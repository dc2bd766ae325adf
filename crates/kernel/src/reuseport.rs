//! The sockets of one UDP address, one for each shard, and the program that chooses among them.

use crate::counters::ShardCounters;
use crate::error::{Cause, KernelError};
use crate::object::{Config, Object, verified};
use aya::maps::{MapError, ReusePortSockArray};
use aya::programs::{ProgramError, SkReuseport};
use nw_name::HashKey;
use std::os::fd::BorrowedFd;

static CODE: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/reuseport.o"));

/// The kernel's choice among the sockets of one `SO_REUSEPORT` group. A group is all sockets of one address and port, so IPv4 and IPv6 need
/// one each.
///
/// Datagrams that are already queued at a socket stay there: attach before traffic comes. Datagrams that the kernel merged before the choice
/// (GRO on a network card, a sender's GSO over loopback) go where the first of them belongs.
///
/// The program belongs to the group, not to this value: it goes with the group's last socket, or by [`detach`](Self::detach). Dropping this
/// value only gives up the counters and the means to change sockets.
#[derive(Debug)]
pub struct Dispatch {
    object: Object,
}

impl Dispatch {
    /// Loads the program and gives it the group: `sockets[n]` is the one of shard `n`. All are UDP, bound to one address after SO_REUSEPORT
    /// was set. Packets go by `key`, which the router's tables have too.
    ///
    /// # Errors
    /// [`Rights`](KernelError::Rights) and [`TooOld`](KernelError::TooOld) say what the machine lacks: the sockets then stay as they were, and
    /// the system chooses one for each flow. [`Shards`](KernelError::Shards), [`Socket`](KernelError::Socket): what the caller gave.
    pub fn attach_reuseport(sockets: &[BorrowedFd<'_>], key: &HashKey) -> Result<Self, KernelError> {
        let first = sockets.first().ok_or(KernelError::Shards(0))?;
        let shards = u8::try_from(sockets.len()).map_err(|_| KernelError::Shards(sockets.len()))?;
        let config = Config { key, shards, ethernet: None, ports: [0; _], only: None };
        let object = Object::load(CODE, &config, u32::from(shards))?;
        let mut dispatch = Dispatch { object };
        for (shard, socket) in (0..).zip(sockets) {
            dispatch.set_socket(shard, *socket)?;
        }
        let what = "the program that chooses sockets";
        let program = dispatch.object.ebpf.program_mut("nw_select").ok_or(ProgramError::NotLoaded);
        let program: &mut SkReuseport =
            program.and_then(TryInto::try_into).map_err(|e| KernelError::of(what, e))?;
        verified(|| program.load()).map_err(|e| KernelError::of(what, e))?;
        program.attach(*first).map_err(|e| KernelError::of_socket(0, e))?;
        Ok(dispatch)
    }

    /// Number of shards.
    pub fn shards(&self) -> u8 {
        self.object.shards
    }

    /// Gives a shard another socket of the same group, as when it is started again. A closed socket has left by itself.
    ///
    /// # Errors
    /// [`Socket`](KernelError::Socket) when it is none of a group; [`Slot`](KernelError::Slot) when there is no such shard.
    pub fn set_socket(&mut self, shard: u8, socket: BorrowedFd<'_>) -> Result<(), KernelError> {
        if shard >= self.object.shards {
            return Err(KernelError::Slot { queue: 0, shard, queues: 1, shards: self.object.shards });
        }
        self.sockets()
            .and_then(|mut sockets| Ok(sockets.set(u32::from(shard), &socket, 0)?))
            .map_err(|e| KernelError::of_socket(u32::from(shard), e))
    }

    fn sockets(&mut self) -> Result<ReusePortSockArray<&mut aya::maps::MapData>, Cause> {
        let map = self.object.ebpf.map_mut("sockets").ok_or(MapError::ElementNotFound)?;
        Ok(map.try_into()?)
    }

    /// What the program has counted.
    ///
    /// # Errors
    /// When the kernel does not give them out.
    pub fn counters(&self) -> Result<ShardCounters, KernelError> {
        self.object.counters()
    }

    /// Takes the program off the group of `socket`: the system chooses by flows again.
    ///
    /// # Errors
    /// When the group has no program.
    pub fn detach(self, socket: BorrowedFd<'_>) -> Result<(), KernelError> {
        SkReuseport::detach(socket).map_err(|e| KernelError::of_socket(0, e))
    }
}
