/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * Rewrites addresses, ports and checksums in `struct work`. Checksums are updated incrementally
 * (RFC 1624), so a wrong one stays wrong, and the receiver detects it.
 */
#ifndef NW_REWRITE_H
#define NW_REWRITE_H

#include "balancer.h"
#include "frame.h"

inlined __u32 fold_sum(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* The change of a sum when a 16-bit word `old` becomes `new`. */
inlined __u32 sum_delta(__u32 old, __u32 new)
{
	return (old ^ 0xffff) + new;
}

/* The change of a sum when an IPv4 address `old` becomes one with this sum. */
inlined __u32 address_delta(__u32 old, __u32 sum)
{
	return (~old & 0xffff) + (~old >> 16) + sum;
}

/*
 * The checksum after the change `sum` of its sum: few words changed, so 32 bits have space for all
 * carries.
 */
inlined __u32 apply_delta(__u32 checksum, __u32 sum)
{
	return fold_sum((checksum ^ 0xffff) + sum) ^ 0xffff;
}

/* Decrements the TTL (hop limit); 0 if none is left. Before update_checksums(). */
inlined int decrement_ttl(struct work *w)
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
	/* sum_delta(), independent of the word. */
	w->sum_head += 0xffff - 1;
	return 1;
}

inlined void set_port(struct work *w, __u16 *port, __u32 new)
{
	w->sum_udp += sum_delta(*port, new);
	*port = new;
}

/* Updates UDP's checksum and IPv4's, by the recorded changes. */
inlined void update_checksums(struct work *w)
{
	__u32 sum;

	if (w->family == FAMILY_V4)
		w->ip[2] = (w->ip[2] & 0xffff) |
			   apply_delta(w->ip[2] >> 16, w->sum_addresses + w->sum_head) << 16;
	/*
	 * A later fragment has no UDP header. "If the computed checksum is zero, it is transmitted
	 * as all ones"; zero means that there is none.
	 */
	if (w->fragmented == 2 || !w->udp[3])
		return;
	sum = apply_delta(w->udp[3], w->sum_addresses + w->sum_udp);
	w->udp[3] = sum ? sum : 0xffff;
}

/* The length of the IP packet, bytes. */
inlined __u32 ip_len(struct work *w)
{
	return w->family == FAMILY_V4 ? be16(w->ip[0] >> 16) : IPV6_HEADER + be16(w->ip[1] & 0xffff);
}

/* Rewrites for w->member, over Ethernet. The source address stays. */
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

/* Rewrites for w->member: its address, port and next hop. */
inlined __u32 to_member(struct work *w)
{
	struct member *m = the_member(w);
	struct cluster *c;

	if (!m || !m->flags)
		return done(w, NO_MEMBER);
	if (!w->family)
		return to_member_ethernet(w, m);
	if (!(m->flags & MEMBER_HAS_HOP) ||
	    !(m->flags & (w->family == FAMILY_V4 ? MEMBER_HAS_V4 : MEMBER_HAS_V6)))
		return done(w, NO_HOP);
	if (ip_len(w) > m->mtu)
		return done(w, TOO_LONG);
	if (!decrement_ttl(w))
		return done(w, TIME_TO_LIVE);
	if (w->fragmented == 1)
		record_fragments(w, FRAGMENT_TO);
	if (w->family == FAMILY_V4) {
		w->sum_addresses = address_delta(w->ip[4], m->sum4);
		w->ip[4] = m->address4;
	} else {
		c = the_cluster();
		if (!c)
			return DONE;
		*(u64_at *)(w->ip + 6) = m->address6[0];
		*(u64_at *)(w->ip + 8) = m->address6[1];
		w->sum_addresses = sum_delta(c->sum6, m->sum6);
	}
	if (w->fragmented != 2)
		set_port(w, w->udp + 1, m->port);
	update_checksums(w);
	unrolled_for(i, 3) w->ethernet[i] = m->ethernet[i];
	w->out_ifindex = m->ifindex;
	w->out_vlan = m->vlan;
	return SEND;
}

/* Whether the packet is for a peer that accepts packets from the cluster's port only. */
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

/* Fills the argument of bpf_fib_lookup() for the packet's destination. */
inlined void fill_fib_lookup(struct work *w)
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
		unrolled_for(i, 4) fib->ipv6_src[i] = w->ip[2 + i];
		unrolled_for(i, 4) fib->ipv6_dst[i] = w->ip[6 + i];
	}
}

