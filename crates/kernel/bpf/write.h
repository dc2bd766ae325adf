/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * Writes the headers in `struct work` to the frame. By pointer, at offsets known at compile time:
 * one copy for each number of tags.
 */
#ifndef NW_WRITE_H
#define NW_WRITE_H

#include "balancer.h"
#include "frame.h"

/*
 * The start of the IP header. Each sum is hidden from the compiler, which would merge them into one
 * with a computed offset.
 */
inlined __u8 *ip_header(__u8 *at, __u32 l2)
{
	if (l2 == ETHERNET_HEADER)
		at += ETHERNET_HEADER;
	else if (l2 == ETHERNET_HEADER + VLAN_TAG) {
		barrier_var(at);
		at += ETHERNET_HEADER + VLAN_TAG;
	} else {
		barrier_var(at);
		at += ETHERNET_HEADER + 2 * VLAN_TAG;
	}
	barrier_var(at);
	return at;
}

/*
 * Writes the IP and UDP headers, the checksum only `with_checksum` (otherwise the system writes
 * it); 0 on success.
 */
inlined int write_heads(struct work *w, __u8 *frame, const __u8 *end, __u32 l2, int with_checksum)
{
	__u8 *at = ip_header(frame, l2);

	if (w->family == FAMILY_V4) {
		if (at + IPV4_HEADER > end)
			return -1;
		unrolled_for(i, IPV4_HEADER / 4) ((u32_at *)at)[i] = w->ip[i];
		if (w->fragmented == 2)
			return 0;
		at += IPV4_HEADER;
	} else if (w->family == FAMILY_V6) {
		if (at + IPV6_HEADER > end)
			return -1;
		unrolled_for(i, IPV6_HEADER / 4) ((u32_at *)at)[i] = w->ip[i];
		at += IPV6_HEADER;
	} else {
		return 0;
	}
	barrier_var(at);
	if (at + UDP_HEADER > end)
		return -1;
	*(u32_at *)at = *(u32_at *)w->udp;
	if (with_checksum)
		*(u32_at *)(at + 4) = *(u32_at *)(w->udp + 2);
	return 0;
}

/* Writes Ethernet's addresses. */
inlined int write_addresses(struct work *w, __u8 *at, const __u8 *end)
{
	if (at + ETHERNET_HEADER > end)
		return -1;
	unrolled_for(i, 3) ((u32_at *)at)[i] = w->ethernet[i];
	return 0;
}

/*
 * Gives the frame the tag that it must leave with; returns the length of the Ethernet header then,
 * 0 on failure.
 */
inlined __u32 xdp_retag(struct xdp_md *ctx, struct work *w)
{
	__u32 l2 = w->out_vlan ? ETHERNET_HEADER + VLAN_TAG : ETHERNET_HEADER;
	__u8 *at, *end;

	if (l2 != w->l2 && bpf_xdp_adjust_head(ctx, (int)w->l2 - (int)l2))
		return 0;
	at = (__u8 *)(long)ctx->data;
	end = (__u8 *)(long)ctx->data_end;
	if (at + ETHERNET_HEADER + VLAN_TAG > end)
		return 0;
	if (w->out_vlan) {
		*(u32_at *)(at + 12) = be16(ETHERTYPE_VLAN) | (__u32)be16(w->out_vlan) << 16;
		*(u16_at *)(at + 16) = be16(w->type);
		/*
		 * Keeps the compiler from merging this store and the next one into one with a
		 * computed address.
		 */
		asm volatile("" ::: "memory");
	} else {
		*(u16_at *)(at + 12) = be16(w->type);
	}
	return l2;
}

inlined __u32 xdp_write(struct xdp_md *ctx, struct work *w, __u32 step)
{
	__u8 *at, *end;
	__u32 l2;

	if (!w)
		return -1;
	l2 = w->l2;
	if (w->tag_at && bpf_xdp_store_bytes(ctx, w->tag_at, &w->tag, 1))
		return -1;
	if (!w->keep_l2)
		l2 = xdp_retag(ctx, w);
	if (!l2)
		return -1;
	at = (__u8 *)(long)ctx->data;
	end = (__u8 *)(long)ctx->data_end;
	if (step == SEND && write_addresses(w, at, end))
		return -1;
	return write_heads(w, at, end, l2, 1);
}

/* Records the tag that the system has removed from the frame. */
inlined void tc_tag(struct __sk_buff *ctx, struct held_fragment *record)
{
	if (!ctx->vlan_present)
		return;
	record->tag = ctx->vlan_tci;
	record->tag_type = ctx->vlan_proto;
}

#define BPF_F_PSEUDO_HDR (1ull << 4)
#define BPF_F_MARK_MANGLED_0 (1ull << 5)

/*
 * Updates UDP's checksum by the system's helper: it may be one that a network card has yet to fill
 * in.
 */
inlined int tc_update_checksum(struct __sk_buff *ctx, struct work *w)
{
	__u32 at = w->packet - 2, addresses = w->sum_addresses, udp = w->sum_udp;
	__u32 v6 = w->family == FAMILY_V6;

	if (bpf_l4_csum_replace(ctx, at, 0, addresses, BPF_F_PSEUDO_HDR | BPF_F_MARK_MANGLED_0) ||
	    bpf_l4_csum_replace(ctx, at, 0, udp, BPF_F_MARK_MANGLED_0))
		return -1;
	/*
	 * IPv6 has no header checksum that compensates for its addresses, as that helper assumes;
	 * harmless if none was computed.
	 */
	if (v6)
		bpf_csum_update(ctx, addresses);
	return 0;
}

/* Removes all tags. */
inlined int tc_untag(struct __sk_buff *ctx, struct work *w)
{
	__u32 tags = (w->l2 - ETHERNET_HEADER) / VLAN_TAG + !!ctx->vlan_present;

	unrolled_for(i, 3) {
		if (tags > i && bpf_skb_vlan_pop(ctx))
			return -1;
	}
	return 0;
}

inlined __u32 tc_write(struct __sk_buff *ctx, struct work *w, __u32 step)
{
	__u8 *at, *end;
	__u32 l2;

	if (!w)
		return -1;
	l2 = w->l2;
	if (w->tag_at && bpf_skb_store_bytes(ctx, w->tag_at, &w->tag, 1, 0))
		return -1;
	if (w->family && w->fragmented != 2 && tc_update_checksum(ctx, w))
		return -1;
	if (!w->keep_l2) {
		if (tc_untag(ctx, w))
			return -1;
		l2 = ETHERNET_HEADER;
	}
	at = (__u8 *)(long)ctx->data;
	end = (__u8 *)(long)ctx->data_end;
	if (step == SEND && write_addresses(w, at, end))
		return -1;
	if (write_heads(w, at, end, l2, 0))
		return -1;
	if (!w->keep_l2 && w->out_vlan)
		return bpf_skb_vlan_push(ctx, be16(ETHERTYPE_VLAN), w->out_vlan);
	return 0;
}

#endif
