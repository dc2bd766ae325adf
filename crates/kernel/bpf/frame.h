/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * Classifies a frame: Ethernet, up to two VLAN tags, IPv4 or IPv6, UDP.
 *
 * read_frame() copies the headers to `struct work`, and xdp_head() the first bytes of the packet to
 * the scratch. Only these two read a packet by pointer: at offsets known at compile time, with one
 * copy of the code for each number of tags. classify_frame(w) uses `struct work` only.
 */
#ifndef NW_FRAME_H
#define NW_FRAME_H

#include "balancer.h"

#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_IPV6 0x86dd
#define ETHERTYPE_NDN 0x8624
#define ETHERTYPE_VLAN 0x8100
#define ETHERTYPE_QINQ 0x88a8
#define PROTOCOL_UDP 17
#define ETHERNET_HEADER 14
#define VLAN_TAG 4
/* The VLAN id in a tag; 0 means that a tag is for its priority only. */
#define VLAN_NUMBER 0xfff
#define IPV4_HEADER 20
#define IPV6_HEADER 40
#define UDP_HEADER 8
#define IPV4_MORE_FRAGMENTS 0x2000
#define IPV4_DO_NOT_FRAGMENT 0x4000
#define IPV4_FRAGMENT_OFFSET 0x1fff

inlined int is_vlan(__u32 type)
{
	return type == ETHERTYPE_VLAN || type == ETHERTYPE_QINQ;
}

/* Copies the UDP header and the byte after it, as far as they are there. */
inlined void read_udp(struct work *w, const __u8 *at, const __u8 *end)
{
	w->first_byte = 0x100;
	if (at + UDP_HEADER > end)
		return;
	*(u32_at *)w->udp = *(const u32_at *)at;
	*(u32_at *)(w->udp + 2) = *(const u32_at *)(at + 4);
	if (at + UDP_HEADER + 1 > end)
		return;
	w->first_byte = at[UDP_HEADER];
}

/* Copies the headers after an Ethernet header of `l2` bytes, a constant. */
inlined void read_ip_header(struct work *w, const __u8 *at, const __u8 *end, __u32 l2, __u32 type)
{
	const u32_at *ip = (const u32_at *)(at + l2);

	w->l2 = l2;
	w->type = 0;
	if (type == ETHERTYPE_IPV4) {
		if (at + l2 + IPV4_HEADER > end)
			return;
		unrolled_for(i, IPV4_HEADER / 4) w->ip[i] = ip[i];
		w->type = type;
		read_udp(w, at + l2 + IPV4_HEADER, end);
	} else if (type == ETHERTYPE_IPV6) {
		if (at + l2 + IPV6_HEADER > end)
			return;
		unrolled_for(i, IPV6_HEADER / 4) w->ip[i] = ip[i];
		w->type = type;
		read_udp(w, at + l2 + IPV6_HEADER, end);
	} else if (type == ETHERTYPE_NDN) {
		if (at + l2 + 1 > end)
			return;
		w->first_byte = at[l2];
		w->type = type;
	}
}

/* Copies the headers of the frame from `at` to `end` to `w`. */
inlined void read_frame(struct work *w, const __u8 *at, const __u8 *end)
{
	__u32 type;

	w->type = 0;
	w->l2 = ETHERNET_HEADER;
	w->vlans[0] = w->vlans[1] = 0;
	if (at + ETHERNET_HEADER > end)
		return;
	unrolled_for(i, 3) w->ethernet[i] = ((const u32_at *)at)[i];
	type = be16(*(const u16_at *)(at + 12));
	if (likely(!is_vlan(type))) {
		read_ip_header(w, at, end, ETHERNET_HEADER, type);
		return;
	}
	if (at + ETHERNET_HEADER + VLAN_TAG > end)
		return;
	w->vlans[0] = be16(*(const u16_at *)(at + 14)) & VLAN_NUMBER;
	type = be16(*(const u16_at *)(at + 16));
	if (!is_vlan(type)) {
		read_ip_header(w, at, end, ETHERNET_HEADER + VLAN_TAG, type);
		return;
	}
	if (at + ETHERNET_HEADER + 2 * VLAN_TAG > end)
		return;
	w->vlans[1] = be16(*(const u16_at *)(at + 18)) & VLAN_NUMBER;
	type = be16(*(const u16_at *)(at + 20));
	read_ip_header(w, at, end, ETHERNET_HEADER + 2 * VLAN_TAG, type);
}

