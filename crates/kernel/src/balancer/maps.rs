//! The program's maps, laid out byte by byte as `bpf/balancer.h` declares them.

use super::counters::{BalancerCounters, WORDS};
use super::options::{BalancerOptions, Hop, Link, MemberEntry};
use super::{PROGRAM_TC, PROGRAM_XDP};
use crate::error::{Cause, KernelError};
use crate::object::{address_key, verified};
use aya::maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray};
use aya::programs::{ProgramError, SchedClassifier, Xdp};
use aya::{Ebpf, Pod};
use nw_name::HashKey;
use nw_slot_table::{Effect, MEMBERS_MAX, Rules, SLOTS};
use nw_wire::shard::prefix_hashes;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

/// The version of the pinned maps' layout. Increase it with every change to a map in
/// `bpf/balancer.h` or `bpf/ndn.h` that is in [`PINNED`].
pub(super) const LAYOUT: u32 = 4;
/// The maps that outlive the process. The others hold the state of the current packet only.
pub(super) const PINNED: &[&str] = &[
    "cluster",
    "members",
    "slots",
    "ports",
    "addresses",
    "rules",
    "one_port",
    "links",
    "vlans",
    "ip_fragments",
    "fragments",
    "asked",
    "asking",
    "held_lost",
    "counters",
];
/// Slots and ports are written in lines of this many bytes.
const LINE_BYTES: usize = 64;
const CLUSTER_WORDS: usize = 11;
/// The word of `struct cluster` that holds `struct rule_state`.
const RULE_STATE_WORD: usize = 5;
const MEMBER_WORDS: usize = 9;
const HAS_V4: u32 = 1;
const HAS_V6: u32 = 2;
const HAS_HOP: u32 = 4;
const HAS_MAC: u32 = 8;

type Line = [u8; LINE_BYTES];
type MemberWords = [u64; MEMBER_WORDS];

/// The loaded object file with its maps and programs.
#[derive(Debug)]
pub(super) struct Maps {
    ebpf: Ebpf,
}

impl Maps {
    pub fn new(ebpf: Ebpf) -> Self {
        Maps { ebpf }
    }

    /// Loads the XDP program. The traffic-control program is loaded when it is needed.
    pub fn load_program(&mut self) -> Result<(), KernelError> {
        let load = |maps: &mut Maps| -> Result<(), Cause> {
            let program = maps.xdp()?;
            Ok(verified(|| program.load())?)
        };
        load(self).map_err(|e| KernelError::of("the balancer's program", e))
    }

    pub fn xdp(&mut self) -> Result<&mut Xdp, Cause> {
        Ok(self.ebpf.program_mut(PROGRAM_XDP).ok_or(ProgramError::NotLoaded)?.try_into()?)
    }

    pub fn tc(&mut self) -> Result<&mut SchedClassifier, Cause> {
        let program = self.ebpf.program_mut(PROGRAM_TC).ok_or(ProgramError::NotLoaded)?;
        let program: &mut SchedClassifier = program.try_into()?;
        if program.fd().is_err() {
            verified(|| program.load())?;
        }
        Ok(program)
    }

    /// Writes the settings that do not change.
    pub fn configure(&mut self, options: &BalancerOptions) -> Result<(), KernelError> {
        let mut cluster = Words::<CLUSTER_WORDS>::default();
        let ethernet = options.ethernet.as_ref();
        let v6 = options.cluster_v6.map_or([0; 16], |v6| v6.octets());
        let v4 = options.cluster_v4.map_or([0; 4], |v4| v4.octets());
        cluster
            .number(ethernet.map_or(0, |e| e.outside_index))
            .number(ethernet.map_or(0, |e| e.inside_index));
        cluster
            .put(&v6)
            .put(&v4)
            .number(sum(&v4))
            .number(sum(&v6))
            .number(u32::from(options.port.to_be()));
        // Adopted maps keep their rules.
        let [lengths, control] = self.rule_state()?;
        cluster.number(lengths).number(control);
        for word in options.key.words() {
            cluster.put(&word.to_ne_bytes());
        }
        // `struct config` needs one shard at least, although the balancer has none.
        cluster.number(1).number(0);
        if let Some(ethernet) = ethernet {
            cluster.mac(ethernet.outside_mac).mac(ethernet.group);
        }
        self.set("cluster", 0, cluster.words())
    }

