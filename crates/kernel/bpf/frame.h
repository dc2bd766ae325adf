/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * What a frame is to the balancer: Ethernet, up to two VLAN tags, IPv4 or IPv6, UDP.
 *
 * read_frame() copies the heads to the notes, and xdp_head() what is behind them to the scratch, the only places where a packet is read by
 * pointer: at offsets that are known when this is compiled, one copy of the code for each number of tags. sort_frame(w) looks at the notes
 * alone.
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
/* The VLAN's number in a tag; 0 says that a tag is for its priority alone. */
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

/* Copies UDP's head and the octet behind it, as far as they are there. */
inlined void read_udp(struct work *w, const __u8 *at, const __u8 *end)
{
	w->first_octet = 0x100;
	if (at + UDP_HEADER > end)
		return;
	*(u32_at *)w->udp = *(const u32_at *)at;
	*(u32_at *)(w->udp + 2) = *(const u32_at *)(at + 4);
	if (at + UDP_HEADER + 1 > end)
		return;
	w->first_octet = at[UDP_HEADER];
}

/* Copies what is behind Ethernet's head of `l2` octets, a constant. */
inlined void read_behind(struct work *w, const __u8 *at, const __u8 *end, __u32 l2, __u32 type)
{
	const u32_at *ip = (const u32_at *)(at + l2);

	w->l2 = l2;
	w->type = 0;
	if (type == ETHERTYPE_IPV4) {
		if (at + l2 + IPV4_HEADER > end)
			return;
		rounds(i, IPV4_HEADER / 4) w->ip[i] = ip[i];
		w->type = type;
		read_udp(w, at + l2 + IPV4_HEADER, end);
	} else if (type == ETHERTYPE_IPV6) {
		if (at + l2 + IPV6_HEADER > end)
			return;
		rounds(i, IPV6_HEADER / 4) w->ip[i] = ip[i];
		w->type = type;
		read_udp(w, at + l2 + IPV6_HEADER, end);
	} else if (type == ETHERTYPE_NDN) {
		if (at + l2 + 1 > end)
			return;
		w->first_octet = at[l2];
		w->type = type;
	}
}

/* Copies the heads of the frame from `at` to `end` to the notes. */
inlined void read_frame(struct work *w, const __u8 *at, const __u8 *end)
{
	__u32 type;

	w->type = 0;
	w->l2 = ETHERNET_HEADER;
	w->vlans[0] = w->vlans[1] = 0;
	if (at + ETHERNET_HEADER > end)
		return;
	rounds(i, 3) w->ethernet[i] = ((const u32_at *)at)[i];
	type = be16(*(const u16_at *)(at + 12));
	if (likely(!is_vlan(type))) {
		read_behind(w, at, end, ETHERNET_HEADER, type);
		return;
	}
	if (at + ETHERNET_HEADER + VLAN_TAG > end)
		return;
	w->vlans[0] = be16(*(const u16_at *)(at + 14)) & VLAN_NUMBER;
	type = be16(*(const u16_at *)(at + 16));
	if (!is_vlan(type)) {
		read_behind(w, at, end, ETHERNET_HEADER + VLAN_TAG, type);
		return;
	}
	if (at + ETHERNET_HEADER + 2 * VLAN_TAG > end)
		return;
	w->vlans[1] = be16(*(const u16_at *)(at + 18)) & VLAN_NUMBER;
	type = be16(*(const u16_at *)(at + 20));
	read_behind(w, at, end, ETHERNET_HEADER + 2 * VLAN_TAG, type);
}

/* Notes a tag that stood before those that were read. Frames with three are nothing to the balancer. */
inlined void note_outer_tag(struct work *w, __u32 tag)
{
	if (w->l2 > ETHERNET_HEADER + VLAN_TAG)
		w->type = 0;
	w->vlans[1] = w->vlans[0];
	w->vlans[0] = tag & VLAN_NUMBER;
}

/* Where UDP's payload is in frames without tags. */
#define BEHIND_IPV4 (ETHERNET_HEADER + IPV4_HEADER + UDP_HEADER)
#define BEHIND_IPV6 (ETHERNET_HEADER + IPV6_HEADER + UDP_HEADER)

/* One `word` more from `at` to `to`, when it is there. The compiler shall not join these places to ones that it computes. */
#define copy_if_there(word)				\
	if (at + sizeof(word) <= end) {			\
		*(word *)to = *(const word *)at;	\
		at += sizeof(word), to += sizeof(word);	\
	}						\
	barrier_var(at);				\
	barrier_var(to)

/*
 * Copies a packet's first `len` octets, HEAD_OCTETS at most; 0 when it could. What lies behind the packet in its frame may come along. Frames
 * without tags by pointer, which costs less than a call of the helper.
 */
inlined int xdp_head(struct xdp_md *ctx, struct work *w, struct scratch *s, __u32 len)
{
	const __u8 *at = (const __u8 *)(long)ctx->data, *end = (const __u8 *)(long)ctx->data_end;
	__u8 *to = s->octets;

	if (w->packet == BEHIND_IPV4) {
		at += BEHIND_IPV4;
	} else if (w->packet == BEHIND_IPV6) {
		barrier_var(at);
		at += BEHIND_IPV6;
	} else {
		return bpf_xdp_load_bytes(ctx, w->packet, to, len);
	}
	barrier_var(at);
	rounds(i, HEAD_OCTETS / 16) {
		if (at + 16 > end)
			break;
		*(u64_at *)to = *(const u64_at *)at;
		*(u64_at *)(to + 8) = *(const u64_at *)(at + 8);
		at += 16, to += 16;
		barrier_var(at);
		barrier_var(to);
		if (i + 1 == HEAD_OCTETS / 16)
			return 0;
	}
	copy_if_there(u64_at);
	copy_if_there(u32_at);
	copy_if_there(u16_at);
	copy_if_there(__u8);
	return 0;
}

