// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT
/*
 * Programs for measuring the balancer:
 *
 *   nw_source   writes the headers of each frame of a test run (BPF_F_TEST_XDP_LIVE_FRAMES), and
 *               sends it to an interface
 *   nw_swap     swaps the two IPv4 addresses and the two ports, sets Ethernet's, and sends the
 *               frame to an interface: no forwarding program on the same path can do less.
 *               Checksums stay right, as the sums do not change.
 *   nw_sink     counts and drops all frames
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
	/* Ethernet's addresses (destination, source), and the interface. */
	__u32 ethernet[3];
	__u32 ifindex;
	__u64 frames;
	/* nw_source: the headers, padded with zeros to a multiple of eight bytes. */
	__u32 heads[12];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct target);
} target SEC(".maps");

static const volatile __u32 ONLY;

/* Ethernet, IPv4 without options, UDP; and two bytes after them. */
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
