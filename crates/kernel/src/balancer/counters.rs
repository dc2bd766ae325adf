//! The counters of the balancer's program.

use std::collections::BTreeMap;

/// The outcome of a frame; each frame is counted as exactly one. The numbers are those in
/// `bpf/balancer.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Verdict {
    /// Not for the cluster: left to the system, unchanged.
    Passed,
    /// An Interest to the cluster's port: sent to the member of its name.
    Interest,
    /// A Data to the cluster's port: sent to the member of its name.
    Data,
    /// A Nack to the cluster's port: sent to the member of its name.
    Nack,
    /// An NDNLPv2 fragment to the cluster's port: sent to the member of its packet.
    Fragment,
    /// A packet with a control name: sent to the control member.
    Control,
    /// A packet to a member's own port or Ethernet address: sent to that member.
    ToMember,
    /// A later fragment of an IPv4 packet: sent to the member of the first fragment.
    IpFragment,
    /// An Interest from a member: sent out from the member's own port.
    InterestOut,
    /// An Interest from a member to a one-port peer: sent out from the cluster's port.
    InterestOutOnePort,
    /// A Data, Nack or fragment from a member: sent out from the cluster's port.
    AnswerOut,
    /// A later fragment of an IPv4 packet from a member: sent out.
    IpFragmentOut,
    /// From a member and rewritten, but left to the system as the neighbour is not resolved.
    Unresolved,
    /// From a member and longer than the egress MTU: left to the system, which fragments it or
    /// notifies the member.
    TooLongOut,
    /// To the cluster, with IPv4 options: left to the system, unchanged.
    IpOptions,
    /// To the cluster, with IPv6 extension headers: left to the system, unchanged.
    Ipv6Extensions,
    /// A later fragment of an IPv4 packet that arrived before the first: copied to the balancer's
    /// process. It is counted again when it is released or lost.
    IpFragmentHeld,
    /// Dropped: no member has the slot, or there is no control member.
    NoMember,
    /// Dropped: the member has no next hop, or no address of the packet's kind.
    NoHop,
    /// Dropped: no route to the destination of a member's packet.
    NoRoute,
    /// Dropped: the time to live (hop limit) ended.
    TimeToLive,
    /// Dropped: longer than the MTU towards the member.
    TooLong,
    /// Dropped: a later fragment of an IPv4 packet whose first fragment did not arrive in time, or
    /// that could not be held.
    IpFragmentLost,
    /// Dropped: an NDNLPv2 packet with Ack or TxSequence, as reliability does not work through a
    /// balancer.
    Reliability,
    /// Dropped: an NDNLPv2 packet without a fragment.
    Idle,
    /// Dropped: the name does not start within 128 bytes, or there are more than 16 link fields.
    HeaderLimit,
    /// Dropped: starts like an NDN packet but is malformed.
    Malformed,
    /// Dropped: not an NDN packet.
    NotNdn,
    /// Dropped: the program could not read or write the frame, or has no configuration.
    Failed,
}

impl Verdict {
    /// All verdicts, in the order of their numbers.
    pub const ALL: [Verdict; 29] = [
        Verdict::Passed,
        Verdict::Interest,
        Verdict::Data,
        Verdict::Nack,
        Verdict::Fragment,
        Verdict::Control,
        Verdict::ToMember,
        Verdict::IpFragment,
        Verdict::InterestOut,
        Verdict::InterestOutOnePort,
        Verdict::AnswerOut,
        Verdict::IpFragmentOut,
        Verdict::Unresolved,
        Verdict::TooLongOut,
        Verdict::IpOptions,
        Verdict::Ipv6Extensions,
        Verdict::IpFragmentHeld,
        Verdict::NoMember,
        Verdict::NoHop,
        Verdict::NoRoute,
        Verdict::TimeToLive,
        Verdict::TooLong,
        Verdict::IpFragmentLost,
        Verdict::Reliability,
        Verdict::Idle,
        Verdict::HeaderLimit,
        Verdict::Malformed,
        Verdict::NotNdn,
        Verdict::Failed,
    ];

    /// Returns the counter's name in metrics, such as `ip_fragment`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Verdict::Passed => "passed",
            Verdict::Interest => "interest",
            Verdict::Data => "data",
            Verdict::Nack => "nack",
            Verdict::Fragment => "fragment",
            Verdict::Control => "control",
            Verdict::ToMember => "to_member",
            Verdict::IpFragment => "ip_fragment",
            Verdict::InterestOut => "interest_out",
            Verdict::InterestOutOnePort => "interest_out_one_port",
            Verdict::AnswerOut => "answer_out",
            Verdict::IpFragmentOut => "ip_fragment_out",
            Verdict::Unresolved => "unresolved",
            Verdict::TooLongOut => "too_long_out",
            Verdict::IpOptions => "ip_options",
            Verdict::Ipv6Extensions => "ipv6_extensions",
            Verdict::IpFragmentHeld => "ip_fragment_held",
            Verdict::NoMember => "no_member",
            Verdict::NoHop => "no_hop",
            Verdict::NoRoute => "no_route",
            Verdict::TimeToLive => "time_to_live",
            Verdict::TooLong => "too_long",
            Verdict::IpFragmentLost => "ip_fragment_lost",
            Verdict::Reliability => "reliability",
            Verdict::Idle => "idle",
            Verdict::HeaderLimit => "header_limit",
            Verdict::Malformed => "malformed",
            Verdict::NotNdn => "not_ndn",
            Verdict::Failed => "failed",
        }
    }

    /// Returns whether such a frame is dropped.
    pub const fn is_drop(self) -> bool {
        self as u8 >= Verdict::NoMember as u8
    }
}