    /// Writes or removes (`None`) a member; `known` is its previous entry. Packets see the old or
    /// the new entry.
    pub fn write_member(
        &mut self,
        number: u8,
        known: Option<&MemberEntry>,
        entry: Option<&MemberEntry>,
    ) -> Result<(), KernelError> {
        let write = |maps: &mut Maps| -> Result<(), KernelError> {
            maps.set("members", u32::from(number), entry.map_or([0; MEMBER_WORDS], member_words))?;
            if let Some(known) =
                known.filter(|known| entry.is_none_or(|entry| entry.port != known.port))
            {
                maps.write_port(known.port, 0)?;
            }
            if let Some(entry) = entry {
                maps.write_port(entry.port, number)?;
            }
            let (old, new) =
                (known.map(keys_of).unwrap_or_default(), entry.map(keys_of).unwrap_or_default());
            for removed in old.iter().filter(|key| !new.contains(key)) {
                maps.remove_address(removed, number)?;
            }
            new.iter().try_for_each(|key| maps.insert("addresses", key, u32::from(number)))
        };
        write(self)
    }

    pub fn read_members(&mut self) -> Result<BTreeMap<u8, MemberEntry>, KernelError> {
        let read = |maps: &Maps| -> Result<BTreeMap<u8, MemberEntry>, Cause> {
            let map: Array<_, MemberWords> = maps.map("members")?.try_into()?;
            let entries =
                (1..=MEMBERS_MAX).map(|number| Ok((number, map.get(&u32::from(number), 0)?)));
            let all: Vec<(u8, MemberWords)> = entries.collect::<Result<_, MapError>>()?;
            Ok(all
                .into_iter()
                .filter_map(|(number, words)| Some((number, member_of(words)?)))
                .collect())
        };
        read(self).map_err(|e| KernelError::of("reading the balancer's members", e))
    }

    pub fn read_slots(&mut self) -> Result<Vec<u8>, KernelError> {
        let read = |maps: &Maps| -> Result<Vec<u8>, Cause> {
            let map: Array<_, Line> = maps.map("slots")?.try_into()?;
            let lines: Vec<Line> = map.iter().collect::<Result<_, _>>()?;
            Ok(lines.concat())
        };
        let slots = read(self).map_err(|e| KernelError::of("reading the balancer's slots", e))?;
        debug_assert_eq!(slots.len(), SLOTS, "the map has the slots of nw-slot-table");
        Ok(slots)
    }

    /// Writes the lines that differ.
    pub fn write_slots(&mut self, known: &[u8], slots: &[u8]) -> Result<(), KernelError> {
        let lines = known.chunks_exact(LINE_BYTES).zip(slots.chunks_exact(LINE_BYTES));
        for (index, (_, line)) in (0..).zip(lines).filter(|(_, (old, new))| old != new) {
            let mut bytes = [0; LINE_BYTES];
            bytes.copy_from_slice(line);
            self.set("slots", index, bytes)?;
        }
        Ok(())
    }

    pub fn write_control(&mut self, number: u8) -> Result<(), KernelError> {
        let [lengths, _] = self.rule_state()?;
        self.set_rule_state([lengths, u32::from(number)])
    }

    /// Adds new rules, then sets the lengths, then removes old rules: a prefix with a rule before
    /// and after always has one.
    pub fn write_rules(&mut self, rules: &Rules, key: &HashKey) -> Result<(), KernelError> {
        let mut wanted = BTreeMap::<u64, [u8; 4]>::new();
        let mut lengths = 0;
        for (prefix, effect) in rules.iter() {
            let (mut hash, mut length) = (key.root(), 0);
            // Prefixes were checked when the rules were created, so they can be hashed.
            let _ = prefix_hashes(prefix.as_bytes(), key, |components, _, state| {
                (hash, length) = (state, components)
            });
            let (depth, control) = match effect {
                Effect::Depth(depth) => (depth, 0),
                Effect::Control => (0, 1),
            };
            let [low, high] = u16::from(depth).to_ne_bytes();
            wanted.insert(hash, [low, high, control, length as u8]);
            lengths |= 1 << length;
        }
        let [before, control] = self.rule_state()?;
        for (hash, rule) in &wanted {
            self.insert("rules", hash, *rule)?;
        }
        self.set_rule_state([before | lengths, control])?;
        self.retain::<u64, [u8; 4]>("rules", |hash| wanted.contains_key(hash))?;
        self.set_rule_state([lengths, control])
    }