/* Adds a tag that was in front of those read. Frames with three tags are not balanced. */
inlined void add_outer_tag(struct work *w, __u32 tag)
{
	if (w->l2 > ETHERNET_HEADER + VLAN_TAG)
		w->type = 0;
	w->vlans[1] = w->vlans[0];
	w->vlans[0] = tag & VLAN_NUMBER;
}

/* The offset of UDP's payload in frames without tags. */
#define PAYLOAD_IPV4 (ETHERNET_HEADER + IPV4_HEADER + UDP_HEADER)
#define PAYLOAD_IPV6 (ETHERNET_HEADER + IPV6_HEADER + UDP_HEADER)

/*
 * Copies a `word` from `at` to `to` if it is there. The compiler must not merge these offsets into
 * computed ones.
 */
#define copy_if_there(word)				\
	if (at + sizeof(word) <= end) {			\
		*(word *)to = *(const word *)at;	\
		at += sizeof(word), to += sizeof(word);	\
	}						\
	barrier_var(at);				\
	barrier_var(to)

/*
 * Copies a packet's first `len` bytes, HEAD_BYTES at most; returns 0 on success. Bytes after the
 * packet in its frame may be copied too. Frames without tags are read by pointer, which costs less
 * than a call of the helper.
 */
inlined int xdp_head(struct xdp_md *ctx, struct work *w, struct scratch *s, __u32 len)
{
	const __u8 *at = (const __u8 *)(long)ctx->data, *end = (const __u8 *)(long)ctx->data_end;
	__u8 *to = s->bytes;

	if (w->packet == PAYLOAD_IPV4) {
		at += PAYLOAD_IPV4;
	} else if (w->packet == PAYLOAD_IPV6) {
		barrier_var(at);
		at += PAYLOAD_IPV6;
	} else {
		return bpf_xdp_load_bytes(ctx, w->packet, to, len);
	}
	barrier_var(at);
	unrolled_for(i, HEAD_BYTES / 16) {
		if (at + 16 > end)
			break;
		*(u64_at *)to = *(const u64_at *)at;
		*(u64_at *)(to + 8) = *(const u64_at *)(at + 8);
		at += 16, to += 16;
		barrier_var(at);
		barrier_var(to);
		if (i + 1 == HEAD_BYTES / 16)
			return 0;
	}
	copy_if_there(u64_at);
	copy_if_there(u32_at);
	copy_if_there(u16_at);
	copy_if_there(__u8);
	return 0;
}

/* The member of a UDP port, 0 for none. */
inlined __u32 member_of_port(struct work *w, __u16 port)
{
	__u32 at = be16(port), index = at / LINE_BYTES;
	struct line *line = bpf_map_lookup_elem(&ports, &index);

	if (!line)
		return 0;
	at = opaque_in_work(w, at) & (LINE_BYTES - 1);
	barrier_var(at);
	return line->members[at];
}

/* The identity of the packet that an IPv4 fragment belongs to. */
inlined struct ip_fragment fragment_key(struct work *w)
{
	struct ip_fragment key = { .from = w->ip[3], .to = w->ip[4], .id = w->ip[1] & 0xffff };

	return key;
}

/* Records what the later fragments of an IPv4 packet do. */
inlined void record_fragments(struct work *w, __u32 action)
{
	struct ip_fragment key = fragment_key(w);
	struct fragment_entry entry = { .action = action, .member = w->member };

	entry.until_ns = bpf_ktime_get_ns() + FRAGMENTS_NS;
	bpf_map_update_elem(&ip_fragments, &key, &entry, 0);
}

/* The member of an address; 0 for none. */
inlined __u32 member_of_address(__u64 high, __u64 low)
{
	__u64 address[2] = { high, low };
	__u32 *number = bpf_map_lookup_elem(&addresses, address);

	return number ? *number : 0;
}

/* Whether an IPv4 packet comes from a member's address. */
inlined __u32 is_from_member(struct work *w)
{
	/* ::ffff:a.b.c.d */
	return member_of_address(0, 0xffff0000 | (__u64)w->ip[3] << 32) != 0;
}

