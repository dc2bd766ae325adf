// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT
/*
 * XDP: picks the AF_XDP socket of the shard and of the queue that a frame came in by. What is not ours, and what has no socket, goes on
 * to the system untouched.
 *
 * Ours are NDN packets in UDP to one of the configured ports, over IPv4 or IPv6, and frames of NDN's EtherType; behind up to two VLAN
 * tags. If it is told which machine this is, they are for this machine only, and VLANs are left to the system, which knows whose they are, but
 * for the one that frames of NDN's EtherType are read from. IP fragments and IPv6 extension headers are left to the system, which knows what to do with them.
 */
#include <linux/bpf.h>

static long (*const bpf_redirect_map)(void *map, __u64 key, __u64 flags) = (void *)51;
static __u64 (*const bpf_xdp_get_buff_len)(struct xdp_md *ctx) = (void *)188;
static long (*const bpf_xdp_load_bytes)(struct xdp_md *ctx, __u32 offset, void *to, __u32 len) = (void *)189;

#define ndn_load bpf_xdp_load_bytes
#include "ndn.h"

#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_IPV6 0x86dd
#define ETHERTYPE_NDN 0x8624
#define ETHERTYPE_VLAN 0x8100
#define ETHERTYPE_QINQ 0x88a8
#define PROTOCOL_UDP 17
#define ETHERNET_HEADER 14
#define VLAN_TAG 4
#define VLAN_NUMBER 0x0fff
/* No VLAN has this number. */
#define TAG_IN_TAG 0x1000
#define IPV4_HEADER 20
#define IPV6_HEADER 40
#define UDP_HEADER 8
/* More fragments, and the offset of this one. */
#define IPV4_FRAGMENT 0x3fff
/* Ethernet, two VLAN tags, the longest IPv4 header, UDP, and the first octet behind. */
#define HEADERS_MAX 91

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	/* Queues times shards: set when it is loaded. */
	__uint(max_entries, SHARDS_MAX);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

/* Addresses of this machine, and of groups that it is in. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u64[2]);
	__type(value, __u32);
} destinations SEC(".maps");

/* Whether the IP packet to s->destination is for this machine, or that does not matter. */
__attribute__((noinline)) __u32 is_here(void)
{
	struct scratch *s = the_scratch();
	struct config *c = the_config();

	if (!s || !c)
		return 0;
	return !c->mac || bpf_map_lookup_elem(&destinations, s->destination);
}

/* Two octets of what is in the scratch, as a number; `at` may be any. */
inlined __u32 short_at(struct scratch *s, __u32 at)
{
	return be16((__u16)word(s, opaque(s, at)));
}

/* The UDP datagram at s->at, of which s->len octets may be: its packet, as find_packet() says it. */
__attribute__((noinline)) __u64 find_in_udp(void)
{
	struct scratch *s = the_scratch();
	struct config *c = the_config();
	__u32 port, udp_len;
	__u64 ours = 0;

	if (!s || !c || again(s->len) < UDP_HEADER)
		return 0;
	port = be16((__u16)short_at(s, again(s->at) + 2));
	/* Less one, only 0 is negative. One after the other, or all would wait on the stack for each other. */
	rounds(i, PORTS_MAX) {
		ours |= (__u64)(port ^ again(c->ports[i])) - 1;
		barrier_var(ours);
	}
	udp_len = short_at(s, again(s->at) + 4);
	if (!port || !(ours >> 63) || udp_len <= UDP_HEADER || udp_len > again(s->len))
		return 0;
	return (again(s->at) + UDP_HEADER) | (__u64)(udp_len - UDP_HEADER) << 32;
}

/* The IPv4 packet at s->at, of which s->len octets may be. */
__attribute__((noinline)) __u64 find_in_ipv4(void)
{
	struct scratch *s = the_scratch();
	__u32 first, header, whole;

	if (!s)
		return 0;
	first = short_at(s, again(s->at)) >> 8;
	header = (first & 15) * 4;
	if (first >> 4 != 4 || header < IPV4_HEADER || header > again(s->len))
		return 0;
	if ((short_at(s, again(s->at) + 8) & 0xff) != PROTOCOL_UDP || short_at(s, again(s->at) + 6) & IPV4_FRAGMENT)
		return 0;
	whole = short_at(s, again(s->at) + 2);
	if (whole > again(s->len) || whole < header)
		return 0;
	/* ::ffff:a.b.c.d */
	s->destination[0] = 0;
	s->destination[1] = 0xffff0000 | word(s, opaque(s, again(s->at) + 16)) << 32;
	s->len = whole - header;
	again(s->at) += header;
	return is_here() ? find_in_udp() : 0;
}