    pub fn write_one_port(&mut self, peers: &[SocketAddr]) -> Result<(), KernelError> {
        let wanted: Vec<[u64; 3]> = peers
            .iter()
            .map(|peer| {
                let [high, low] = address_key(peer.ip());
                [high, low, u64::from(peer.port().to_be())]
            })
            .collect();
        self.retain::<[u64; 3], u32>("one_port", |peer| wanted.contains(peer))?;
        wanted.iter().try_for_each(|peer| self.insert("one_port", peer, 1u32))
    }

    pub fn write_links(&mut self, links: &[Link]) -> Result<(), KernelError> {
        self.retain::<u32, [u32; 2]>("links", |index| {
            links.iter().any(|link| link.interface_index == *index)
        })?;
        let tagged = |link: &Link| [link.underlying_index, u32::from(link.vlan)];
        self.retain::<[u32; 2], u32>("vlans", |key| links.iter().any(|link| tagged(link) == *key))?;
        for link in links {
            self.insert("links", &link.interface_index, tagged(link))?;
            self.insert("vlans", &tagged(link), link.interface_index)?;
        }
        Ok(())
    }

    pub fn counters(&self) -> Result<BalancerCounters, KernelError> {
        let read = || -> Result<BalancerCounters, Cause> {
            let map: PerCpuArray<_, [u64; WORDS]> = self.map("counters")?.try_into()?;
            let mut sum = BalancerCounters::default();
            map.get(&0, 0)?.iter().for_each(|counted| sum.add(counted));
            let lost: Array<_, u64> = self.map("held_lost")?.try_into()?;
            sum.add_lost(lost.get(&0, 0)?);
            Ok(sum)
        };
        read().map_err(|e| KernelError::of("reading the balancer's counters", e))
    }

    fn cluster(&self) -> Result<[u64; CLUSTER_WORDS], KernelError> {
        let read = || -> Result<[u64; CLUSTER_WORDS], Cause> {
            let map: Array<_, [u64; CLUSTER_WORDS]> = self.map("cluster")?.try_into()?;
            Ok(map.get(&0, 0)?)
        };
        read().map_err(|e| KernelError::of("reading the balancer's settings", e))
    }