/* Passes a datagram. If its later fragments would be held, records that they are passed too. */
inlined __u32 pass_datagram(struct work *w, __u32 to_cluster)
{
	if (unlikely(w->fragmented) && (to_cluster || is_from_member(w)))
		record_fragments(w, FRAGMENT_PASS);
	return done(w, PASSED);
}

/* Classifies the datagram in `w`, which has at most `udp_len_max` bytes. */
inlined __u32 classify_udp(struct work *w, struct cluster *c, __u32 to_cluster, __u32 udp_len_max)
{
	__u32 udp_len = be16(w->udp[2]), step;

	if (to_cluster) {
		if (w->udp[1] == c->port) {
			step = BY_NAME;
		} else {
			w->member = member_of_port(w, w->udp[1]);
			if (!w->member)
				return pass_datagram(w, to_cluster);
			step = TO_PORT;
		}
	} else {
		struct member *m;

		w->member = member_of_port(w, w->udp[0]);
		if (!w->member)
			return pass_datagram(w, to_cluster);
		m = the_member(w);
		if (!m)
			return pass_datagram(w, to_cluster);
		if (w->family == FAMILY_V4 ? w->ip[3] != m->address4 :
					     *(u64_at *)(w->ip + 2) != m->address6[0] ||
						     *(u64_at *)(w->ip + 4) != m->address6[1])
			return pass_datagram(w, to_cluster);
		w->outwards = 1;
		step = OUT;
	}
	if (udp_len < UDP_HEADER || (!w->fragmented && udp_len > udp_len_max))
		return done(w, MALFORMED);
	w->packet_len = udp_len - UDP_HEADER;
	w->present = udp_len_max - UDP_HEADER;
	if (w->present > w->packet_len)
		w->present = w->packet_len;
	if (!w->present)
		return done(w, NOT_NDN);
	return step;
}

/*
 * Classifies a later fragment of an IPv4 packet: it follows the first fragment, or is held until
 * that arrives.
 */
__attribute__((noinline)) __u32 classify_fragment(struct work *w, __u32 to_cluster)
{
	struct fragment_entry *entry;
	struct ip_fragment key;

	if (!w)
		return DONE;
	key = fragment_key(w);
	entry = bpf_map_lookup_elem(&ip_fragments, &key);
	if (!entry || entry->until_ns < bpf_ktime_get_ns()) {
		if (!to_cluster && !is_from_member(w))
			return done(w, PASSED);
		w->outwards = !to_cluster;
		return HOLD;
	}
	if (entry->action == FRAGMENT_PASS)
		return done(w, PASSED);
	w->fragmented = 2;
	w->kind = KIND_FRAGMENT;
	w->member = entry->member;
	w->outwards = entry->action == FRAGMENT_OUT;
	return entry->action == FRAGMENT_OUT ? OUT : TO_PORT;
}

inlined __u32 classify_ipv4(struct work *w)
{
	struct cluster *c = the_cluster();
	__u32 to_cluster, whole, fragment, header;

	if (!c)
		return DONE;
	if ((w->ip[0] >> 4 & 15) != 4 || (w->ip[2] >> 8 & 0xff) != PROTOCOL_UDP)
		return done(w, PASSED);
	to_cluster = c->address4 && w->ip[4] == c->address4;
	header = (w->ip[0] & 15) * 4;
	whole = be16(w->ip[0] >> 16);
	/* Malformed IP packets are left to the system, which counts them. */
	if (header < IPV4_HEADER || whole < header || w->l2 + whole > w->frame_len)
		return done(w, PASSED);
	if (header > IPV4_HEADER)
		return done(w, to_cluster ? IP_OPTIONS : PASSED);
	fragment = be16(w->ip[1] >> 16);
	w->family = FAMILY_V4;
	w->packet = w->l2 + IPV4_HEADER + UDP_HEADER;
	if (fragment & IPV4_FRAGMENT_OFFSET)
		return classify_fragment(w, to_cluster);
	w->fragmented = !!(fragment & IPV4_MORE_FRAGMENTS);
	if (whole < IPV4_HEADER + UDP_HEADER)
		return done(w, to_cluster ? MALFORMED : PASSED);
	return classify_udp(w, c, to_cluster, whole - IPV4_HEADER);
}

