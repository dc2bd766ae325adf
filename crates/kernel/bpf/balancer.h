/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * What the balancer's programs know: their maps, and what they note of the frame at hand. Its user side is crates/kernel/src/balancer,
 * which writes these structures octet by octet: whoever changes one changes LAYOUT there.
 *
 * Addresses and ports are kept as they lie in packets (network order), all other numbers as the machine has them.
 */
#ifndef NW_BALANCER_H
#define NW_BALANCER_H

#define NDN_MEMBERS
#include "ndn.h"

static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value, __u64 flags) = (void *)2;
static long (*const bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static __u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static void *(*const bpf_ringbuf_reserve)(void *ring, __u64 len, __u64 flags) = (void *)131;
static void (*const bpf_ringbuf_submit)(void *record, __u64 flags) = (void *)132;
static void (*const bpf_ringbuf_discard)(void *record, __u64 flags) = (void *)133;

/* Numbers that lie in heads, which are declared as others. */
typedef __u64 __attribute__((may_alias)) u64_at;
typedef __u32 __attribute__((may_alias)) u32_at;
typedef __u16 __attribute__((may_alias)) u16_at;

/* Members have numbers from 1 to 63; 0 is none. */
#define MEMBERS 64
/* Slots and ports are octets in lines: one write of the user side changes 64 of them. */
#define LINE_OCTETS 64
/* The highest bits of a mixed hash choose the slot, as in crates/slot-table/src/table.rs. */
#define SLOT_MULTIPLIER 0x9e3779b97f4a7c15ull
#define SLOT_BITS 17
#define SLOT_LINES ((1 << SLOT_BITS) / LINE_OCTETS)
#define PORT_LINES (65536 / LINE_OCTETS)

/* What becomes of a frame: `Verdict` of crates/kernel/src/balancer/counters.rs, in its order. */
enum verdict {
	PASSED,
	INTEREST,
	DATA,
	NACK,
	FRAGMENT,
	CONTROL,
	TO_MEMBER,
	IP_FRAGMENT,
	INTEREST_OUT,
	INTEREST_OUT_ONE_PORT,
	ANSWER_OUT,
	IP_FRAGMENT_OUT,
	UNRESOLVED,
	TOO_LONG_OUT,
	IP_OPTIONS,
	IPV6_EXTENSIONS,
	/* From here on the frame ends here. This one: a copy is with the balancer's process, see `held`. */
	IP_FRAGMENT_HELD,
	/* From here on: dropped. */
	NO_MEMBER,
	NO_HOP,
	NO_ROUTE,
	TIME_TO_LIVE,
	TOO_LONG,
	IP_FRAGMENT_LOST,
	RELIABILITY,
	IDLE,
	HEADER_LIMIT,
	MALFORMED,
	NOT_NDN,
	FAILED,
	VERDICTS = 32,
};

/* What a packet of a member's is; in the order of `struct direction`. */
enum kind {
	KIND_INTEREST,
	KIND_DATA,
	KIND_NACK,
	KIND_FRAGMENT,
	KIND_OTHER,
};

struct direction {
	/* By `enum kind`, and room to mask. */
	__u64 packets[8];
	__u64 octets;
};

struct member_counters {
	struct direction to;
	struct direction from;
};

struct counters {
	__u64 verdicts[VERDICTS];
	struct member_counters members[MEMBERS];
};

/* What changes with the rules. */
struct ruling {
	/* Bit n: there is a rule for a prefix of n components. */
	__u32 lengths;
	/* The member that has the control names. */
	__u32 control;
};

/* What each packet needs stands together. */
struct cluster {
	/* Ethernet faces: two interfaces, 0 for none. */
	__u32 outside;
	__u32 inside;
	/* Its addresses, 0 for none, and the folded sums of their 16-bit words. */
	__u64 address6[2];
	__u32 address4;
	__u32 sum4;
	__u32 sum6;
	__u32 port;
	struct ruling ruling;
	struct config config;
	/* Of Ethernet faces: the cluster's address outside and NDN's group, the first octet lowest. */
	__u64 mac;
	__u64 group;
};

#define MEMBER_HAS_V4 1
#define MEMBER_HAS_V6 2
#define MEMBER_HAS_HOP 4

struct member {
	__u64 address6[2];
	__u32 address4;
	__u32 sum4;
	__u32 sum6;
	__u32 port;
	/* 0: no such member. */
	__u32 flags;
	/* The next hop: the interface, its VLAN tag (0 for none), octets of an IP packet that fit. */
	__u32 ifindex;
	__u32 vlan;
	__u32 mtu;
	/* The frame's two addresses, to and from. */
	__u32 ethernet[3];
	__u32 unused;
	/* Of Ethernet faces, the first octet lowest; 0 for none. */
	__u64 mac;
};

/* What a rule says, and the length of its prefix, which a match is held to. */
struct rule {
	__u16 depth;
	__u8 control;
	__u8 length;
};

struct peer {
	__u64 address[2];
	__u64 port;
};

struct ip_fragment {
	__u32 from;
	__u32 to;
	__u32 id;
};

struct interest_fragment {
	__u64 first_sequence;
	__u64 member;
};

/* An Interest that longer names answer too, as a member sent it to a peer of one port: who waits for the Data, and until when. */
struct asked {
	__u64 until_ns;
	__u32 member;
	/* Components of its name, which a match is held to. */
	__u32 length;
};

/* InterestLifetime when a packet names none; those that name more are forgotten sooner than their member forgets them. */
#define ASKED_NS 4000000000ull

/* What is looked for among them. */
struct asking {
	/* Bit n: there was a name of n components. */
	__u32 lengths;
};

struct link {
	__u32 ifindex;
	__u32 vlan;
};

/* What the later fragments of an IPv4 packet do; a member's number besides. */
enum fragment_way {
	FRAGMENT_PASS,
	FRAGMENT_TO,
	FRAGMENT_OUT,
};

/* Valid until a time: senders use the identification of a packet again. */
struct fragment_entry {
	__u32 way;
	__u32 member;
	__u64 until_ns;
};

/* How long the later fragments of a packet follow its first one. Those of one packet are sent together. */
#define FRAGMENTS_NS 2000000000ull

/*
 * A later fragment that came before the first one of its packet, as the balancer's process gets it: crates/kernel/src/balancer/held.rs.
 * With the header that the ring puts before each, 1024 of them take 2 MiB. Frames of Ethernet with two tags fit.
 */
#define HELD_BYTES 2016

struct held_fragment {
	/* When it came. */
	__u64 at_ns;
	__u32 ifindex;
	__u32 len;
	/* The tag that the system has taken off the frame, and its type as in packets; 0 for none. */
	__u16 tag;
	__u16 tag_type;
	/* Where IPv4 is in the frame. */
	__u16 l2;
	/* 1: from a member. */
	__u16 outwards;
	__u8 frame[HELD_BYTES];
};

/* How a frame goes on, step by step. */
enum step {
	/* Nothing more: the verdict stands, and the frame is passed or dropped. */
	DONE,
	/* To the cluster's port: its name decides. */
	BY_NAME,
	/* To w->member, whatever it is. */
	TO_PORT,
	/* A member's, to the outside. */
	OUT,
	/* Rewritten: to be written and sent. */
	SEND,
	/* Rewritten, but for Ethernet: to be written and left to the system. */
	GIVE,
	/* A later IPv4 fragment before its first: to the balancer's process. */
	HOLD,
};

/* What is looked at of IP: families as sockets name them; NDN over Ethernet has none. */
#define FAMILY_V4 2
#define FAMILY_V6 10

/*
 * Notes on the frame at hand. Keys and values of maps are not among them, but on the stack: functions are handed these notes as memory of
 * any kind, which not every kernel takes for such (Linux 6.1 does not).
 */
struct work {
	/* Its heads, as they came and then as they leave: Ethernet's addresses (and four octets for alignment), IP, UDP. */
	__u32 ethernet[4];
	__u32 ip[10];
	__u16 udp[4];
	/* Octets of Ethernet's head with its tags, 14 to 22, and the type behind it. */
	__u32 l2;
	__u32 type;
	/* VLANs of its tags, the outer first; 0 for none. */
	__u32 vlans[2];
	__u32 frame_len;
	__u32 ifindex;
	/* The interface that the system takes it to have come by: a VLAN's, or the same. */
	__u32 in_link;
	__u32 family;
	/* The packet's first octet; 0x100 when there is none. */
	__u32 first_octet;
	/* Where the NDN packet is in the frame; its length as UDP says; how much of that is in this frame. */
	__u32 packet;
	__u32 packet_len;
	__u32 present;
	/* 1 when this is the first of several IPv4 fragments; 2 when it is a later one. */
	__u32 fragmented;
	__u32 verdict;
	/* A number that the verifier shall forget: see unknown(). */
	__u32 forgotten;
	__u32 member;
	__u32 kind;
	__u32 outwards;
	/* Of a member's: an Interest, or a fragment of one; and that its peer answers to the cluster's port. */
	__u32 as_interest;
	__u32 to_one_port;
	/* To send: by which interface and with which tag. */
	__u32 out_ifindex;
	__u32 out_vlan;
	/* Keeps the frame's own Ethernet head but for its addresses. */
	__u32 keep_l2;
	/* What changes in the sums of 16-bit words that checksums are: by addresses, and by what is in UDP. */
	__u32 sum_addresses;
	__u32 sum_udp;
	/* The same of IPv4's head but for its addresses. */
	__u32 sum_head;
	/* A Sequence's first octet: where in the frame (0 for none), and what it is xor-ed with. */
	__u32 tag_at;
	__u32 tag;
	__u32 octet;
	/* What follows the name of an Interest: a type, and a length. */
	__u16 behind_name;
	struct bpf_fib_lookup fib;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct work);
} work SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cluster);
} cluster SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MEMBERS);
	__type(key, __u32);
	__type(value, struct member);
} members SEC(".maps");