    /// Returns the lengths of rules (bit n: n components), and the control member.
    fn rule_state(&self) -> Result<[u32; 2], KernelError> {
        let bytes = self.cluster()?[RULE_STATE_WORD].to_ne_bytes();
        Ok([0, 4].map(|at| u32::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]))))
    }

    /// Writes the lengths of rules and the control member; all other settings are unchanged.
    fn set_rule_state(&mut self, state: [u32; 2]) -> Result<(), KernelError> {
        let mut cluster = self.cluster()?;
        let mut words = Words::<1>::default();
        words.number(state[0]).number(state[1]);
        [cluster[RULE_STATE_WORD]] = words.words();
        self.set("cluster", 0, cluster)
    }

    fn write_port(&mut self, port: u16, number: u8) -> Result<(), KernelError> {
        let (index, at) = (u32::from(port) / LINE_BYTES as u32, usize::from(port) % LINE_BYTES);
        let read = |maps: &Maps| -> Result<Line, Cause> {
            let map: Array<_, Line> = maps.map("ports")?.try_into()?;
            Ok(map.get(&index, 0)?)
        };
        let mut line =
            read(self).map_err(|e| KernelError::of("reading the balancer's ports", e))?;
        line[at] = number;
        self.set("ports", index, line)
    }

    /// Removes an address, unless another member has it by now.
    fn remove_address(&mut self, key: &[u64; 2], number: u8) -> Result<(), KernelError> {
        let remove = |maps: &mut Maps| -> Result<(), Cause> {
            let mut map: HashMap<_, [u64; 2], u32> = maps.map_mut("addresses")?.try_into()?;
            match map.get(key, 0) {
                Ok(owner) if owner == u32::from(number) => Ok(map.remove(key)?),
                Ok(_) | Err(MapError::KeyNotFound) => Ok(()),
                Err(e) => Err(e.into()),
            }
        };
        remove(self).map_err(|e| KernelError::of("the balancer's addresses", e))
    }

    /// Returns a map for another thread, with a descriptor of its own: programs loaded later need
    /// this one.
    pub fn share(&self, name: &str) -> Result<Map, Cause> {
        let fd = match self.map(name)? {
            Map::RingBuf(data) | Map::LruHashMap(data) | Map::Array(data) => data.fd(),
            _ => return Err(MapError::ElementNotFound.into()),
        };
        Ok(Map::from_map_data(MapData::from_fd(fd.as_fd().try_clone_to_owned()?)?)?)
    }

    fn map(&self, name: &str) -> Result<&Map, MapError> {
        self.ebpf.map(name).ok_or(MapError::ElementNotFound)
    }

    fn map_mut(&mut self, name: &str) -> Result<&mut Map, MapError> {
        self.ebpf.map_mut(name).ok_or(MapError::ElementNotFound)
    }

    fn set<V: Pod>(&mut self, name: &'static str, index: u32, value: V) -> Result<(), KernelError> {
        let set = |maps: &mut Maps| -> Result<(), Cause> {
            let mut map: Array<&mut MapData, V> = maps.map_mut(name)?.try_into()?;
            Ok(map.set(index, value, 0)?)
        };
        set(self).map_err(|e| KernelError::of("a setting of the balancer", e))
    }

    fn insert<K: Pod, V: Pod>(
        &mut self,
        name: &'static str,
        key: &K,
        value: V,
    ) -> Result<(), KernelError> {
        let insert = |maps: &mut Maps| -> Result<(), Cause> {
            let mut map: HashMap<&mut MapData, K, V> = maps.map_mut(name)?.try_into()?;
            Ok(map.insert(key, value, 0)?)
        };
        insert(self).map_err(|e| KernelError::of("a setting of the balancer", e))
    }

    /// Removes the keys that are not wanted.
    fn retain<K: Pod, V: Pod>(
        &mut self,
        name: &'static str,
        wanted: impl Fn(&K) -> bool,
    ) -> Result<(), KernelError> {
        let retain = |maps: &mut Maps| -> Result<(), Cause> {
            let mut map: HashMap<&mut MapData, K, V> = maps.map_mut(name)?.try_into()?;
            let known: Vec<K> = map.keys().collect::<Result<_, _>>()?;
            known.iter().filter(|key| !wanted(key)).try_for_each(|key| Ok(map.remove(key)?))
        };
        retain(self).map_err(|e| KernelError::of("a setting of the balancer", e))
    }
}

/// Writes a C structure field by field, from its first byte on.
struct Words<const N: usize> {
    bytes: Vec<u8>,
}

impl<const N: usize> Default for Words<N> {
    fn default() -> Self {
        Words { bytes: Vec::with_capacity(8 * N) }
    }
}

impl<const N: usize> Words<N> {
    fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn number(&mut self, number: u32) -> &mut Self {
        self.put(&number.to_ne_bytes())
    }

    fn mac(&mut self, mac: [u8; 6]) -> &mut Self {
        self.put(&mac).put(&[0; 2])
    }

    /// Returns the structure as words, padded with zeros.
    fn words(&self) -> [u64; N] {
        std::array::from_fn(|word| {
            u64::from_ne_bytes(std::array::from_fn(|i| {
                self.bytes.get(8 * word + i).copied().unwrap_or(0)
            }))
        })
    }
}