/* IPv6 extension headers: hop-by-hop, routing, fragment, authentication, destination options. */
inlined int is_extension(__u32 next)
{
	return next == 0 || next == 43 || next == 44 || next == 51 || next == 60;
}

__attribute__((noinline)) __u32 classify_ipv6(struct work *w)
{
	struct cluster *c = the_cluster();
	__u32 to_cluster, payload, next;

	if (!w || !c)
		return DONE;
	next = w->ip[1] >> 16 & 0xff;
	to_cluster = (c->address6[0] | c->address6[1]) && *(u64_at *)(w->ip + 6) == c->address6[0] &&
		     *(u64_at *)(w->ip + 8) == c->address6[1];
	if ((w->ip[0] >> 4 & 15) != 6)
		return done(w, PASSED);
	if (next != PROTOCOL_UDP)
		return done(w, to_cluster && is_extension(next) ? IPV6_EXTENSIONS : PASSED);
	payload = be16(w->ip[1] & 0xffff);
	if (w->l2 + IPV6_HEADER + payload > w->frame_len)
		return done(w, PASSED);
	if (payload < UDP_HEADER)
		return done(w, to_cluster ? MALFORMED : PASSED);
	w->family = FAMILY_V6;
	w->packet = w->l2 + IPV6_HEADER + UDP_HEADER;
	return classify_udp(w, c, to_cluster, payload);
}

/* Classifies NDN over Ethernet, if the cluster has such faces. */
__attribute__((noinline)) __u32 classify_ethernet(struct work *w)
{
	struct cluster *c = the_cluster();
	__u64 to, from;

	if (!w || !c)
		return DONE;
	/* A frame leaves with the tag it arrived with, and VLAN interfaces are other interfaces. */
	if (w->vlans[0] | w->vlans[1])
		return done(w, PASSED);
	to = *(u64_at *)w->ethernet & 0xffffffffffff;
	from = *(u64_at *)(w->ethernet + 1) >> 16;
	w->packet = w->l2;
	w->packet_len = w->present = w->frame_len - w->l2;
	/* One interface may be both inside and outside: the sender decides then. */
	if (c->inside && w->ifindex == c->inside) {
		w->member = member_of_address(~0ull, from);
		if (w->member) {
			w->outwards = 1;
			return OUT;
		}
	}
	if (!c->outside || w->ifindex != c->outside)
		return done(w, PASSED);
	if (to == c->mac || to == c->group)
		return BY_NAME;
	w->member = member_of_address(~0ull, to);
	return w->member ? TO_PORT : done(w, PASSED);
}

/*
 * Whether the system has an interface for the frame's VLANs, which is set in w->in_link. The outer
 * tag comes first.
 */
__attribute__((noinline)) __u32 find_vlan(struct work *w)
{
	struct link key;
	__u32 *found;

	if (!w)
		return 0;
	unrolled_for(i, 2) {
		if (w->vlans[i]) {
			key.ifindex = w->in_link;
			key.vlan = w->vlans[i];
			found = bpf_map_lookup_elem(&vlans, &key);
			if (!found)
				return 0;
			w->in_link = *found;
		}
	}
	return 1;
}

/* Classifies the frame in `w`, and returns the next step. */
inlined __u32 classify_frame(struct work *w)
{
	w->fragmented = w->outwards = w->keep_l2 = w->family = w->to_one_port = 0;
	w->tag_at = 0;
	w->sum_addresses = w->sum_udp = w->sum_head = 0;
	w->kind = KIND_OTHER;
	w->verdict = PASSED;
	w->in_link = w->ifindex;
	if (w->type == ETHERTYPE_NDN)
		return classify_ethernet(w);
	/* A VLAN without an interface on this machine: the system drops it. */
	if (unlikely(w->vlans[0] | w->vlans[1]) && !find_vlan(w))
		return DONE;
	if (w->type == ETHERTYPE_IPV4)
		return classify_ipv4(w);
	if (w->type == ETHERTYPE_IPV6)
		return classify_ipv6(w);
	return DONE;
}

#endif
