/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * The maps of the balancer's programs, and their working state for the current frame. The user side
 * is crates/kernel/src/balancer, which writes these structures byte by byte: with every change to a
 * pinned map, change LAYOUT there.
 *
 * Addresses and ports are in network order, as in packets; all other numbers in host order.
 */
#ifndef NW_BALANCER_H
#define NW_BALANCER_H

#define NDN_MEMBERS
#include "ndn.h"

static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value,
					 __u64 flags) = (void *)2;
static long (*const bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static __u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static void *(*const bpf_ringbuf_reserve)(void *ring, __u64 len, __u64 flags) = (void *)131;
static void (*const bpf_ringbuf_submit)(void *record, __u64 flags) = (void *)132;
static void (*const bpf_ringbuf_discard)(void *record, __u64 flags) = (void *)133;

/* Numbers in headers that are declared as other types. */
typedef __u64 __attribute__((may_alias)) u64_at;
typedef __u32 __attribute__((may_alias)) u32_at;
typedef __u16 __attribute__((may_alias)) u16_at;

/* Members have numbers from 1 to 63; 0 means none. */
#define MEMBERS 64
/* Slots and ports are bytes in lines: one write of the user side changes a line of 64. */
#define LINE_BYTES 64
/* The highest bits of a mixed hash are the slot, as in crates/slot-table/src/table.rs. */
#define SLOT_MULTIPLIER 0x9e3779b97f4a7c15ull
#define SLOT_BITS 17
#define SLOT_LINES ((1 << SLOT_BITS) / LINE_BYTES)
#define PORT_LINES (65536 / LINE_BYTES)

/* The outcome of a frame: `Verdict` in crates/kernel/src/balancer/counters.rs, in its order. */
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
	/*
	 * From here on the frame ends here. This one: copied to the balancer's process, see `held`.
	 */
	IP_FRAGMENT_HELD,
	/* From here on the frame is dropped. */
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

/* The kind of a packet, in the order of `struct direction`. */
enum kind {
	KIND_INTEREST,
	KIND_DATA,
	KIND_NACK,
	KIND_FRAGMENT,
	KIND_OTHER,
};

struct direction {
	/* By `enum kind`; eight, so that an index can be masked. */
	__u64 packets[8];
	__u64 bytes;
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
struct rule_state {
	/* Bit n: there is a rule for a prefix of n components. */
	__u32 lengths;
	/* The member that serves control names. */
	__u32 control;
};

/* The settings that each packet needs are in one structure. */
struct cluster {
	/* Ethernet faces: two interfaces, 0 for none. */
	__u32 outside;
	__u32 inside;
	/* The cluster's addresses, 0 for none, and the folded sums of their 16-bit words. */
	__u64 address6[2];
	__u32 address4;
	__u32 sum4;
	__u32 sum6;
	__u32 port;
	struct rule_state rule_state;
	struct config config;
	/*
	 * Ethernet faces: the cluster's address outside and NDN's multicast address; the first byte
	 * is the lowest.
	 */
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
	/* The next hop: the interface, its VLAN tag (0: untagged), its MTU in bytes. */
	__u32 ifindex;
	__u32 vlan;
	__u32 mtu;
	/* The frame's two addresses: destination, source. */
	__u32 ethernet[3];
	__u32 unused;
	/* Ethernet faces: its address, the first byte lowest; 0 for none. */
	__u64 mac;
};

/* A rule, with the length of its prefix, which a match is compared with. */
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

/*
 * An Interest with CanBePrefix that a member sent to a one-port peer: the member that waits for the
 * Data, and until when.
 */
struct pending_interest {
	__u64 until_ns;
	__u32 member;
	/* Number of components of its name, which a match is compared with. */
	__u32 length;
};

/*
 * The default InterestLifetime. Interests with a longer one are forgotten earlier than their member
 * forgets them.
 */
#define PENDING_NS 4000000000ull

/* The lengths of recorded names. */
struct pending_lengths {
	/* Bit n: a name of n components was recorded. */
	__u32 lengths;
};

struct link {
	__u32 ifindex;
	__u32 vlan;
};

/* What the later fragments of an IPv4 packet do; FRAGMENT_TO with a member's number. */
enum fragment_action {
	FRAGMENT_PASS,
	FRAGMENT_TO,
	FRAGMENT_OUT,
};

/* A record of a first fragment. It expires, as senders reuse the identification of a packet. */
struct fragment_entry {
	__u32 action;
	__u32 member;
	__u64 until_ns;
};

/* How long later fragments follow the first one. The fragments of one packet are sent together. */
#define FRAGMENTS_NS 2000000000ull

/*
 * A later fragment that arrived before the first one of its packet, as the balancer's process reads
 * it: crates/kernel/src/balancer/held. With the header that the ring adds to each, 1024 of them
 * take 2 MiB. Ethernet frames with two tags fit.
 */
#define HELD_BYTES 2016

struct held_fragment {
	/* When it arrived. */
	__u64 at_ns;
	__u32 ifindex;
	__u32 len;
	/*
	 * The tag that the system has removed from the frame, and its type in network order; 0 for
	 * none.
	 */
	__u16 tag;
	__u16 tag_type;
	/* The offset of the IPv4 header in the frame. */
	__u16 l2;
	/* 1: from a member. */
	__u16 outwards;
	__u8 frame[HELD_BYTES];
};

/* The next step of a frame. */
enum step {
	/* None: the verdict is final, and the frame is passed or dropped. */
	DONE,
	/* To the cluster's port: the name chooses the member. */
	BY_NAME,
	/* To w->member, without looking at the name. */
	TO_PORT,
	/* From a member, to the outside. */
	OUT,
	/* Rewritten: to be written and sent. */
	SEND,
	/* Rewritten except for Ethernet: to be written and left to the system. */
	TO_SYSTEM,
	/* A later IPv4 fragment before its first: to the balancer's process. */
	HOLD,
};

/* Address families as in sockets; NDN over Ethernet has none (0). */
#define FAMILY_V4 2
#define FAMILY_V6 10

/*
 * The working state for the current frame. Keys and values of maps are not in it but on the stack:
 * functions receive it as memory of unknown kind, which not every kernel accepts for map arguments
 * (Linux 6.1 does not).
 */
struct work {
	/*
	 * The headers, as received and then as sent: Ethernet's addresses (and four bytes for
	 * alignment), IP, UDP.
	 */
	__u32 ethernet[4];
	__u32 ip[10];
	__u16 udp[4];
	/* Length of the Ethernet header with its tags, 14 to 22 bytes, and the type after it. */
	__u32 l2;
	__u32 type;
	/* The VLAN ids of its tags, the outer first; 0 for none. */
	__u32 vlans[2];
	__u32 frame_len;
	__u32 ifindex;
	/* The ingress interface as the system sees it: a VLAN interface, or the same. */
	__u32 in_link;
	__u32 family;
	/* The packet's first byte; 0x100 if there is none. */
	__u32 first_byte;
	/*
	 * The offset of the NDN packet in the frame; its length by UDP; how much of it is in this
	 * frame.
	 */
	__u32 packet;
	__u32 packet_len;
	__u32 present;
	/* 1: the first of several IPv4 fragments; 2: a later one. */
	__u32 fragmented;
	__u32 verdict;
	/* Hides a number from the verifier: see opaque_in_work(). */
	__u32 forgotten;
	__u32 member;
	__u32 kind;
	__u32 outwards;
	/*
	 * From a member: whether it is an Interest or a fragment of one; whether its peer answers
	 * to the cluster's port.
	 */
	__u32 as_interest;
	__u32 to_one_port;
	/* To send: the egress interface and the tag. */
	__u32 out_ifindex;
	__u32 out_vlan;
	/* Keeps the frame's Ethernet header except for its addresses. */
	__u32 keep_l2;
	/* The changes of the 16-bit sums in checksums: by addresses, and by what is in UDP. */
	__u32 sum_addresses;
	__u32 sum_udp;
	/* The change of the sum of IPv4's header, except for its addresses. */
	__u32 sum_head;
	/*
	 * The first byte of a Sequence: its offset in the frame (0: none), and the value to xor it
	 * with.
	 */
	__u32 tag_at;
	__u32 tag;
	__u32 sequence_byte;
	/* The two bytes after the name of an Interest: a type, and a length. */
	__u16 after_name;
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
	__u8 members[LINE_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOT_LINES);
	__type(key, __u32);
	__type(value, struct line);
} slots SEC(".maps");

/* The member of each UDP port. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PORT_LINES);
	__type(key, __u32);
	__type(value, struct line);
} ports SEC(".maps");

/* The member of each address: IPv6, IPv4 mapped, or all ones and an Ethernet address. */
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

/* The inverse: the VLAN interface of an interface and a VLAN. */
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

/* Fragments for the balancer's process. If it is full, or there is no process, they are dropped. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 21);
} held SEC(".maps");

/* Number of held fragments that the process dropped, counted by the process. */
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
	__type(value, struct pending_interest);
} asked SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pending_lengths);
} asking SEC(".maps");

