//! Chooses how many threads forward on this machine and on which processors, from what the system
//! reports about cores, hyper-threads, caches, memory nodes and network cards.

use core::fmt;
use nw_api::config::Forwarder;
use rustix::thread::CpuSet;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Most shards that are chosen automatically.
const SHARDS_MAX: usize = 16;

/// The rule by which processors are chosen, in words.
pub const RULE: &str = "one thread per core, only on processors that this process may use; \
    first all cores on the memory node of the network card with the most queues, then other nodes; \
    on a node, cores without interrupts of a network card first; last level caches are filled one \
    after the other";

/// One processor: a hyper-thread of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Number of the processor in Linux.
    pub id: usize,
    /// Number of its socket, and of its core in the socket.
    pub core: (u32, u32),
    /// Number of its memory node.
    pub node: u32,
    /// Id of its last level cache.
    pub cache: u32,
    /// This process may run on it.
    pub allowed: bool,
}

/// A physical network card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkCard {
    /// Name of its interface.
    pub name: String,
    /// Number of its memory node, if known.
    pub node: Option<u32>,
    /// Number of receive queues.
    pub queues: usize,
    /// Its interrupts by number, each with the processors that handle it.
    pub interrupts: BTreeMap<usize, Vec<usize>>,
}

/// Processors and network cards of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Processors in the order of their numbers.
    pub cpus: Vec<Cpu>,
    /// Physical network cards in the order of their names.
    pub cards: Vec<NetworkCard>,
}

impl Machine {
    /// Returns this machine, with the processors that this process may use.
    pub fn detect() -> Self {
        let allowed = rustix::thread::sched_getaffinity(None);
        Machine::read(Path::new("/sys"), Path::new("/proc"), |id| {
            allowed.as_ref().map_or(true, |set| id < CpuSet::MAX_CPU && set.is_set(id))
        })
    }

    /// Reads a machine from folders like `/sys` and `/proc`.
    pub fn read(sys: &Path, proc: &Path, allowed: impl Fn(usize) -> bool) -> Self {
        let nodes = read_nodes(&sys.join("devices/system/node"));
        let folder = sys.join("devices/system/cpu");
        let mut cpus: Vec<Cpu> = numbered_entries(&folder, "cpu")
            .map(|id| {
                let cpu = folder.join(format!("cpu{id}"));
                let topology = |file: &str| read_number(&cpu.join("topology").join(file));
                let socket = topology("physical_package_id").unwrap_or(0);
                Cpu {
                    id,
                    core: (socket, topology("core_id").unwrap_or(id as u32)),
                    node: nodes.get(&id).copied().unwrap_or(0),
                    cache: read_number(&cpu.join("cache/index3/id")).unwrap_or(socket),
                    allowed: allowed(id),
                }
            })
            .collect();
        cpus.sort_by_key(|cpu| cpu.id);
        let mut cards: Vec<NetworkCard> = entry_names(&sys.join("class/net"))
            .filter(|name| sys.join("class/net").join(name).join("device").exists())
            .map(|name| {
                let folder = sys.join("class/net").join(&name);
                let queues = entry_names(&folder.join("queues"))
                    .filter(|queue| queue.starts_with("rx-"))
                    .count();
                let interrupts = read_interrupts(&folder.join("device"), &proc.join("irq"));
                NetworkCard { node: card_node(&folder.join("device")), queues, interrupts, name }
            })
            .collect();
        cards.sort_by(|a, b| a.name.cmp(&b.name));
        Machine { cpus, cards }
    }

    /// Returns the number of cores that this process may use.
    fn core_count(&self) -> usize {
        self.cpus
            .iter()
            .filter(|cpu| cpu.allowed)
            .map(|cpu| cpu.core)
            .collect::<BTreeSet<_>>()
            .len()
    }

    /// Returns the number of shards if none is configured: 1 on up to two cores, otherwise half of
    /// the cores, at most 16.
    pub fn shards(&self) -> usize {
        match self.core_count() {
            0..=2 => 1,
            cores => (cores / 2).min(SHARDS_MAX),
        }
    }

