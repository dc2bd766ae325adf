// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT
/*
 * Both ends of a path that the balancer is measured on, and what it is measured against there. All for figures.
 *
 *   nw_source   gives each frame of a test run (BPF_F_TEST_XDP_LIVE_FRAMES) its heads anew, and sends it out of an interface
 *   nw_swap     swaps the two addresses of IPv4 and the two ports, sets Ethernet's, and sends the frame out of an interface: no program on the
 *               same path can do less and still be one that forwards. Checksums stay right, as sums do not change.
 *   nw_sink     drops what comes, and counts it
 */
#include <linux/bpf.h>

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int (*name)[value]
#define __type(name, value) typeof(value) *name

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_redirect)(__u32 ifindex, __u64 flags) = (void *)23;

typedef __u32 __attribute__((may_alias)) u32_at;
typedef __u16 __attribute__((may_alias)) u16_at;

struct target {
	/* Ethernet's addresses, to and from, and the interface. */
	__u32 ethernet[3];
	__u32 ifindex;
	__u64 frames;
	/* Of nw_source: the heads, and zeros to a multiple of eight. */
	__u32 heads[12];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct target);
} target SEC(".maps");

static const volatile __u32 ONLY;

/* Ethernet, IPv4 without options, UDP; and two octets of what is behind them. */
#define HEADERS 42
#define HEADS 44

SEC("xdp")
int nw_swap(struct xdp_md *ctx)
{
	__u8 *at = (__u8 *)(long)ctx->data, *end = (__u8 *)(long)ctx->data_end;
	struct target *t = bpf_map_lookup_elem(&target, (const void *)&ONLY);
	__u32 address, ports;

	if (!t || at + HEADERS > end || *(u16_at *)(at + 12) != 8 || at[14] != 0x45 || at[23] != 17)
		return XDP_PASS;
	address = *(u32_at *)(at + 26);
	*(u32_at *)(at + 26) = *(u32_at *)(at + 30);
	*(u32_at *)(at + 30) = address;
	ports = *(u32_at *)(at + 34);
	*(u32_at *)(at + 34) = ports << 16 | ports >> 16;
	for (int i = 0; i < 3; i++)
		((u32_at *)at)[i] = t->ethernet[i];
	t->frames++;
	return bpf_redirect(t->ifindex, 0);
}

SEC("xdp")
int nw_source(struct xdp_md *ctx)
{
	__u8 *at = (__u8 *)(long)ctx->data, *end = (__u8 *)(long)ctx->data_end;
	struct target *t = bpf_map_lookup_elem(&target, (const void *)&ONLY);

	if (!t || at + HEADS > end)
		return XDP_ABORTED;
	for (int i = 0; i < HEADS / 4; i++)
		((u32_at *)at)[i] = t->heads[i];
	t->frames++;
	return bpf_redirect(t->ifindex, 0);
}

SEC("xdp")
int nw_sink(struct xdp_md *ctx)
{
	struct target *t = bpf_map_lookup_elem(&target, (const void *)&ONLY);

	(void)ctx;
	if (t)
		t->frames++;
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