inlined struct work *the_work(void)
{
	return bpf_map_lookup_elem(&work, (const void *)&ONLY);
}

inlined struct cluster *the_cluster(void)
{
	return bpf_map_lookup_elem(&cluster, (const void *)&ONLY);
}

inlined struct rule_state *the_rule_state(void)
{
	struct cluster *c = the_cluster();

	return c ? &c->rule_state : 0;
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

/* Sets the verdict; nothing more is to be done. */
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

/* Like opaque() in ndn.h, with `w`. */
inlined __u32 opaque_in_work(struct work *w, __u32 number)
{
	ACCESS_ONCE(w->forgotten) = number;
	return ACCESS_ONCE(w->forgotten);
}

/* Counts the frame by its verdict, and for its member if it was sent on. */
inlined void count(struct work *w, __u32 step)
{
	struct counters *c = bpf_map_lookup_elem(&counters, (const void *)&ONLY);
	struct direction *direction;
	__u32 at;

	if (!c)
		return;
	at = opaque_in_work(w, ACCESS_ONCE(w->verdict)) & (VERDICTS - 1);
	barrier_var(at);
	c->verdicts[at]++;
	if (step == DONE)
		return;
	at = opaque_in_work(w, ACCESS_ONCE(w->member)) & (MEMBERS - 1);
	barrier_var(at);
	at = at * 2 + (ACCESS_ONCE(w->outwards) & 1);
	barrier_var(at);
	direction = (struct direction *)c->members + (at & (2 * MEMBERS - 1));
	direction->bytes += w->frame_len;
	at = opaque_in_work(w, ACCESS_ONCE(w->kind)) & 7;
	barrier_var(at);
	direction->packets[at]++;
}

#endif