/// The packets to or from a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Direction {
    /// Interests.
    pub interests: u64,
    /// Data.
    pub data: u64,
    /// Nacks.
    pub nacks: u64,
    /// NDNLPv2 fragments after the first (which counts as the packet's kind), and later IPv4
    /// fragments.
    pub fragments: u64,
    /// Other packets to the member's own port, which are not parsed beyond the first bytes.
    pub others: u64,
    /// Bytes of the frames as received.
    pub bytes: u64,
}

impl Direction {
    /// Adds the words of `struct direction`.
    fn add(&mut self, words: &[u64]) {
        let Direction { interests, data, nacks, fragments, others, bytes } = self;
        for (sum, at) in
            [(interests, 0), (data, 1), (nacks, 2), (fragments, 3), (others, 4), (bytes, 8)]
        {
            *sum = sum.wrapping_add(words[at]);
        }
    }
}

/// The counters of a member. A packet counts when it was sent on, or left to the system to be sent
/// on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberCounters {
    /// Packets to the member.
    pub to: Direction,
    /// Packets from the member.
    pub from: Direction,
}

/// The layout of `struct counters` in `bpf/balancer.h`: verdicts, then 64 members with two
/// directions, each of eight packet kinds and the bytes.
const VERDICTS: usize = 32;
const DIRECTION: usize = 9;
pub(super) const WORDS: usize = VERDICTS + 64 * 2 * DIRECTION;

/// All counters of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BalancerCounters {
    verdicts: [u64; Verdict::ALL.len()],
    members: BTreeMap<u8, MemberCounters>,
}

impl FromIterator<(u8, MemberCounters)> for BalancerCounters {
    /// Collects the counters of members by number, without verdicts.
    fn from_iter<T: IntoIterator<Item = (u8, MemberCounters)>>(members: T) -> Self {
        let members = members.into_iter().collect();
        BalancerCounters { members, ..BalancerCounters::default() }
    }
}

impl BalancerCounters {
    /// Adds the counters of one CPU.
    pub(super) fn add(&mut self, counted: &[u64; WORDS]) {
        let (verdicts, members) = counted.split_at(VERDICTS);
        self.verdicts
            .iter_mut()
            .zip(verdicts)
            .for_each(|(sum, count)| *sum = sum.wrapping_add(*count));
        for (number, words) in (0u8..).zip(members.chunks_exact(2 * DIRECTION)).skip(1) {
            if words.iter().any(|count| *count > 0) {
                let member = self.members.entry(number).or_default();
                let (to, from) = words.split_at(DIRECTION);
                member.to.add(to);
                member.from.add(from);
            }
        }
    }

    /// Returns the number of frames with this verdict.
    pub fn verdict(&self, verdict: Verdict) -> u64 {
        self.verdicts[verdict as usize]
    }

    /// Returns all verdicts with their counts.
    pub fn verdicts(&self) -> impl Iterator<Item = (Verdict, u64)> + '_ {
        Verdict::ALL.iter().map(|verdict| (*verdict, self.verdict(*verdict)))
    }

    /// Adds held fragments that the balancer's process dropped.
    pub(super) fn add_lost(&mut self, count: u64) {
        let lost = &mut self.verdicts[Verdict::IpFragmentLost as usize];
        *lost = lost.wrapping_add(count);
    }

    /// Returns the number of frames seen: the sum of all verdicts except held fragments, which
    /// count again when they are released or lost.
    pub fn frames(&self) -> u64 {
        let sum = self.verdicts.iter().fold(0u64, |sum, count| sum.wrapping_add(*count));
        sum.wrapping_sub(self.verdict(Verdict::IpFragmentHeld))
    }

    /// Returns the counters of all members with packets, by number.
    pub fn members(&self) -> impl Iterator<Item = (u8, MemberCounters)> + '_ {
        self.members.iter().map(|(number, counters)| (*number, *counters))
    }

    /// Returns the counters of a member; zeros if it has none.
    pub fn member(&self, number: u8) -> MemberCounters {
        self.members.get(&number).copied().unwrap_or_default()
    }
}
