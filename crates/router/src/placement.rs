//! How many threads forward on this machine, and where: cores, hyper-threads, caches, memory nodes and network cards as the system describes them.

use core::fmt;
use nw_api::config::Forwarder;
use rustix::thread::CpuSet;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Threads that forward unless somebody says how many, at most.
const SHARDS_MAX: usize = 16;

/// The rule, for people.
pub const RULE: &str = "one thread a core, only on processors this process may use; all on the memory node of the network cards with most queues, as far as \
                        its cores go, then on other nodes; cores that take no interrupts of a card first; last level caches are filled one after the other";

/// One processor: a hyper-thread of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Its number, as the system has it.
    pub id: usize,
    /// Its socket and its core in that.
    pub core: (u32, u32),
    /// Its memory node.
    pub node: u32,
    /// Its last level cache.
    pub cache: u32,
    /// This process may use it.
    pub allowed: bool,
}

/// A network card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// Its interface's name.
    pub name: String,
    /// Its memory node, where it says.
    pub node: Option<u32>,
    /// Receive queues.
    pub queues: usize,
    /// Its interrupts by number, each with the processors that take it.
    pub interrupts: BTreeMap<usize, Vec<usize>>,
}

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Its processors, by number.
    pub cpus: Vec<Cpu>,
    /// Its network cards, by name; virtual interfaces are none.
    pub cards: Vec<Card>,
}

impl Machine {
    /// This one, as this process may use it.
    pub fn here() -> Self {
        let allowed = rustix::thread::sched_getaffinity(None);
        Machine::read(Path::new("/sys"), Path::new("/proc"), |id| {
            allowed.as_ref().map_or(true, |set| id < CpuSet::MAX_CPU && set.is_set(id))
        })
    }

    /// As folders like `/sys` and `/proc` describe it.
    pub fn read(sys: &Path, proc: &Path, allowed: impl Fn(usize) -> bool) -> Self {
        let nodes = nodes(&sys.join("devices/system/node"));
        let folder = sys.join("devices/system/cpu");
        let mut cpus: Vec<Cpu> = numbered(&folder, "cpu")
            .map(|id| {
                let cpu = folder.join(format!("cpu{id}"));
                let topology = |file: &str| number(&cpu.join("topology").join(file));
                let socket = topology("physical_package_id").unwrap_or(0);
                Cpu {
                    id,
                    core: (socket, topology("core_id").unwrap_or(id as u32)),
                    node: nodes.get(&id).copied().unwrap_or(0),
                    cache: number(&cpu.join("cache/index3/id")).unwrap_or(socket),
                    allowed: allowed(id),
                }
            })
            .collect();
        cpus.sort_by_key(|cpu| cpu.id);
        let mut cards: Vec<Card> = names(&sys.join("class/net"))
            .filter(|name| sys.join("class/net").join(name).join("device").exists())
            .map(|name| {
                let folder = sys.join("class/net").join(&name);
                let queues = names(&folder.join("queues")).filter(|queue| queue.starts_with("rx-")).count();
                let interrupts = interrupts(&folder.join("device"), &proc.join("irq"));
                Card { node: card_node(&folder.join("device")), queues, interrupts, name }
            })
            .collect();
        cards.sort_by(|a, b| a.name.cmp(&b.name));
        Machine { cpus, cards }
    }

    /// Cores that this process may use.
    fn cores(&self) -> usize {
        self.cpus.iter().filter(|cpu| cpu.allowed).map(|cpu| cpu.core).collect::<BTreeSet<_>>().len()
    }

    /// Threads that forward here unless somebody says how many: on up to two cores one, as others need the machine too; else half of the cores.
    pub fn shards(&self) -> usize {
        match self.cores() {
            0..=2 => 1,
            cores => (cores / 2).min(SHARDS_MAX),
        }
    }

    /// The memory node of a processor.
    pub fn node(&self, cpu: usize) -> u32 {
        self.cpus.iter().find(|other| other.id == cpu).map_or(0, |cpu| cpu.node)
    }