fn member_words(entry: &MemberEntry) -> MemberWords {
    let v6 = entry.address_v6.map_or([0; 16], |v6| v6.octets());
    let v4 = entry.address_v4.map_or([0; 4], |v4| v4.octets());
    let mut flags = 0;
    for (has, flag) in [
        (entry.address_v4.is_some(), HAS_V4),
        (entry.address_v6.is_some(), HAS_V6),
        (entry.hop.is_some(), HAS_HOP),
        (entry.mac.is_some(), HAS_MAC),
    ] {
        flags |= if has { flag } else { 0 };
    }
    let unset = Hop { interface_index: 0, own_mac: [0; 6], mac: [0; 6], vlan: None, mtu_bytes: 0 };
    let hop = entry.hop.unwrap_or(unset);
    let mut words = Words::<MEMBER_WORDS>::default();
    words
        .put(&v6)
        .put(&v4)
        .number(sum(&v4))
        .number(sum(&v6))
        .number(u32::from(entry.port.to_be()))
        .number(flags);
    words
        .number(hop.interface_index)
        .number(u32::from(hop.vlan.unwrap_or(0)))
        .number(hop.mtu_bytes);
    words.put(&hop.mac).put(&hop.own_mac).number(0).mac(entry.mac.unwrap_or_default());
    words.words()
}

/// The inverse of [`member_words`]. `None` if there is no member.
fn member_of(words: MemberWords) -> Option<MemberEntry> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let number = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
    let mac = |at: usize| -> [u8; 6] { std::array::from_fn(|i| bytes[at + i]) };
    let flags = number(32);
    let v6: [u8; 16] = std::array::from_fn(|i| bytes[i]);
    let v4: [u8; 4] = std::array::from_fn(|i| bytes[16 + i]);
    let vlan = number(40) as u16;
    let hop = Hop {
        interface_index: number(36),
        own_mac: mac(54),
        mac: mac(48),
        vlan: (vlan != 0).then_some(vlan),
        mtu_bytes: number(44),
    };
    (flags != 0).then(|| MemberEntry {
        address_v4: (flags & HAS_V4 != 0).then(|| Ipv4Addr::from(v4)),
        address_v6: (flags & HAS_V6 != 0).then(|| Ipv6Addr::from(v6)),
        port: u16::from_be(number(28) as u16),
        hop: (flags & HAS_HOP != 0).then_some(hop),
        mac: (flags & HAS_MAC != 0).then(|| mac(64)),
    })
}

/// Returns the one's complement sum of 16-bit words in memory order, for incremental checksums.
fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks_exact(2).map(|pair| u32::from(u16::from_ne_bytes([pair[0], pair[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

/// Returns the keys of a member in the map `addresses`.
fn keys_of(entry: &MemberEntry) -> Vec<[u64; 2]> {
    let mac = entry.mac.map(|mac| {
        let mut bytes = [0; 8];
        bytes[..6].copy_from_slice(&mac);
        [u64::MAX, u64::from_le_bytes(bytes)]
    });
    let addresses = [entry.address_v4.map(IpAddr::V4), entry.address_v6.map(IpAddr::V6)];
    addresses.into_iter().flatten().map(address_key).chain(mac).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_layout_equals_the_program_s() {
        let entry = MemberEntry {
            address_v4: Some([192, 0, 2, 9].into()),
            address_v6: Some("2001:db8::9".parse().unwrap()),
            port: 6371,
            hop: Some(Hop {
                interface_index: 7,
                own_mac: [1, 2, 3, 4, 5, 6],
                mac: [10, 11, 12, 13, 14, 15],
                vlan: Some(300),
                mtu_bytes: 1500,
            }),
            mac: Some([2, 0, 0, 0, 0, 9]),
        };
        let words = member_words(&entry);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(bytes[16..20], [192, 0, 2, 9]);
        assert_eq!(bytes[28..30], 6371u16.to_be_bytes());
        assert_eq!(bytes[48..60], [10, 11, 12, 13, 14, 15, 1, 2, 3, 4, 5, 6]);
        assert_eq!(member_of(words), Some(entry));
        let bare = MemberEntry { address_v6: None, hop: None, mac: None, ..entry };
        assert_eq!(member_of(member_words(&bare)), Some(bare));
        assert_eq!(member_of([0; MEMBER_WORDS]), None);
    }

    #[test]
    fn sum_folds_carries() {
        assert_eq!(sum(&[0xff, 0xff, 1, 0]), 1);
        assert_eq!(sum(&[0; 16]), 0);
        assert_eq!(sum(&[0xff; 16]), 0xffff);
    }
}
