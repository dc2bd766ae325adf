// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT
/*
 * Brings a frame that the balancer's process has held back to where it came by, in a test run with live frames:
 *
 *   nw_balance_again   to the balancer's program for XDP. Needs a driver that sends frames of XDP, as the program in the driver does
 *   nw_receive         to the system, where generic XDP and traffic control see it as any other frame
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