    /// The processors of a memory node that this process may use.
    pub fn cpus_of(&self, node: u32) -> Vec<usize> {
        self.cpus.iter().filter(|cpu| cpu.node == node && cpu.allowed).map(|cpu| cpu.id).collect()
    }

    /// The processor of each of so many threads, by [`RULE`]; of more threads than cores, those that are too many share.
    pub fn place(&self, shards: usize) -> Vec<usize> {
        let best = self.cards.iter().filter(|card| card.node.is_some()).max_by_key(|card| card.queues);
        let near = best.and_then(|card| card.node);
        let interrupted: BTreeSet<usize> =
            self.cards.iter().flat_map(|card| card.interrupts.values().flatten().copied()).collect();
        let busy: BTreeSet<(u32, u32)> =
            self.cpus.iter().filter(|cpu| interrupted.contains(&cpu.id)).map(|cpu| cpu.core).collect();
        let mut usable: Vec<&Cpu> = self.cpus.iter().filter(|cpu| cpu.allowed).collect();
        usable.sort_by_key(|cpu| {
            (Some(cpu.node) != near, cpu.node, busy.contains(&cpu.core), cpu.cache, cpu.id)
        });
        let mut taken = BTreeSet::new();
        let (first, rest): (Vec<&Cpu>, Vec<&Cpu>) =
            usable.into_iter().partition(|cpu| taken.insert(cpu.core));
        first.into_iter().chain(rest).map(|cpu| cpu.id).cycle().take(shards).collect()
    }
}

/// Where this router's threads run.
#[derive(Debug, Default)]
pub(crate) struct Placement {
    machine: Machine,
    /// By shard; empty where the system is to choose.
    cpus: Vec<usize>,
}

impl Placement {
    /// As a configuration says, by [`RULE`] where it says nothing. One thread alone is not bound.
    pub fn of(forwarder: &Forwarder) -> Self {
        let (shards, chosen) = (forwarder.shards as usize, &forwarder.cpus);
        if shards < 2 || !forwarder.pin {
            return Placement::default();
        }
        let machine = Machine::here();
        let cpus = match chosen.is_empty() {
            true => machine.place(shards),
            false => chosen.iter().map(|cpu| *cpu as usize).cycle().take(shards).collect(),
        };
        Placement { machine, cpus }
    }

    /// A shard's processor, if it is to be bound to one.
    pub fn cpu(&self, shard: usize) -> Option<usize> {
        self.cpus.get(shard).copied()
    }

    /// A shard's memory node. Where nobody knows where shards run, all of them count as one node's.
    pub fn node(&self, shard: usize) -> u32 {
        self.cpu(shard).map_or(0, |cpu| self.machine.node(cpu))
    }

    /// The processors of a memory node; none where the system is to choose.
    pub fn near(&self, node: u32) -> Vec<usize> {
        if self.cpus.is_empty() { Vec::new() } else { self.machine.cpus_of(node) }
    }

    /// What the calling thread touches first until this is dropped is in the first shard's memory.
    pub fn at_first(&self) -> Visit {
        let near = self.near(self.node(0));
        let home = if near.is_empty() { None } else { rustix::thread::sched_getaffinity(None).ok() };
        if home.is_some() {
            prefer(&near);
        }
        Visit { home }
    }
}

/// A thread is on a memory node while this is there, and then wherever it was allowed to be before.
#[must_use]
pub(crate) struct Visit {
    home: Option<CpuSet>,
}

impl Drop for Visit {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            // These were allowed a moment ago; of those that are no longer the system takes the others.
            let _ = rustix::thread::sched_setaffinity(None, home);
        }
    }
}

/// Binds the calling thread to a processor.
///
/// # Errors
/// When there is no such processor, or this process may not use it.
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

/// Lets the calling thread run on any of these processors, so that memory it takes is theirs; on all where there are none, or the system refuses.
pub(crate) fn prefer(cpus: &[usize]) {
    if !cpus.is_empty()
        && let Err(errno) = bind(cpus)
    {
        tracing::warn!(?cpus, "can't bind a thread to a memory node ({errno}): its memory may be another's");
    }
}