    /// Returns the memory node of a processor.
    pub fn node(&self, cpu: usize) -> u32 {
        self.cpus.iter().find(|known| known.id == cpu).map_or(0, |cpu| cpu.node)
    }

    /// Returns the processors of a memory node that this process may use.
    pub fn cpus_of(&self, node: u32) -> Vec<usize> {
        self.cpus.iter().filter(|cpu| cpu.node == node && cpu.allowed).map(|cpu| cpu.id).collect()
    }

    /// Returns a processor for each of `shards` threads, by [`RULE`]. If there are more threads
    /// than processors, some share one.
    pub fn assign_cpus(&self, shards: usize) -> Vec<usize> {
        let main_card =
            self.cards.iter().filter(|card| card.node.is_some()).max_by_key(|card| card.queues);
        let preferred_node = main_card.and_then(|card| card.node);
        let interrupt_cpus: BTreeSet<usize> = self
            .cards
            .iter()
            .flat_map(|card| card.interrupts.values().flatten().copied())
            .collect();
        let interrupt_cores: BTreeSet<(u32, u32)> = self
            .cpus
            .iter()
            .filter(|cpu| interrupt_cpus.contains(&cpu.id))
            .map(|cpu| cpu.core)
            .collect();
        let mut usable: Vec<&Cpu> = self.cpus.iter().filter(|cpu| cpu.allowed).collect();
        usable.sort_by_key(|cpu| {
            (
                Some(cpu.node) != preferred_node,
                cpu.node,
                interrupt_cores.contains(&cpu.core),
                cpu.cache,
                cpu.id,
            )
        });
        let mut used_cores = BTreeSet::new();
        let (first_threads, second_threads): (Vec<&Cpu>, Vec<&Cpu>) =
            usable.into_iter().partition(|cpu| used_cores.insert(cpu.core));
        first_threads
            .into_iter()
            .chain(second_threads)
            .map(|cpu| cpu.id)
            .cycle()
            .take(shards)
            .collect()
    }
}

/// The processors of this router's threads.
#[derive(Debug, Default)]
pub(crate) struct Placement {
    machine: Machine,
    /// Processor of each shard; empty if the system chooses.
    cpus: Vec<usize>,
}

impl Placement {
    /// Returns the configured placement, or one by [`RULE`]. A single thread is not bound.
    pub fn of(forwarder: &Forwarder) -> Self {
        let (shards, configured) = (forwarder.shards as usize, &forwarder.cpus);
        if shards < 2 || !forwarder.pin {
            return Placement::default();
        }
        let machine = Machine::detect();
        let cpus = match configured.is_empty() {
            true => machine.assign_cpus(shards),
            false => configured.iter().map(|cpu| *cpu as usize).cycle().take(shards).collect(),
        };
        Placement { machine, cpus }
    }

    /// Returns the processor of a shard, if it is bound to one.
    pub fn cpu(&self, shard: usize) -> Option<usize> {
        self.cpus.get(shard).copied()
    }

    /// Returns the memory node of a shard. If shards are not bound, all count as node 0.
    pub fn node(&self, shard: usize) -> u32 {
        self.cpu(shard).map_or(0, |cpu| self.machine.node(cpu))
    }

    /// Returns the processors of a memory node; empty if the system chooses.
    pub fn node_cpus(&self, node: u32) -> Vec<usize> {
        if self.cpus.is_empty() { Vec::new() } else { self.machine.cpus_of(node) }
    }

    /// Binds the calling thread to the first shard's memory node until the guard is dropped. Memory
    /// that it touches first meanwhile is on that node.
    pub fn on_first_node(&self) -> NodeGuard {
        let cpus = self.node_cpus(self.node(0));
        let previous =
            if cpus.is_empty() { None } else { rustix::thread::sched_getaffinity(None).ok() };
        if previous.is_some() {
            prefer(&cpus);
        }
        NodeGuard { previous }
    }
}

