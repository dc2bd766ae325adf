// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT
/*
 * XDP: chooses the AF_XDP socket of the packet's shard and of the queue that the frame arrived on.
 * Frames that are not taken, and those without a socket, go to the system unchanged.
 *
 * Taken are NDN packets in UDP to one of the configured ports, over IPv4 or IPv6, and frames of
 * NDN's EtherType; with up to two VLAN tags. If the machine's addresses are configured, only those
 * for this machine are taken, and VLANs are left to the system, except for the one that frames of
 * NDN's EtherType are read from. IP fragments and IPv6 extension headers are left to the system.
 */
#include <linux/bpf.h>

static long (*const bpf_redirect_map)(void *map, __u64 key, __u64 flags) = (void *)51;
static __u64 (*const bpf_xdp_get_buff_len)(struct xdp_md *ctx) = (void *)188;
static long (*const bpf_xdp_load_bytes)(struct xdp_md *ctx, __u32 offset, void *to,
					__u32 len) = (void *)189;

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
/* Stands for two tags; not a valid VLAN id. */
#define TAG_IN_TAG 0x1000
#define IPV4_HEADER 20
#define IPV6_HEADER 40
#define UDP_HEADER 8
/* The more-fragments bit, and the offset of this fragment. */
#define IPV4_FRAGMENT 0x3fff
/* Ethernet, two VLAN tags, the longest IPv4 header, UDP, and the first byte after it. */
#define HEADERS_MAX 91

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	/* Queues times shards: set at load time. */
	__uint(max_entries, SHARDS_MAX);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

/* The addresses of this machine, and of the multicast groups it is in. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u64[2]);
	__type(value, __u32);
} destinations SEC(".maps");

/* Whether the IP packet to s->destination is for this machine, or any destination is taken. */
__attribute__((noinline)) __u32 is_local_destination(void)
{
	struct scratch *s = the_scratch();
	struct config *c = the_config();

	if (!s || !c)
		return 0;
	return !c->mac || bpf_map_lookup_elem(&destinations, s->destination);
}

/* Two bytes in the scratch, as a number; `at` may be any. */
inlined __u32 short_at(struct scratch *s, __u32 at)
{
	return be16((__u16)word(s, opaque(s, at)));
}

/*
 * Finds the packet in the UDP datagram at s->at, which has at most s->len bytes; returns it like
 * find_packet().
 */
__attribute__((noinline)) __u64 find_in_udp(void)
{
	struct scratch *s = the_scratch();
	struct config *c = the_config();
	__u32 port, udp_len;
	__u64 port_matches = 0;

	if (!s || !c || ACCESS_ONCE(s->len) < UDP_HEADER)
		return 0;
	port = be16((__u16)short_at(s, ACCESS_ONCE(s->at) + 2));
	/*
	 * Minus 1, only 0 becomes negative. One after the other, as they would otherwise all be
	 * spilled to the stack.
	 */
	unrolled_for(i, PORTS_MAX) {
		port_matches |= (__u64)(port ^ ACCESS_ONCE(c->ports[i])) - 1;
		barrier_var(port_matches);
	}
	udp_len = short_at(s, ACCESS_ONCE(s->at) + 4);
	if (!port || !(port_matches >> 63) || udp_len <= UDP_HEADER || udp_len > ACCESS_ONCE(s->len))
		return 0;
	return (ACCESS_ONCE(s->at) + UDP_HEADER) | (__u64)(udp_len - UDP_HEADER) << 32;
}