/*
 * Rewrites a member's packet over Ethernet: Interests keep the member's address, others get the
 * cluster's.
 */
inlined __u32 rewrite_outgoing_ethernet(struct work *w, struct cluster *c)
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

/*
 * Rewrites a member's packet to the outside: the cluster's address, and the port that answers must
 * come to.
 */
__attribute__((noinline)) __u32 rewrite_outgoing(struct work *w)
{
	struct cluster *c = the_cluster();
	__u32 id;

	if (!w || !c)
		return DONE;
	if (!w->family)
		return rewrite_outgoing_ethernet(w, c);
	if (w->fragmented == 1)
		record_fragments(w, FRAGMENT_OUT);
	if (w->family == FAMILY_V4) {
		w->sum_addresses = address_delta(w->ip[3], c->sum4);
		w->ip[3] = c->address4;
		/*
		 * Members number their IP packets alike too; a packet that may be fragmented needs
		 * a distinct number.
		 */
		if (!(w->ip[1] & IPV4_DO_NOT_FRAGMENT >> 8 << 16)) {
			id = w->ip[1] ^ w->member << 2;
			w->sum_head = sum_delta(w->ip[1] & 0xffff, id & 0xffff);
			w->ip[1] = id;
		}
	} else {
		struct member *m = the_member(w);

		if (!m)
			return DONE;
		*(u64_at *)(w->ip + 2) = c->address6[0];
		*(u64_at *)(w->ip + 4) = c->address6[1];
		w->sum_addresses = sum_delta(m->sum6, c->sum6);
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
	fill_fib_lookup(w);
	return OUT;
}

/* Applies the result of bpf_fib_lookup(). */
__attribute__((noinline)) __u32 apply_fib_result(struct work *w, __u32 found)
{
	struct link *link;
	__u32 egress;

	if (!w)
		return DONE;
	w->keep_l2 = 1;
	switch (found) {
	case BPF_FIB_LKUP_RET_SUCCESS:
		if (!decrement_ttl(w))
			return done(w, TIME_TO_LIVE);
		break;
	case BPF_FIB_LKUP_RET_NO_NEIGH:
	case BPF_FIB_LKUP_RET_UNSUPP_LWT:
		/* The system resolves the neighbour, and sends what it is given. */
		w->verdict = UNRESOLVED;
		update_checksums(w);
		return TO_SYSTEM;
	case BPF_FIB_LKUP_RET_FRAG_NEEDED:
		w->verdict = TOO_LONG_OUT;
		/* Unchanged, so that the system's reply goes to the member. */
		if (w->family == FAMILY_V6 || w->ip[1] & IPV4_DO_NOT_FRAGMENT >> 8 << 16)
			return DONE;
		update_checksums(w);
		return TO_SYSTEM;
	case BPF_FIB_LKUP_RET_NOT_FWDED:
		/*
		 * To this machine or to a group; or there is no route, of which the system notifies
		 * the member.
		 */
		return done(w, PASSED);
	default:
		return done(w, NO_ROUTE);
	}
	update_checksums(w);
	w->keep_l2 = 0;
	w->ethernet[0] = *(u32_at *)w->fib.dmac;
	w->ethernet[1] = *(u16_at *)(w->fib.dmac + 4) | (__u32)*(u16_at *)w->fib.smac << 16;
	w->ethernet[2] = *(u32_at *)(w->fib.smac + 2);
	w->out_ifindex = egress = w->fib.ifindex;
	w->out_vlan = 0;
	link = bpf_map_lookup_elem(&links, &egress);
	if (link) {
		w->out_ifindex = link->ifindex;
		w->out_vlan = link->vlan;
	}
	return SEND;
}

/*
 * Computes the new first byte of the Sequence, whose old value is in w->sequence_byte, and the
 * change of UDP's checksum. Before update_checksums(). It is the first byte of a 16-bit word, as
 * only headers of 2 or 4 bytes come before it.
 */
inlined void tag_sequence(struct work *w)
{
	__u32 old = w->sequence_byte & 0xff;

	w->tag = (old ^ w->tag) & 0xff;
	w->sum_udp += sum_delta(old, w->tag);
}

#endif