/* The IPv6 packet at s->at, of which s->len octets may be. */
__attribute__((noinline)) __u64 find_in_ipv6(void)
{
	struct scratch *s = the_scratch();
	__u32 payload;

	if (!s || again(s->len) < IPV6_HEADER || short_at(s, again(s->at)) >> 12 != 6)
		return 0;
	payload = short_at(s, again(s->at) + 4);
	if (short_at(s, again(s->at) + 6) >> 8 != PROTOCOL_UDP || payload + IPV6_HEADER > again(s->len))
		return 0;
	s->destination[0] = word(s, opaque(s, again(s->at) + 24));
	s->destination[1] = word(s, opaque(s, again(s->at) + 32));
	s->len = payload;
	again(s->at) += IPV6_HEADER;
	return is_here() ? find_in_udp() : 0;
}

/*
 * Where the packet in this frame starts | how many octets may be of it << 32; 0 when the frame is not ours. What is read behind the
 * frame's end does no harm: lengths are checked before it counts.
 */
__attribute__((noinline)) __u64 find_packet(__u32 frame_len)
{
	struct scratch *s = the_scratch();
	struct config *c = the_config();
	__u32 type, vlan = 0, at = ETHERNET_HEADER;
	__u64 to;

	if (!s || !c)
		return 0;
	/* Another machine's, that a switch or bridge shows us; groups of IP are looked at there. */
	to = *(const __u64 *)s->octets & 0xffffffffffff;
	if (c->mac && to != c->mac && to != c->group && !(to & 1))
		return 0;
	type = short_at(s, ETHERNET_HEADER - 2);
	if (type == ETHERTYPE_VLAN || type == ETHERTYPE_QINQ) {
		vlan = short_at(s, at) & VLAN_NUMBER;
		at += VLAN_TAG;
		type = short_at(s, at - 2);
		if (type == ETHERTYPE_VLAN || type == ETHERTYPE_QINQ) {
			vlan = TAG_IN_TAG;
			at += VLAN_TAG;
			type = short_at(s, at - 2);
		}
	}
	if (c->mac && vlan != (type == ETHERTYPE_NDN && c->ethernet ? c->ethernet - 1 : 0))
		return 0;
	if (at >= frame_len)
		return 0;
	s->at = at;
	s->len = frame_len - at;
	if (type == ETHERTYPE_IPV4)
		return find_in_ipv4();
	if (type == ETHERTYPE_IPV6)
		return find_in_ipv6();
	if (c->mac && to != c->mac && to != c->group)
		return 0;
	return type == ETHERTYPE_NDN && c->ethernet ? at | (__u64)(frame_len - at) << 32 : 0;
}

/* Read on, for there are several shards. */
#define SEVERAL 0xffffffff

/* What ndn_shard() would choose for a packet of `len` octets at `at` of the frame, if there is one shard: by its first octet alone. */
__attribute__((noinline)) __u32 choose_only(__u32 at, __u32 len)
{
	struct scratch *s = the_scratch();
	struct config *c = the_config();
	__u32 type;

	if (!s || !c)
		return REASON_FAILED << 8;
	if (c->shards != 1)
		return SEVERAL;
	type = short_at(s, at) >> 8;
	return (len && (type == 5 || type == 6 || type == 100) ? REASON_ONLY : REASON_NOT_NDN) << 8;
}

/* Counts a packet by its reason; whether it goes to a socket, if there is one. */
__attribute__((noinline)) __u32 take(__u32 reason)
{
	struct counters *c = the_counters();
	struct scratch *s = the_scratch();

	if (!c || !s)
		return 0;
	count_reason(c, s, reason);
	return reason != REASON_PASSED && reason != REASON_FAILED && reason != REASON_NOT_NDN;
}

SEC("xdp")
int nw_steer(struct xdp_md *ctx)
{
	__u32 len = bpf_xdp_get_buff_len(ctx), head = len > HEADERS_MAX ? HEADERS_MAX : len, chosen;
	struct scratch *s = the_scratch();
	struct counters *counted;
	struct config *c;
	__u64 packet;
	long action;

	if (!s)
		return XDP_PASS;
	barrier_var(head);
	if (head < ETHERNET_HEADER || head > HEADERS_MAX || bpf_xdp_load_bytes(ctx, 0, s->octets, head))
		packet = 0;
	else
		packet = find_packet(len);
	chosen = packet ? choose_only(packet & 0xffffffff, packet >> 32) : REASON_PASSED << 8;
	if (chosen == SEVERAL)
		chosen = ndn_shard(ctx, packet & 0xffffffff, packet >> 32);
	if (!take(chosen >> 8))
		return XDP_PASS;
	c = the_config();
	if (!c)
		return XDP_PASS;
	chosen &= 0xff;
	action = bpf_redirect_map(&sockets, ctx->rx_queue_index * c->shards + chosen, XDP_PASS);
	counted = the_counters();
	s = the_scratch();
	if (!counted || !s)
		return action;
	if (action == XDP_REDIRECT)
		count_shard(counted, s, chosen);
	else
		counted->reasons[REASON_NO_SOCKET]++;
	return action;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
