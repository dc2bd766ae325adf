//! Where threads run: the three placements of the paper, on the processors of this machine.

use nw_router::placement::{Cpu, Machine};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A placement of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// All hyper-threads of a core before the next core.
    Hyperthreading,
    /// A core for each thread, on one socket.
    SingleSocket,
    /// A core for each thread, on both sockets in turn.
    DualSocket,
}

impl Placement {
    /// Every placement, in the paper's order.
    pub const ALL: [Placement; 3] =
        [Placement::Hyperthreading, Placement::SingleSocket, Placement::DualSocket];

    /// Returns the paper's name of the placement.
    pub const fn as_str(self) -> &'static str {
        match self {
            Placement::Hyperthreading => "Hyperthreading",
            Placement::SingleSocket => "Single socket",
            Placement::DualSocket => "Dual socket",
        }
    }

    /// Checks that the machine has what the placement needs.
    ///
    /// # Errors
    /// The reason, as the end of a sentence.
    pub fn exists(self, machine: &Machine) -> Result<(), String> {
        let cpus = allowed(machine);
        let has_siblings =
            cpus.iter().any(|cpu| cpus.iter().any(|b| b.id != cpu.id && b.core == cpu.core));
        let sockets: BTreeSet<u32> = cpus.iter().map(|cpu| cpu.core.0).collect();
        match self {
            Placement::Hyperthreading if !has_siblings => {
                Err("left out, as no core of this machine shows two hyper-threads".into())
            }
            Placement::DualSocket if sockets.len() < 2 => {
                Err("left out, as this machine has one socket".into())
            }
            _ => Ok(()),
        }
    }

    /// Returns the processor of each thread. More threads than processors share them in turn.
    /// `None` if this process may use no processor, or threads would share processors although
    /// another placement has free ones.
    pub fn cpus(self, machine: &Machine, threads: usize) -> Option<Vec<usize>> {
        let mut cpus = allowed(machine);
        let all = cpus.len();
        // The position of a hyper-thread in its core: 0 for the first.
        let sibling = |cpu: &Cpu| {
            machine.cpus.iter().filter(|b| b.allowed && b.core == cpu.core && b.id < cpu.id).count()
        };
        match self {
            Placement::Hyperthreading => cpus.sort_by_key(|cpu| (cpu.core, cpu.id)),
            Placement::SingleSocket => {
                let first = cpus.iter().map(|cpu| cpu.core.0).min()?;
                cpus.retain(|cpu| cpu.core.0 == first && sibling(cpu) == 0);
                cpus.sort_by_key(|cpu| cpu.core);
            }
            Placement::DualSocket => {
                cpus.sort_by_key(|cpu| (sibling(cpu), cpu.core.1, cpu.core.0));
            }
        }
        if cpus.is_empty() || threads > cpus.len() && threads <= all {
            return None;
        }
        Some((0..threads).map(|thread| cpus[thread % cpus.len()].id).collect())
    }

    /// Returns the placement with a core for most threads, and how many those are, at most eight:
    /// the paper's throughput grows no further.
    pub fn widest(machine: &Machine) -> (Placement, usize) {
        let dual = Placement::DualSocket;
        let placement = if dual.exists(machine).is_ok() { dual } else { Placement::SingleSocket };
        let ids: Vec<usize> = allowed(machine).iter().map(|cpu| cpu.id).collect();
        (placement, cores(machine, &ids).min(8))
    }
}

/// Returns the number of cores that these processors belong to.
pub(super) fn cores(machine: &Machine, cpus: &[usize]) -> usize {
    let used = machine.cpus.iter().filter(|cpu| cpus.contains(&cpu.id));
    used.map(|cpu| cpu.core).collect::<BTreeSet<_>>().len().max(1)
}

fn allowed(machine: &Machine) -> Vec<Cpu> {
    machine.cpus.iter().filter(|cpu| cpu.allowed).copied().collect()
}

/// Returns the numbers of sockets, cores and processors that this process may use.
pub(super) fn allowed_count(machine: &Machine) -> [usize; 3] {
    let cpus = allowed(machine);
    let sockets: BTreeSet<u32> = cpus.iter().map(|cpu| cpu.core.0).collect();
    let cores: BTreeSet<(u32, u32)> = cpus.iter().map(|cpu| cpu.core).collect();
    [sockets.len(), cores.len(), cpus.len()]
}
