//! The sockets of one UDP address, one for each shard, and the program that distributes packets to
//! them.

use crate::counters::ShardCounters;
use crate::error::{Cause, KernelError};
use crate::object::{Config, Object, verified};
use aya::maps::{MapError, ReusePortSockArray};
use aya::programs::{ProgramError, SkReuseport};
use nw_name::HashKey;
use std::os::fd::BorrowedFd;

static CODE: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/reuseport.o"));

/// The program of one `SO_REUSEPORT` group, which chooses a socket for each packet. A group is all
/// sockets of one address and port, so IPv4 and IPv6 need one each.
///
/// Datagrams already queued at a socket stay there: attach before traffic arrives. Datagrams that
/// the kernel merged before (GRO, or a sender's GSO over loopback) go where the first of them
/// belongs.
///
/// The group owns the program: it ends with the group's last socket, or by
/// [`detach`](Self::detach). Dropping this value only closes the counters and the socket map.
#[derive(Debug)]
pub struct ReuseportProgram {
    object: Object,
}

impl ReuseportProgram {
    /// Loads the program and attaches it to the group: `sockets[n]` is the socket of shard `n`. All
    /// are UDP sockets, bound to one address after SO_REUSEPORT was set. `key` is that of the
    /// router's tables.
    ///
    /// # Errors
    /// [`Rights`](KernelError::Rights) and [`TooOld`](KernelError::TooOld) if the machine lacks
    /// something: the
    /// sockets are unchanged, and the system distributes packets by flow.
    /// [`Shards`](KernelError::Shards) and
    /// [`Socket`](KernelError::Socket) for invalid arguments.
    pub fn attach(sockets: &[BorrowedFd<'_>], key: &HashKey) -> Result<Self, KernelError> {
        let first = sockets.first().ok_or(KernelError::Shards(0))?;
        let shards = u8::try_from(sockets.len()).map_err(|_| KernelError::Shards(sockets.len()))?;
        let config = Config { key, shards, ethernet: None, ports: [0; _], only: None };
        let object = Object::load(CODE, &config, u32::from(shards))?;
        let mut reuseport = ReuseportProgram { object };
        for (shard, socket) in (0..).zip(sockets) {
            reuseport.set_socket(shard, *socket)?;
        }
        let what = "the program that chooses sockets";
        let program = reuseport.object.ebpf.program_mut("nw_select").ok_or(ProgramError::NotLoaded);
        let program: &mut SkReuseport =
            program.and_then(TryInto::try_into).map_err(|e| KernelError::of(what, e))?;
        verified(|| program.load()).map_err(|e| KernelError::of(what, e))?;
        program.attach(*first).map_err(|e| KernelError::of_socket(0, e))?;
        Ok(reuseport)
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> u8 {
        self.object.shards
    }

    /// Replaces a shard's socket by another one of the same group, for example after a restart. A
    /// closed socket leaves the group by itself.
    ///
    /// # Errors
    /// [`Socket`](KernelError::Socket) if it is not in a group; [`Slot`](KernelError::Slot) if
    /// there is no such
    /// shard.
    pub fn set_socket(&mut self, shard: u8, socket: BorrowedFd<'_>) -> Result<(), KernelError> {
        if shard >= self.object.shards {
            return Err(KernelError::Slot {
                queue: 0,
                shard,
                queues: 1,
                shards: self.object.shards,
            });
        }
        self.sockets()
            .and_then(|mut sockets| Ok(sockets.set(u32::from(shard), &socket, 0)?))
            .map_err(|e| KernelError::of_socket(u32::from(shard), e))
    }

    fn sockets(&mut self) -> Result<ReusePortSockArray<&mut aya::maps::MapData>, Cause> {
        let map = self.object.ebpf.map_mut("sockets").ok_or(MapError::ElementNotFound)?;
        Ok(map.try_into()?)
    }

    /// Returns the program's counters.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn counters(&self) -> Result<ShardCounters, KernelError> {
        self.object.counters()
    }

    /// Detaches the program from the group of `socket`: the system distributes packets by flow
    /// again.
    ///
    /// # Errors
    /// The group has no program.
    pub fn detach(self, socket: BorrowedFd<'_>) -> Result<(), KernelError> {
        SkReuseport::detach(socket).map_err(|e| KernelError::of_socket(0, e))
    }
}
