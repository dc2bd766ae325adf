// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT
/*
 * The balancer of a cluster: several routers appear as one. It keeps no state of NDN packets,
 * except for Interests to one-port peers.
 *
 *   frame ─▶ frame.h: its class ─┬─▶ to the cluster's port: ndn.h, balance.h ─┬─▶ rewrite.h ─▶ sent
 *                                ├─▶ to a member's port: that member ─────────┤
 *                                ├─▶ from a member: to the outside ───────────┘
 *                                └─▶ anything else: left to the system, unchanged
 *
 * nw_balance is for XDP, nw_balance_tc for traffic control at ingress; both have the same maps.
 * Decision 0030 describes what they do with each kind of packet, and why.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

static long (*const bpf_fib_lookup)(void *ctx, struct bpf_fib_lookup *fib, int len,
				    __u32 flags) = (void *)69;
static long (*const bpf_redirect)(__u32 ifindex, __u64 flags) = (void *)23;
static __u64 (*const bpf_xdp_get_buff_len)(struct xdp_md *ctx) = (void *)188;
static long (*const bpf_xdp_load_bytes)(struct xdp_md *ctx, __u32 offset, void *to,
					__u32 len) = (void *)189;
static long (*const bpf_xdp_store_bytes)(struct xdp_md *ctx, __u32 offset, void *from,
					 __u32 len) = (void *)190;
static long (*const bpf_xdp_adjust_head)(struct xdp_md *ctx, int delta) = (void *)44;
static long (*const bpf_skb_load_bytes)(const void *ctx, __u32 offset, void *to,
					__u32 len) = (void *)26;
static long (*const bpf_skb_store_bytes)(struct __sk_buff *ctx, __u32 offset,
					 const void *from, __u32 len,
					 __u64 flags) = (void *)9;
static long (*const bpf_l4_csum_replace)(struct __sk_buff *ctx, __u32 offset, __u64 from, __u64 to,
					 __u64 flags) = (void *)11;
static long (*const bpf_skb_vlan_push)(struct __sk_buff *ctx, __u16 protocol,
				       __u16 tag) = (void *)18;
static long (*const bpf_skb_vlan_pop)(struct __sk_buff *ctx) = (void *)19;
static long (*const bpf_skb_pull_data)(struct __sk_buff *ctx, __u32 len) = (void *)39;
static long (*const bpf_csum_update)(struct __sk_buff *ctx, __u32 sum) = (void *)40;

#include "balancer.h"
#include "frame.h"
#include "balance.h"
#include "rewrite.h"
#include "write.h"

#define PATH(name) xdp_##name
#define context struct xdp_md
#define path_load bpf_xdp_load_bytes
#define path_head xdp_head
#define path_tag(ctx, record)
#include "path.h"
#undef PATH
#undef context
#undef path_load
#undef path_head
#undef path_tag

#define PATH(name) tc_##name
#define context struct __sk_buff
#define path_load bpf_skb_load_bytes
#define path_head(ctx, w, s, len) bpf_skb_load_bytes(ctx, (w)->packet, (s)->bytes, len)
#define path_tag tc_tag
#include "path.h"

SEC("xdp")
int nw_balance(struct xdp_md *ctx)
{
	struct work *w = the_work();
	__u32 step;

	if (!w)
		return XDP_PASS;
	w->frame_len = bpf_xdp_get_buff_len(ctx);
	w->ifindex = ctx->ingress_ifindex;
	read_frame(w, (const __u8 *)(long)ctx->data, (const __u8 *)(long)ctx->data_end);
	step = xdp_balance(ctx, w);
	if (step == SEND) {
		if (w->out_ifindex == w->ifindex)
			return XDP_TX;
		return bpf_redirect(w->out_ifindex, 0);
	}
	return w->verdict >= IP_FRAGMENT_HELD ? XDP_DROP : XDP_PASS;
}

/* Longest headers that are read by pointer: Ethernet with two tags, IPv6, UDP, one byte. */
#define PULLED_BYTES 71

SEC("classifier")
int nw_balance_tc(struct __sk_buff *ctx)
{
	struct work *w = the_work();
	__u32 step;

	if (!w)
		return TC_ACT_UNSPEC;
	bpf_skb_pull_data(ctx, ctx->len < PULLED_BYTES ? ctx->len : PULLED_BYTES);
	w->frame_len = ctx->len;
	w->ifindex = ctx->ingress_ifindex;
	read_frame(w, (const __u8 *)(long)ctx->data, (const __u8 *)(long)ctx->data_end);
	/* The outer tag is no longer in the frame. */
	if (ctx->vlan_present)
		add_outer_tag(w, ctx->vlan_tci);
	step = tc_balance(ctx, w);
	if (step == SEND)
		return bpf_redirect(w->out_ifindex, 0);
	return w->verdict >= IP_FRAGMENT_HELD ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