/* Finds the packet in the IPv4 packet at s->at, which has at most s->len bytes. */
__attribute__((noinline)) __u64 find_in_ipv4(void)
{
	struct scratch *s = the_scratch();
	__u32 first, header, whole;

	if (!s)
		return 0;
	first = short_at(s, ACCESS_ONCE(s->at)) >> 8;
	header = (first & 15) * 4;
	if (first >> 4 != 4 || header < IPV4_HEADER || header > ACCESS_ONCE(s->len))
		return 0;
	if ((short_at(s, ACCESS_ONCE(s->at) + 8) & 0xff) != PROTOCOL_UDP ||
	    short_at(s, ACCESS_ONCE(s->at) + 6) & IPV4_FRAGMENT)
		return 0;
	whole = short_at(s, ACCESS_ONCE(s->at) + 2);
	if (whole > ACCESS_ONCE(s->len) || whole < header)
		return 0;
	/* ::ffff:a.b.c.d */
	s->destination[0] = 0;
	s->destination[1] = 0xffff0000 | word(s, opaque(s, ACCESS_ONCE(s->at) + 16)) << 32;
	s->len = whole - header;
	ACCESS_ONCE(s->at) += header;
	return is_local_destination() ? find_in_udp() : 0;
}

/* Finds the packet in the IPv6 packet at s->at, which has at most s->len bytes. */
__attribute__((noinline)) __u64 find_in_ipv6(void)
{
	struct scratch *s = the_scratch();
	__u32 payload;

	if (!s || ACCESS_ONCE(s->len) < IPV6_HEADER || short_at(s, ACCESS_ONCE(s->at)) >> 12 != 6)
		return 0;
	payload = short_at(s, ACCESS_ONCE(s->at) + 4);
	if (short_at(s, ACCESS_ONCE(s->at) + 6) >> 8 != PROTOCOL_UDP ||
	    payload + IPV6_HEADER > ACCESS_ONCE(s->len))
		return 0;
	s->destination[0] = word(s, opaque(s, ACCESS_ONCE(s->at) + 24));
	s->destination[1] = word(s, opaque(s, ACCESS_ONCE(s->at) + 32));
	s->len = payload;
	ACCESS_ONCE(s->at) += IPV6_HEADER;
	return is_local_destination() ? find_in_udp() : 0;
}

/*
 * Finds the packet in this frame: its offset | its maximum length << 32; 0 if the frame is not
 * taken. Reading after the frame's end is harmless: lengths are checked before the result is used.
 */
__attribute__((noinline)) __u64 find_packet(__u32 frame_len)
{
	struct scratch *s = the_scratch();
	struct config *c = the_config();
	__u32 type, vlan = 0, at = ETHERNET_HEADER;
	__u64 to;

	if (!s || !c)
		return 0;
	/*
	 * A frame for another machine, shown by a switch or bridge; IP multicast groups are checked
	 * later.
	 */
	to = *(const __u64 *)s->bytes & 0xffffffffffff;
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

/* There are several shards, so the packet must be parsed. */
#define MULTIPLE_SHARDS 0xffffffff

/*
 * The outcome for a packet of `len` bytes at `at` of the frame if there is only one shard: by its
 * first byte alone.
 */
__attribute__((noinline)) __u32 choose_single_shard(__u32 at, __u32 len)
{
	struct scratch *s = the_scratch();
	struct config *c = the_config();
	__u32 type;

	if (!s || !c)
		return REASON_FAILED << 8;
	if (c->shards != 1)
		return MULTIPLE_SHARDS;
	type = short_at(s, at) >> 8;
	return (len && (type == 5 || type == 6 || type == 100) ? REASON_ONLY : REASON_NOT_NDN) << 8;
}

/* Counts a packet by its reason, and returns whether it goes to a socket. */
__attribute__((noinline)) __u32 count_and_check(__u32 reason)
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
	if (head < ETHERNET_HEADER || head > HEADERS_MAX || bpf_xdp_load_bytes(ctx, 0, s->bytes, head))
		packet = 0;
	else
		packet = find_packet(len);
	chosen = packet ? choose_single_shard(packet & 0xffffffff, packet >> 32) : REASON_PASSED << 8;
	if (chosen == MULTIPLE_SHARDS)
		chosen = ndn_shard(ctx, packet & 0xffffffff, packet >> 32);
	if (!count_and_check(chosen >> 8))
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
