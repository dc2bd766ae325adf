/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * New addresses, ports and checksums, in the notes. Checksums are changed by what changed (RFC 1624), so a wrong one stays wrong, and is
 * found by whom the packet is for.
 */
#ifndef NW_REWRITE_H
#define NW_REWRITE_H

#include "balancer.h"
#include "frame.h"

inlined __u32 folded(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* What a 16-bit word of `old` that becomes `new` adds to a sum. */
inlined __u32 change(__u32 old, __u32 new)
{
	return (old ^ 0xffff) + new;
}

/* The same of an IPv4 address that becomes one of this sum. */
inlined __u32 change_address(__u32 old, __u32 sum)
{
	return (~old & 0xffff) + (~old >> 16) + sum;
}

/* A checksum, when `sum` comes to what it is of: few words changed, so it has room for all carries. */
inlined __u32 changed(__u32 checksum, __u32 sum)
{
	return folded((checksum ^ 0xffff) + sum) ^ 0xffff;
}

/* One hop less; 0 when there is none left. Before sum_up(). */
inlined int take_hop(struct work *w)
{
	if (w->family == FAMILY_V6) {
		if (w->ip[1] >> 24 <= 1)
			return 0;
		w->ip[1] -= 1 << 24;
		return 1;
	}
	if ((w->ip[2] & 0xff) <= 1)
		return 0;
	w->ip[2] -= 1;
	/* change(), whatever the word was. */
	w->sum_head += 0xffff - 1;
	return 1;
}

inlined void set_port(struct work *w, __u16 *port, __u32 new)
{
	w->sum_udp += change(*port, new);
	*port = new;
}

/* UDP's checksum, and IPv4's, by what changed. */
inlined void sum_up(struct work *w)
{
	__u32 sum;

	if (w->family == FAMILY_V4)
		w->ip[2] = (w->ip[2] & 0xffff) | changed(w->ip[2] >> 16, w->sum_addresses + w->sum_head) << 16;
	/* A later fragment has no UDP. "If the computed checksum is zero, it is transmitted as all ones"; zero says that there is none. */
	if (w->fragmented == 2 || !w->udp[3])
		return;
	sum = changed(w->udp[3], w->sum_addresses + w->sum_udp);
	w->udp[3] = sum ? sum : 0xffff;
}

/* Octets of the IP packet. */
inlined __u32 ip_len(struct work *w)
{
	return w->family == FAMILY_V4 ? be16(w->ip[0] >> 16) : IPV6_HEADER + be16(w->ip[1] & 0xffff);
}

/* To w->member, over Ethernet: from where it came. */
inlined __u32 to_member_ethernet(struct work *w, struct member *m)
{
	struct cluster *c = the_cluster();

	if (!c)
		return DONE;
	if (!m->mac)
		return done(w, NO_HOP);
	w->ethernet[0] = m->mac;
	w->ethernet[1] = (w->ethernet[1] & 0xffff0000) | m->mac >> 32;
	w->out_ifindex = c->inside;
	w->keep_l2 = 1;
	return SEND;
}

/* To w->member: its address and port, by its next hop. */
inlined __u32 to_member(struct work *w)
{
	struct member *m = the_member(w);
	struct cluster *c;

	if (!m || !m->flags)
		return done(w, NO_MEMBER);
	if (!w->family)
		return to_member_ethernet(w, m);
	if (!(m->flags & MEMBER_HAS_HOP) || !(m->flags & (w->family == FAMILY_V4 ? MEMBER_HAS_V4 : MEMBER_HAS_V6)))
		return done(w, NO_HOP);
	if (ip_len(w) > m->mtu)
		return done(w, TOO_LONG);
	if (!take_hop(w))
		return done(w, TIME_TO_LIVE);
	if (w->fragmented == 1)
		note_fragments(w, FRAGMENT_TO);
	if (w->family == FAMILY_V4) {
		w->sum_addresses = change_address(w->ip[4], m->sum4);
		w->ip[4] = m->address4;
	} else {
		c = the_cluster();
		if (!c)
			return DONE;
		*(u64_at *)(w->ip + 6) = m->address6[0];
		*(u64_at *)(w->ip + 8) = m->address6[1];
		w->sum_addresses = change(c->sum6, m->sum6);
	}
	if (w->fragmented != 2)
		set_port(w, w->udp + 1, m->port);
	sum_up(w);
	rounds(i, 3) w->ethernet[i] = m->ethernet[i];
	w->out_ifindex = m->ifindex;
	w->out_vlan = m->vlan;
	return SEND;
}

/* Whether the packet is for a peer that takes nothing but from the cluster's port. */
inlined int is_to_one_port(struct work *w)
{
	struct peer peer = { .port = w->udp[1] };

	if (w->family == FAMILY_V4) {
		peer.address[1] = 0xffff0000 | (__u64)w->ip[4] << 32;
	} else {
		peer.address[0] = *(u64_at *)(w->ip + 6);
		peer.address[1] = *(u64_at *)(w->ip + 8);
	}
	return bpf_map_lookup_elem(&one_port, &peer) != 0;
}

/* What bpf_fib_lookup() is to find: the way to where the packet goes. */
inlined void ask_way(struct work *w)
{
	struct bpf_fib_lookup *fib = &w->fib;

	fib->family = w->family;
	fib->l4_protocol = PROTOCOL_UDP;
	fib->sport = w->udp[0];
	fib->dport = w->udp[1];
	fib->tot_len = ip_len(w);
	fib->ifindex = w->in_link;
	fib->h_vlan_proto = fib->h_vlan_TCI = 0;
	if (w->family == FAMILY_V4) {
		fib->flowinfo = w->ip[0] >> 8 & 0xff;
		fib->ipv4_src = w->ip[3];
		fib->ipv4_dst = w->ip[4];
	} else {
		/* "Flow label and priority": all of the first word but the version. */
		fib->flowinfo = w->ip[0] & ~0xf0u;
		rounds(i, 4) fib->ipv6_src[i] = w->ip[2 + i];
		rounds(i, 4) fib->ipv6_dst[i] = w->ip[6 + i];
	}
}

/* A member's, over Ethernet: Interests keep the member's address, all else has the cluster's. */
inlined __u32 leave_ethernet(struct work *w, struct cluster *c)
{
	w->verdict = w->as_interest ? INTEREST_OUT : ANSWER_OUT;
	if (!w->as_interest) {
		w->ethernet[1] = (w->ethernet[1] & 0xffff) | c->mac << 16;
		w->ethernet[2] = c->mac >> 16;
	}
	w->out_ifindex = c->outside;
	w->keep_l2 = 1;
	return SEND;
}

/* A member's, to the outside: the cluster's address and the port that answers shall come to. Asks then for the way. */
__attribute__((noinline)) __u32 leave(struct work *w)
{
	struct cluster *c = the_cluster();
	__u32 id;

	if (!w || !c)
		return DONE;
	if (!w->family)
		return leave_ethernet(w, c);
	if (w->fragmented == 1)
		note_fragments(w, FRAGMENT_OUT);
	if (w->family == FAMILY_V4) {
		w->sum_addresses = change_address(w->ip[3], c->sum4);
		w->ip[3] = c->address4;
		/* Members number their IP packets alike too; who may be fragmented needs a number of its own. */
		if (!(w->ip[1] & IPV4_DO_NOT_FRAGMENT >> 8 << 16)) {
			id = w->ip[1] ^ w->member << 2;
			w->sum_head = change(w->ip[1] & 0xffff, id & 0xffff);
			w->ip[1] = id;
		}
	} else {
		struct member *m = the_member(w);

		if (!m)
			return DONE;
		*(u64_at *)(w->ip + 2) = c->address6[0];
		*(u64_at *)(w->ip + 4) = c->address6[1];
		w->sum_addresses = change(m->sum6, c->sum6);
	}
	if (w->fragmented == 2) {
		w->verdict = IP_FRAGMENT_OUT;
	} else if (!w->as_interest) {
		w->verdict = ANSWER_OUT;
		set_port(w, w->udp, c->port);
	} else if (is_to_one_port(w)) {
		w->verdict = INTEREST_OUT_ONE_PORT;
		w->to_one_port = 1;
		set_port(w, w->udp, c->port);
	} else {
		w->verdict = INTEREST_OUT;
	}
	ask_way(w);
	return OUT;
}

/* `found` is what bpf_fib_lookup() said of the way. */
__attribute__((noinline)) __u32 take_way(struct work *w, __u32 found)
{
	struct link *link;
	__u32 leaves_by;

	if (!w)
		return DONE;
	w->keep_l2 = 1;
	switch (found) {
	case BPF_FIB_LKUP_RET_SUCCESS:
		if (!take_hop(w))
			return done(w, TIME_TO_LIVE);
		break;
	case BPF_FIB_LKUP_RET_NO_NEIGH:
	case BPF_FIB_LKUP_RET_UNSUPP_LWT:
		/* The system asks for the neighbour, and sends what it is given. */
		w->verdict = UNRESOLVED;
		sum_up(w);
		return GIVE;
	case BPF_FIB_LKUP_RET_FRAG_NEEDED:
		w->verdict = TOO_LONG_OUT;
		/* Untouched, so that the system's answer goes to the member. */
		if (w->family == FAMILY_V6 || w->ip[1] & IPV4_DO_NOT_FRAGMENT >> 8 << 16)
			return DONE;
		sum_up(w);
		return GIVE;
	case BPF_FIB_LKUP_RET_NOT_FWDED:
		/* To this machine or to a group; or there is no route, which the system tells the member. */
		return done(w, PASSED);
	default:
		return done(w, NO_ROUTE);
	}
	sum_up(w);
	w->keep_l2 = 0;
	w->ethernet[0] = *(u32_at *)w->fib.dmac;
	w->ethernet[1] = *(u16_at *)(w->fib.dmac + 4) | (__u32)*(u16_at *)w->fib.smac << 16;
	w->ethernet[2] = *(u32_at *)(w->fib.smac + 2);
	w->out_ifindex = leaves_by = w->fib.ifindex;
	w->out_vlan = 0;
	link = bpf_map_lookup_elem(&links, &leaves_by);
	if (link) {
		w->out_ifindex = link->ifindex;
		w->out_vlan = link->vlan;
	}
	return SEND;
}

/*
 * The Sequence's first octet, which is in w->octet: what it becomes, with UDP's checksum. Before sum_up(). It is the first octet of a 16-bit word:
 * heads of 2 or 4 octets are all that comes before it.
 */
inlined void tag_sequence(struct work *w)
{
	__u32 old = w->octet & 0xff;

	w->tag = (old ^ w->tag) & 0xff;
	w->sum_udp += change(old, w->tag);
}

#endif
