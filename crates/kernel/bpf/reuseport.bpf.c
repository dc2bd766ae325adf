// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT
/*
 * SK_REUSEPORT: chooses the socket of a UDP group by the packet's shard.
 *
 * Datagrams that were merged on their way (GRO, or a sender's GSO over loopback) go where the first
 * of them belongs.
 */
#include <linux/bpf.h>

static long (*const bpf_skb_load_bytes)(const void *ctx, __u32 offset, void *to,
					__u32 len) = (void *)26;
static long (*const bpf_sk_select_reuseport)(struct sk_reuseport_md *reuse, void *map,
					     void *key, __u64 flags) =
	(void *)82;

#define ndn_load bpf_skb_load_bytes
#include "ndn.h"

/* The context's data starts at the UDP header. */
#define UDP_HEADER 8

struct {
	__uint(type, BPF_MAP_TYPE_REUSEPORT_SOCKARRAY);
	__uint(max_entries, SHARDS_MAX);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

SEC("sk_reuseport")
int nw_select(struct sk_reuseport_md *ctx)
{
	__u32 len = ctx->len, chosen = ndn_shard(ctx, UDP_HEADER, len > UDP_HEADER ? len - UDP_HEADER : 0);
	struct counters *c = the_counters();
	struct scratch *s = the_scratch();

	if (!c || !s)
		return SK_PASS;
	count_reason(c, s, chosen >> 8);
	if (chosen >> 8 == REASON_FAILED)
		return SK_PASS;
	/* Without a socket for the shard, the system chooses one by the flow. */
	s->shard = chosen & 0xff;
	if (bpf_sk_select_reuseport(ctx, &sockets, &s->shard, 0))
		c->reasons[REASON_NO_SOCKET]++;
	else
		count_shard(c, s, ACCESS_ONCE(s->shard));
	return SK_PASS;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
