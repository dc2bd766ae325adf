// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT
/*
 * Injects a frame that the balancer's process has held at its ingress interface, by a test run with
 * live frames:
 *
 *   nw_balance_again   into the balancer's XDP program. Needs a driver that sends XDP frames, as
 *                      native XDP does
 *   nw_receive         into the system, where generic XDP and traffic control see it like any other
 *                      frame
 */
#include <linux/bpf.h>

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int (*name)[value]

static long (*const bpf_tail_call)(void *ctx, void *programs, __u32 index) = (void *)12;

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, 4);
} balance SEC(".maps");

SEC("xdp")
int nw_balance_again(struct xdp_md *ctx)
{
	bpf_tail_call(ctx, &balance, 0);
	return XDP_ABORTED;
}

SEC("xdp")
int nw_receive(struct xdp_md *ctx)
{
	(void)ctx;
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
