//! What the balancer's program counts.

use std::collections::BTreeMap;

/// What became of a frame; each is counted as exactly one. The numbers are those of `bpf/balancer.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Verdict {
    /// Not the balancer's: on to the system, untouched.
    Passed,
    /// An Interest to the member of its name.
    Interest,
    /// A Data to the cluster's port, to the member of its name.
    Data,
    /// A Nack to the cluster's port, to the member of its name.
    Nack,
    /// An NDNLPv2 fragment to the member of its packet.
    Fragment,
    /// To a control name, to the control member.
    Control,
    /// To a member's own port or Ethernet address: to that member.
    ToMember,
    /// A later fragment of an IPv4 packet, to the member of its first.
    IpFragment,
    /// An Interest of a member's, to the outside from the member's own port.
    InterestOut,
    /// An Interest of a member's to a one-port peer, from the cluster's port.
    InterestOutOnePort,
    /// A Data, Nack or fragment of a member's, to the outside from the cluster's port.
    AnswerOut,
    /// A later fragment of an IPv4 packet of a member's.
    IpFragmentOut,
    /// Of a member's, rewritten, and given to the system because the neighbour is not resolved.
    Unresolved,
    /// Of a member's, longer than the link that it would leave by: given to the system, which fragments it or tells the member.
    TooLongOut,
    /// To the cluster, with IPv4 options: on to the system, untouched.
    IpOptions,
    /// To the cluster, with IPv6 extension headers: on to the system, untouched.
    Ipv6Extensions,
    /// A later fragment of an IPv4 packet before its first: a copy is with the balancer's process. It counts again when it goes on, or is lost.
    IpFragmentHeld,
    /// Dropped: no member has the slot, or there is no control member.
    NoMember,
    /// Dropped: the member has no next hop, or no address of the packet's kind.
    NoHop,
    /// Dropped: no route to where a member sends.
    NoRoute,
    /// Dropped: its time to live (hop limit) ended here.
    TimeToLive,
    /// Dropped: too long for the link to the member.
    TooLong,
    /// Dropped: a later fragment of an IPv4 packet whose first one did not come in time, or one too many to be held.
    IpFragmentLost,
    /// Dropped: an NDNLPv2 packet with Ack or TxSequence; a link through a balancer has no reliability.
    Reliability,
    /// Dropped: an NDNLPv2 packet without a fragment.
    Idle,
    /// Dropped: the name does not begin within 128 octets, or there are more than 16 link fields.
    HeaderLimit,
    /// Dropped: begins like a packet of NDN, and is none.
    Malformed,
    /// Dropped: no packet of NDN.
    NotNdn,
    /// Dropped: the program could not read or write what it knows to be there, or has no configuration.
    Failed,
}

impl Verdict {
    /// Every verdict, in the order of their numbers.
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

    /// The counter's name: lower case, words joined by `_`.
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

    /// Whether such a frame is dropped.
    pub const fn is_drop(self) -> bool {
        self as u8 >= Verdict::NoMember as u8
    }
}

/// What went to a member, or came from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Direction {
    /// Interests.
    pub interests: u64,
    /// Data.
    pub data: u64,
    /// Nacks.
    pub nacks: u64,
    /// NDNLPv2 fragments after the first, which counts as what the packet is; and later fragments of IPv4 packets.
    pub fragments: u64,
    /// Anything else, to the member's own port: what it is, is not looked at beyond its first octets.
    pub others: u64,
    /// Octets of the frames as they came.
    pub octets: u64,
}

impl Direction {
    /// Adds the words of `struct direction`.
    fn add(&mut self, words: &[u64]) {
        let Direction { interests, data, nacks, fragments, others, octets } = self;
        for (sum, at) in [(interests, 0), (data, 1), (nacks, 2), (fragments, 3), (others, 4), (octets, 8)] {
            *sum = sum.wrapping_add(words[at]);
        }
    }
}

/// Of one member. A packet counts when it was sent on, or given to the system to be sent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberCounters {
    /// Packets to the member.
    pub to: Direction,
    /// Packets from the member.
    pub from: Direction,
}

/// As `struct counters` of `bpf/balancer.h`: verdicts, then 64 members, each with two directions of eight kinds and octets.
const VERDICTS: usize = 32;
const DIRECTION: usize = 9;
pub(super) const WORDS: usize = VERDICTS + 64 * 2 * DIRECTION;

/// What the program has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BalancerCounters {
    verdicts: [u64; Verdict::ALL.len()],
    members: BTreeMap<u8, MemberCounters>,
}

impl BalancerCounters {
    /// Adds what one processor counted.
    pub(super) fn add(&mut self, counted: &[u64; WORDS]) {
        let (verdicts, members) = counted.split_at(VERDICTS);
        self.verdicts.iter_mut().zip(verdicts).for_each(|(sum, more)| *sum = sum.wrapping_add(*more));
        for (number, words) in (0u8..).zip(members.chunks_exact(2 * DIRECTION)).skip(1) {
            if words.iter().any(|count| *count > 0) {
                let member = self.members.entry(number).or_default();
                let (to, from) = words.split_at(DIRECTION);
                member.to.add(to);
                member.from.add(from);
            }
        }
    }

    /// Frames with this verdict.
    pub fn verdict(&self, verdict: Verdict) -> u64 {
        self.verdicts[verdict as usize]
    }

    /// All verdicts.
    pub fn verdicts(&self) -> impl Iterator<Item = (Verdict, u64)> + '_ {
        Verdict::ALL.iter().map(|verdict| (*verdict, self.verdict(*verdict)))
    }

    /// Adds held fragments that the balancer's process dropped.
    pub(super) fn add_lost(&mut self, count: u64) {
        let lost = &mut self.verdicts[Verdict::IpFragmentLost as usize];
        *lost = lost.wrapping_add(count);
    }

    /// All frames that the program has seen: the sum of the verdicts but for held fragments, which count again when they go on or are lost.
    pub fn frames(&self) -> u64 {
        let sum = self.verdicts.iter().fold(0u64, |sum, more| sum.wrapping_add(*more));
        sum.wrapping_sub(self.verdict(Verdict::IpFragmentHeld))
    }

    /// Of the members that something was counted of, by number.
    pub fn members(&self) -> impl Iterator<Item = (u8, MemberCounters)> + '_ {
        self.members.iter().map(|(number, counters)| (*number, *counters))
    }

    /// Of a member; all 0 for one that was never set.
    pub fn member(&self, number: u8) -> MemberCounters {
        self.members.get(&number).copied().unwrap_or_default()
    }
}