/* The member that has a UDP port, 0 for none. */
inlined __u32 member_of_port(struct work *w, __u16 port)
{
	__u32 at = be16(port), index = at / LINE_OCTETS;
	struct line *line = bpf_map_lookup_elem(&ports, &index);

	if (!line)
		return 0;
	at = unknown(w, at) & (LINE_OCTETS - 1);
	barrier_var(at);
	return line->members[at];
}

/* Which packet a fragment of IPv4 is of. */
inlined struct ip_fragment fragment_key(struct work *w)
{
	struct ip_fragment key = { .from = w->ip[3], .to = w->ip[4], .id = w->ip[1] & 0xffff };

	return key;
}

/* Notes what the later fragments of an IPv4 packet shall do. */
inlined void note_fragments(struct work *w, __u32 way)
{
	struct ip_fragment key = fragment_key(w);
	struct fragment_entry entry = { .way = way, .member = w->member };

	entry.until_ns = bpf_ktime_get_ns() + FRAGMENTS_NS;
	bpf_map_update_elem(&ip_fragments, &key, &entry, 0);
}

/* Looks up the member that has an address; 0 for none. */
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

/* Not the balancer's. Of a packet whose later fragments would be held, they are told to pass too. */
inlined __u32 pass_datagram(struct work *w, __u32 to_cluster)
{
	if (unlikely(w->fragmented) && (to_cluster || is_from_member(w)))
		note_fragments(w, FRAGMENT_PASS);
	return done(w, PASSED);
}

/* Whose the datagram in the notes is; `udp_len_max` octets may be of it. */
inlined __u32 sort_udp(struct work *w, struct cluster *c, __u32 to_cluster, __u32 udp_len_max)
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

/* A fragment of an IPv4 packet that is not the first: it does as that did, and waits for it where that may be the balancer's. */
__attribute__((noinline)) __u32 sort_fragment(struct work *w, __u32 to_cluster)
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
	if (entry->way == FRAGMENT_PASS)
		return done(w, PASSED);
	w->fragmented = 2;
	w->kind = KIND_FRAGMENT;
	w->member = entry->member;
	w->outwards = entry->way == FRAGMENT_OUT;
	return entry->way == FRAGMENT_OUT ? OUT : TO_PORT;
}

inlined __u32 sort_ipv4(struct work *w)
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
	/* What is malformed as IP is the system's to refuse and to count. */
	if (header < IPV4_HEADER || whole < header || w->l2 + whole > w->frame_len)
		return done(w, PASSED);
	if (header > IPV4_HEADER)
		return done(w, to_cluster ? IP_OPTIONS : PASSED);
	fragment = be16(w->ip[1] >> 16);
	w->family = FAMILY_V4;
	w->packet = w->l2 + IPV4_HEADER + UDP_HEADER;
	if (fragment & IPV4_FRAGMENT_OFFSET)
		return sort_fragment(w, to_cluster);
	w->fragmented = !!(fragment & IPV4_MORE_FRAGMENTS);
	if (whole < IPV4_HEADER + UDP_HEADER)
		return done(w, to_cluster ? MALFORMED : PASSED);
	return sort_udp(w, c, to_cluster, whole - IPV4_HEADER);
}

/* Hop-by-hop, routing, fragment, authentication, destination options. */
inlined int is_extension(__u32 next)
{
	return next == 0 || next == 43 || next == 44 || next == 51 || next == 60;
}

__attribute__((noinline)) __u32 sort_ipv6(struct work *w)
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
	return sort_udp(w, c, to_cluster, payload);
}

/* NDN over Ethernet, where the cluster has such faces. */
__attribute__((noinline)) __u32 sort_ethernet(struct work *w)
{
	struct cluster *c = the_cluster();
	__u64 to, from;

	if (!w || !c)
		return DONE;
	/* It leaves with the tag that it came with, and the interfaces of VLANs are others. */
	if (w->vlans[0] | w->vlans[1])
		return done(w, PASSED);
	to = *(u64_at *)w->ethernet & 0xffffffffffff;
	from = *(u64_at *)(w->ethernet + 1) >> 16;
	w->packet = w->l2;
	w->packet_len = w->present = w->frame_len - w->l2;
	/* One interface may be both: who sends tells then. */
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

/* Whether the system has an interface for the VLAN of the frame, which is noted. The outer tag's comes first. */
__attribute__((noinline)) __u32 find_vlan(struct work *w)
{
	struct link key;
	__u32 *found;

	if (!w)
		return 0;
	rounds(i, 2) {
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

/* What the frame in the notes is: the step that it goes on with. */
inlined __u32 sort_frame(struct work *w)
{
	w->fragmented = w->outwards = w->keep_l2 = w->family = w->to_one_port = 0;
	w->tag_at = 0;
	w->sum_addresses = w->sum_udp = w->sum_head = 0;
	w->kind = KIND_OTHER;
	w->verdict = PASSED;
	w->in_link = w->ifindex;
	if (w->type == ETHERTYPE_NDN)
		return sort_ethernet(w);
	/* Of a VLAN that this machine is not in: the system drops it. */
	if (unlikely(w->vlans[0] | w->vlans[1]) && !find_vlan(w))
		return DONE;
	if (w->type == ETHERTYPE_IPV4)
		return sort_ipv4(w);
	if (w->type == ETHERTYPE_IPV6)
		return sort_ipv6(w);
	return DONE;
}

#endif