/// Restores the previous processors of the thread when dropped.
#[must_use]
pub(crate) struct NodeGuard {
    previous: Option<CpuSet>,
}

impl Drop for NodeGuard {
    fn drop(&mut self) {
        if let Some(previous) = &self.previous {
            // These were allowed before; if some are no longer allowed, the system uses the others.
            let _ = rustix::thread::sched_setaffinity(None, previous);
        }
    }
}

/// Binds the calling thread to a processor.
///
/// # Errors
/// If the processor does not exist, or this process may not use it.
pub fn pin(cpu: usize) -> Result<(), rustix::io::Errno> {
    bind(&[cpu])
}

fn bind(cpus: &[usize]) -> Result<(), rustix::io::Errno> {
    if cpus.iter().any(|cpu| *cpu >= CpuSet::MAX_CPU) {
        return Err(rustix::io::Errno::INVAL);
    }
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    rustix::thread::sched_setaffinity(None, &set)
}

/// Binds the calling thread to these processors, so that its memory is on their node. If `cpus` is
/// empty or the system refuses, the thread may run on all.
pub(crate) fn prefer(cpus: &[usize]) {
    if !cpus.is_empty()
        && let Err(errno) = bind(cpus)
    {
        tracing::warn!(
            ?cpus,
            "can't bind a thread to a memory node ({errno}): its memory may be on another node"
        );
    }
}

/// Binds a shard's thread to a processor. Logs a failure and continues.
pub(crate) fn pin_shard(shard: usize, cpu: usize) {
    match pin(cpu) {
        Ok(()) => tracing::info!(shard, cpu, "thread"),
        Err(errno) => tracing::warn!(
            shard,
            "can't bind a thread to processor {cpu} ({errno}): the system chooses one; \
             see forwarder.cpus and forwarder.pin"
        ),
    }
}

impl fmt::Display for Machine {
    /// Writes a line per core, then one per card.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cores: BTreeMap<(u32, u32), Vec<&Cpu>> = BTreeMap::new();
        self.cpus.iter().for_each(|cpu| cores.entry(cpu.core).or_default().push(cpu));
        for ((socket, core), cpus) in cores {
            let ids: Vec<String> = cpus
                .iter()
                .map(|cpu| if cpu.allowed { cpu.id.to_string() } else { format!("({})", cpu.id) })
                .collect();
            let (node, cache) = (cpus[0].node, cpus[0].cache);
            writeln!(
                f,
                "core {socket}.{core}: processors {}, memory node {node}, cache {cache}",
                ids.join(" ")
            )?;
        }
        for card in &self.cards {
            let node = card
                .node
                .map_or("any memory node".to_owned(), |node| format!("memory node {node}"));
            write!(f, "card {}: {node}, {} receive queues", card.name, card.queues)?;
            for (index, (number, cpus)) in card.interrupts.iter().enumerate() {
                let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
                let separator = if index == 0 { "; interrupts" } else { "," };
                write!(f, "{separator} {number} on {}", cpus.join(" "))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Returns the memory node of each processor.
fn read_nodes(folder: &Path) -> BTreeMap<usize, u32> {
    let mut nodes = BTreeMap::new();
    for node in numbered_entries(folder, "node") {
        let list =
            fs::read_to_string(folder.join(format!("node{node}/cpulist"))).unwrap_or_default();
        nodes.extend(parse_cpu_list(&list).into_iter().map(|cpu| (cpu, node as u32)));
    }
    nodes
}

/// Returns the memory node of a card: that of its device, or of the device's parent, as for a
/// virtual card of a PCI device.
fn card_node(device: &Path) -> Option<u32> {
    let device_file = device.join("numa_node");
    read_number(&if device_file.exists() { device_file } else { device.join("../numa_node") })
}

/// Returns the interrupts of a card's device, or of the device's parent, each with the processors
/// that handle it.
fn read_interrupts(device: &Path, irq: &Path) -> BTreeMap<usize, Vec<usize>> {
    [device.join("msi_irqs"), device.join("../msi_irqs")]
        .iter()
        .map(|folder| {
            entry_names(folder).filter_map(|name| name.parse().ok()).collect::<Vec<usize>>()
        })
        .find(|numbers| !numbers.is_empty())
        .unwrap_or_default()
        .into_iter()
        .filter_map(|number| {
            let list = irq.join(number.to_string()).join("effective_affinity_list");
            Some((number, parse_cpu_list(&fs::read_to_string(list).ok()?)))
        })
        .collect()
}

/// Parses a list of processors, such as `0-3,8`.
fn parse_cpu_list(text: &str) -> Vec<usize> {
    let parse_range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<usize>().ok()?..=last.trim().parse().ok()?)
    };
    text.trim().split(',').filter_map(parse_range).flatten().collect()
}

fn read_number(file: &Path) -> Option<u32> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn entry_names(folder: &Path) -> impl Iterator<Item = String> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
}