/// As [`pin`], for a shard that goes on without if it must.
pub(crate) fn pin_shard(shard: usize, cpu: usize) {
    match pin(cpu) {
        Ok(()) => tracing::info!(shard, cpu, "thread"),
        Err(errno) => tracing::warn!(
            shard,
            "can't bind a thread to processor {cpu} ({errno}): it runs wherever the system puts it; see forwarder.cpus and forwarder.pin"
        ),
    }
}

impl fmt::Display for Machine {
    /// A line for each core, then one for each card.
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
            let node = card.node.map_or("any memory node".to_owned(), |node| format!("memory node {node}"));
            write!(f, "card {}: {node}, {} receive queues", card.name, card.queues)?;
            for (place, (number, cpus)) in card.interrupts.iter().enumerate() {
                let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
                let before = if place == 0 { "; interrupts" } else { "," };
                write!(f, "{before} {number} on {}", cpus.join(" "))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// The memory node of each processor.
fn nodes(folder: &Path) -> BTreeMap<usize, u32> {
    let mut nodes = BTreeMap::new();
    for node in numbered(folder, "node") {
        let list = fs::read_to_string(folder.join(format!("node{node}/cpulist"))).unwrap_or_default();
        nodes.extend(cpu_list(&list).into_iter().map(|cpu| (cpu, node as u32)));
    }
    nodes
}

/// The memory node of a card: its device's, or that of what the device is a part of, as a virtual card is of a PCI device.
fn card_node(device: &Path) -> Option<u32> {
    let own = device.join("numa_node");
    number(&if own.exists() { own } else { device.join("../numa_node") })
}

/// Interrupts of a card, each with the processors that take it: those of its device, or of what that is a part of, as a virtual card is of a PCI device.
fn interrupts(device: &Path, irq: &Path) -> BTreeMap<usize, Vec<usize>> {
    [device.join("msi_irqs"), device.join("../msi_irqs")]
        .iter()
        .map(|folder| names(folder).filter_map(|name| name.parse().ok()).collect::<Vec<usize>>())
        .find(|numbers| !numbers.is_empty())
        .unwrap_or_default()
        .into_iter()
        .filter_map(|number| {
            let list = irq.join(number.to_string()).join("effective_affinity_list");
            Some((number, cpu_list(&fs::read_to_string(list).ok()?)))
        })
        .collect()
}

/// Such as `0-3,8`.
fn cpu_list(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<usize>().ok()?..=last.trim().parse().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

fn number(file: &Path) -> Option<u32> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn names(folder: &Path) -> impl Iterator<Item = String> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
}

/// Numbers of the entries `<prefix><number>` of a folder.
fn numbered(folder: &Path, prefix: &str) -> impl Iterator<Item = usize> {
    names(folder).filter_map(move |name| name.strip_prefix(prefix)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sockets of four cores with two hyper-threads each, numbered as usual: first one thread of each core, then the others.
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
            (0..*queues).for_each(|queue| write(format!("class/net/{name}/queues/rx-{queue}/x"), ""));
        }
        write("class/net/lo/queues/rx-0/x".into(), "");
        sys
    }

    #[test]
    fn threads_go_to_cores_near_the_card_first_and_share_last() {
        let sys = two_sockets(&[("eth0", "0\n", 2), ("eth1", "1\n", 8)]);
        let machine = Machine::read(sys.path(), sys.path(), |_| true);
        assert_eq!((machine.cpus.len(), machine.cards.len(), machine.cores()), (16, 2, 8));
        assert_eq!((machine.cpus[13].core, machine.cpus[13].node, machine.cpus[13].cache), ((1, 1), 1, 2));
        assert_eq!(machine.shards(), 4);
        assert_eq!(machine.place(4), [4, 5, 6, 7]);
        assert_eq!(machine.place(9), [4, 5, 6, 7, 0, 1, 2, 3, 12]);
        assert_eq!(machine.place(17)[16], 4, "more threads than processors share");
        let shown = machine.to_string();
        assert!(shown.contains("core 1.1: processors 5 13, memory node 1, cache 2"), "{shown}");
        assert!(shown.contains("card eth1: memory node 1, 8 receive queues"), "{shown}");
    }

    #[test]
    fn only_what_the_process_may_use_and_cards_that_say_no_node() {
        let sys = two_sockets(&[("eth0", "-1\n", 4)]);
        let machine = Machine::read(sys.path(), sys.path(), |id| [3, 11, 6].contains(&id));
        assert_eq!((machine.cores(), machine.shards()), (2, 1));
        assert_eq!(machine.place(3), [3, 6, 11]);
        assert_eq!((machine.node(6), machine.cpus_of(1), machine.cpus_of(0)), (1, vec![6], vec![3, 11]));
        assert!(machine.to_string().contains("any memory node"));
    }

    #[test]
    fn a_virtual_card_is_where_its_pci_device_is() {
        let sys = two_sockets(&[("eth0", "-1\n", 4)]);
        let device = sys.path().join("devices/pci0000:20/0000:21:00.0");
        fs::create_dir_all(device.join("virtio0")).unwrap();
        fs::write(device.join("numa_node"), "1\n").unwrap();
        let card = sys.path().join("class/net/eth1");
        fs::create_dir_all(card.join("queues/rx-0")).unwrap();
        std::os::unix::fs::symlink(device.join("virtio0"), card.join("device")).unwrap();
        let machine = Machine::read(sys.path(), sys.path(), |_| true);
        let nodes: Vec<Option<u32>> = machine.cards.iter().map(|card| card.node).collect();
        assert_eq!((nodes, machine.place(2)), (vec![None, Some(1)], vec![4, 5]));
    }

    #[test]
    fn cores_that_take_interrupts_come_last_on_their_node() {
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
        assert_eq!(machine.place(5), [1, 3, 0, 2, 4], "10 is the other half of core 2");
        let shown = machine.to_string();
        assert!(shown.contains("2 receive queues; interrupts 31 on 0, 32 on 10\n"), "{shown}");
    }

    #[test]
    fn the_first_shard_s_memory_is_taken_on_its_node() {
        let sys = two_sockets(&[("eth0", "1\n", 2)]);
        let machine = Machine::read(sys.path(), sys.path(), |_| true);
        let placement = Placement { cpus: machine.place(6), machine };
        assert_eq!((placement.cpu(0), placement.node(0), placement.node(5)), (Some(4), 1, 0));
        assert_eq!(placement.near(1), [4, 5, 6, 7, 12, 13, 14, 15]);
        let anywhere = Placement::default();
        assert_eq!((anywhere.cpu(0), anywhere.node(3), anywhere.near(0)), (None, 0, vec![]));
        // Here there may be one node and one processor: what counts is that all is as before.
        let own = || rustix::thread::sched_getaffinity(None).unwrap();
        let (before, machine) = (own(), Machine::here());
        let first = machine.place(1);
        let placement = Placement { cpus: first.clone(), machine };
        let visit = placement.at_first();
        let there = own();
        assert!(there.is_set(first[0]) && there.count() as usize == placement.near(placement.node(0)).len());
        drop(visit);
        assert_eq!(own(), before);
    }

    #[test]
    fn here_and_nowhere() {
        let here = Machine::here();
        assert!(here.cpus.iter().any(|cpu| cpu.allowed) && here.shards() >= 1);
        let nowhere = Machine::read(Path::new("/nonexistent"), Path::new("/nonexistent"), |_| true);
        assert_eq!((nowhere.shards(), nowhere.place(2)), (1, vec![]));
        let own = rustix::thread::sched_getaffinity(None).unwrap();
        let cpu = here.place(1)[0];
        pin(cpu).unwrap();
        assert_eq!(rustix::thread::sched_getaffinity(None).unwrap().count(), 1);
        rustix::thread::sched_setaffinity(None, &own).unwrap();
        assert!(pin(100_000).is_err());
    }
}
