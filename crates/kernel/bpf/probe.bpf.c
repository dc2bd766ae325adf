// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT
/*
 * For tests and measurements: no kernel can run an SK_REUSEPORT program on given bytes, so this
 * program returns what the shared code chooses: shard | reason << 8, for the packet after 14
 * arbitrary bytes. It is never attached.
 */
#include <linux/bpf.h>

static long (*const bpf_xdp_load_bytes)(struct xdp_md *ctx, __u32 offset, void *to,
					__u32 len) = (void *)189;
static __u64 (*const bpf_xdp_get_buff_len)(struct xdp_md *ctx) = (void *)188;

#define ndn_load bpf_xdp_load_bytes
#include "ndn.h"

#define ETHERNET_HEADER 14

SEC("xdp")
int nw_probe(struct xdp_md *ctx)
{
	__u32 len = bpf_xdp_get_buff_len(ctx);

	return ndn_shard(ctx, ETHERNET_HEADER, len > ETHERNET_HEADER ? len - ETHERNET_HEADER : 0);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