/// Returns the numbers of the entries `<prefix><number>` of a folder.
fn numbered_entries(folder: &Path, prefix: &str) -> impl Iterator<Item = usize> {
    entry_names(folder).filter_map(move |name| name.strip_prefix(prefix)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sockets of four cores with two hyper-threads each, numbered as usual: first one thread
    /// of each core, then the others.
    fn two_sockets(cards: &[(&str, &str, usize)]) -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        let write = |path: String, text: &str| {
            let path = sys.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for id in 0..16 {
            let (socket, core) = (id % 8 / 4, id % 4);
            let cpu = format!("devices/system/cpu/cpu{id}");
            write(format!("{cpu}/topology/physical_package_id"), &format!("{socket}\n"));
            write(format!("{cpu}/topology/core_id"), &format!("{core}\n"));
            write(format!("{cpu}/cache/index3/id"), &format!("{}\n", socket * 2 + core / 2));
        }
        write("devices/system/cpu/cpufreq/x".into(), "");
        write("devices/system/node/node0/cpulist".into(), "0-3,8-11\n");
        write("devices/system/node/node1/cpulist".into(), "4-7,12-15\n");
        for (name, node, queues) in cards {
            write(format!("class/net/{name}/device/numa_node"), node);
            (0..*queues)
                .for_each(|queue| write(format!("class/net/{name}/queues/rx-{queue}/x"), ""));
        }
        write("class/net/lo/queues/rx-0/x".into(), "");
        sys
    }

    #[test]
    fn assign_cpus_prefers_node_of_card_then_cores() {
        let sys = two_sockets(&[("eth0", "0\n", 2), ("eth1", "1\n", 8)]);
        let machine = Machine::read(sys.path(), sys.path(), |_| true);
        assert_eq!((machine.cpus.len(), machine.cards.len(), machine.core_count()), (16, 2, 8));
        assert_eq!(
            (machine.cpus[13].core, machine.cpus[13].node, machine.cpus[13].cache),
            ((1, 1), 1, 2)
        );
        assert_eq!(machine.shards(), 4);
        assert_eq!(machine.assign_cpus(4), [4, 5, 6, 7]);
        assert_eq!(machine.assign_cpus(9), [4, 5, 6, 7, 0, 1, 2, 3, 12]);
        assert_eq!(machine.assign_cpus(17)[16], 4, "more threads than processors share");
        let shown = machine.to_string();
        assert!(shown.contains("core 1.1: processors 5 13, memory node 1, cache 2"), "{shown}");
        assert!(shown.contains("card eth1: memory node 1, 8 receive queues"), "{shown}");
    }

    #[test]
    fn assign_cpus_uses_allowed_cpus_only() {
        let sys = two_sockets(&[("eth0", "-1\n", 4)]);
        let machine = Machine::read(sys.path(), sys.path(), |id| [3, 11, 6].contains(&id));
        assert_eq!((machine.core_count(), machine.shards()), (2, 1));
        assert_eq!(machine.assign_cpus(3), [3, 6, 11]);
        assert_eq!(
            (machine.node(6), machine.cpus_of(1), machine.cpus_of(0)),
            (1, vec![6], vec![3, 11])
        );
        assert!(machine.to_string().contains("any memory node"));
    }

    #[test]
    fn virtual_card_has_node_of_its_pci_device() {
        let sys = two_sockets(&[("eth0", "-1\n", 4)]);
        let device = sys.path().join("devices/pci0000:20/0000:21:00.0");
        fs::create_dir_all(device.join("virtio0")).unwrap();
        fs::write(device.join("numa_node"), "1\n").unwrap();
        let card = sys.path().join("class/net/eth1");
        fs::create_dir_all(card.join("queues/rx-0")).unwrap();
        std::os::unix::fs::symlink(device.join("virtio0"), card.join("device")).unwrap();
        let machine = Machine::read(sys.path(), sys.path(), |_| true);
        let nodes: Vec<Option<u32>> = machine.cards.iter().map(|card| card.node).collect();
        assert_eq!((nodes, machine.assign_cpus(2)), (vec![None, Some(1)], vec![4, 5]));
    }

    #[test]
    fn assign_cpus_interrupt_cores_come_last_on_node() {
        let sys = two_sockets(&[("eth0", "0\n", 2)]);
        let write = |path: &str, text: &str| {
            let path = sys.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for (number, cpus) in [("31", "0\n"), ("32", "10\n")] {
            write(&format!("class/net/eth0/device/msi_irqs/{number}"), "msix\n");
            write(&format!("irq/{number}/effective_affinity_list"), cpus);
        }
        write("class/net/eth0/device/msi_irqs/33", "msix\n");
        let machine = Machine::read(sys.path(), sys.path(), |_| true);
        assert_eq!(machine.cards[0].interrupts, BTreeMap::from([(31, vec![0]), (32, vec![10])]));
        assert_eq!(machine.assign_cpus(5), [1, 3, 0, 2, 4], "10 is the other half of core 2");
        let shown = machine.to_string();
        assert!(shown.contains("2 receive queues; interrupts 31 on 0, 32 on 10\n"), "{shown}");
    }

    #[test]
    fn node_guard_binds_thread_and_restores_affinity() {
        let sys = two_sockets(&[("eth0", "1\n", 2)]);
        let machine = Machine::read(sys.path(), sys.path(), |_| true);
        let placement = Placement { cpus: machine.assign_cpus(6), machine };
        assert_eq!((placement.cpu(0), placement.node(0), placement.node(5)), (Some(4), 1, 0));
        assert_eq!(placement.node_cpus(1), [4, 5, 6, 7, 12, 13, 14, 15]);
        let unbound = Placement::default();
        assert_eq!((unbound.cpu(0), unbound.node(3), unbound.node_cpus(0)), (None, 0, vec![]));
        // This machine may have one node and one processor: the affinity must be restored.
        let affinity = || rustix::thread::sched_getaffinity(None).unwrap();
        let (before, machine) = (affinity(), Machine::detect());
        let first = machine.assign_cpus(1);
        let placement = Placement { cpus: first.clone(), machine };
        let guard = placement.on_first_node();
        let during = affinity();
        assert!(
            during.is_set(first[0])
                && during.count() as usize == placement.node_cpus(placement.node(0)).len()
        );
        drop(guard);
        assert_eq!(affinity(), before);
    }

    #[test]
    fn machine_detect_and_read_without_files() {
        let machine = Machine::detect();
        assert!(machine.cpus.iter().any(|cpu| cpu.allowed) && machine.shards() >= 1);
        let empty = Machine::read(Path::new("/nonexistent"), Path::new("/nonexistent"), |_| true);
        assert_eq!((empty.shards(), empty.assign_cpus(2)), (1, vec![]));
        let before = rustix::thread::sched_getaffinity(None).unwrap();
        let cpu = machine.assign_cpus(1)[0];
        pin(cpu).unwrap();
        assert_eq!(rustix::thread::sched_getaffinity(None).unwrap().count(), 1);
        rustix::thread::sched_setaffinity(None, &before).unwrap();
        assert!(pin(100_000).is_err());
    }
}