struct line {
	__u8 members[LINE_OCTETS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOT_LINES);
	__type(key, __u32);
	__type(value, struct line);
} slots SEC(".maps");

/* Whose a UDP port is. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PORT_LINES);
	__type(key, __u32);
	__type(value, struct line);
} ports SEC(".maps");

/* Whose an address is: IPv6, IPv4 mapped, or all ones and an Ethernet address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u64[2]);
	__type(value, __u32);
} addresses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct rule);
} rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct peer);
	__type(value, __u32);
} one_port SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct link);
} links SEC(".maps");

/* The other way round: the VLAN interface that takes frames of an interface and a VLAN. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, struct link);
	__type(value, __u32);
} vlans SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct ip_fragment);
	__type(value, struct fragment_entry);
} ip_fragments SEC(".maps");

/* Fragments for the balancer's process. When it is full, as when there is no process, they are dropped. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 21);
} held SEC(".maps");

/* Held fragments that the process dropped, which it counts itself. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} held_lost SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct interest_fragment);
	__type(value, __u32);
} fragments SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct asked);
} asked SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct asking);
} asking SEC(".maps");

inlined struct work *the_work(void)
{
	return bpf_map_lookup_elem(&work, (const void *)&ONLY);
}

inlined struct cluster *the_cluster(void)
{
	return bpf_map_lookup_elem(&cluster, (const void *)&ONLY);
}

inlined struct ruling *the_ruling(void)
{
	struct cluster *c = the_cluster();

	return c ? &c->ruling : 0;
}

inlined struct config *the_config(void)
{
	struct cluster *c = the_cluster();

	return c ? &c->config : 0;
}

inlined struct member *the_member(struct work *w)
{
	__u32 number = w->member;

	return bpf_map_lookup_elem(&members, &number);
}

/* The verdict, and that nothing more is to be done. */
inlined __u32 done(struct work *w, __u32 verdict)
{
	w->verdict = verdict;
	return DONE;
}

/* The frame could not be written. */
inlined __u32 fail(struct work *w)
{
	return done(w, FAILED);
}

/* As opaque() in ndn.h. */
inlined __u32 unknown(struct work *w, __u32 number)
{
	again(w->forgotten) = number;
	return again(w->forgotten);
}

/* Counts the frame by its verdict, and as its member's when it was sent on. */
inlined void count(struct work *w, __u32 step)
{
	struct counters *c = bpf_map_lookup_elem(&counters, (const void *)&ONLY);
	struct direction *direction;
	__u32 at;

	if (!c)
		return;
	at = unknown(w, again(w->verdict)) & (VERDICTS - 1);
	barrier_var(at);
	c->verdicts[at]++;
	if (step == DONE)
		return;
	at = unknown(w, again(w->member)) & (MEMBERS - 1);
	barrier_var(at);
	at = at * 2 + (again(w->outwards) & 1);
	barrier_var(at);
	direction = (struct direction *)c->members + (at & (2 * MEMBERS - 1));
	direction->octets += w->frame_len;
	at = unknown(w, again(w->kind)) & 7;
	barrier_var(at);
	direction->packets[at]++;
}

#endif
