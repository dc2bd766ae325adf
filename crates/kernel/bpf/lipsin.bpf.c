// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT
/*
 * XDP: forwards publications by the links in their forwarding identifiers (LIPSIN), as the element
 * lipsin_forwarder does. One program serves all interfaces of a node's domain.
 *
 *  frame of EtherType 0x080a, from a neighbour, to this machine
 *    no link                  dropped and counted, or to the service if it is for this node
 *    one link                 addresses and hop limit rewritten, redirected
 *    several links            a copy by each interface; nw_lipsin_out drops those without a link
 *    links, and this node     to the service, which forwards it too: XDP can't do both
 *    identifier in stages     to the service
 *
 * bpf_redirect_map() with BPF_F_BROADCAST sends a copy to each interface in the map and can't
 * choose among them. So the program of the map's entries (Linux 5.8) looks at each copy when it
 * leaves. What is for the service goes to its AF_XDP socket of the queue, if it has one and the
 * frame is to this interface; else it passes to the system, and so to its packet socket. Without
 * links, all frames are for the service.
 *
 * The loop over links has no branch but its end: each branch would double the verifier's paths.
 */
#include <linux/bpf.h>

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int (*name)[value]
#define __type(name, value) typeof(value) *name
#define inlined static inline __attribute__((always_inline))
#define barrier_var(var) ({ asm volatile("" : "+r"(var)); })

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_redirect)(__u32 interface, __u64 flags) = (void *)23;
static long (*const bpf_redirect_map)(void *map, __u64 key, __u64 flags) = (void *)51;

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the kernel programs are for little-endian machines"
#endif

/* As in crates/kernel/src/lipsin.rs. */
#define TABLES 9
#define LINKS_MAX 64
#define SOCKETS_MAX 4096
#define WORDS 4

#define ETHERNET_HEADER 14
#define ETHERTYPE_LIPSIN 0x0a08 /* 0x080a in network order */
#define MAC_BITS 0xffffffffffff
/* The envelope (crates/wire/src/publication/envelope.rs). */
#define TYPE_PUBLICATION 176
#define LENGTH_OF_2_BYTES 253
#define HEAD_BYTES 8
#define VERSION 1
#define KIND_PUBLICATION 0
#define FID_BITS 256
#define STAGES_TABLE 9

/* The outcome of a frame; the names are in lipsin.rs. */
enum outcome {
	FORWARDED,
	MULTICAST,
	COPIES,
	LOCAL,
	LOCAL_AND_LINKS,
	CONTROL,
	NO_LINK,
	FILL_LIMIT,
	HOP_LIMIT,
	MALFORMED,
	UNKNOWN_SENDER,
	STAGES,
	OUTCOMES,
};

struct fid {
	__u64 words[WORDS];
};

/* A link to a neighbour. An interface of 0: not over Ethernet, so the service sends by it. */
struct link {
	__u64 station;
	__u64 own;
	__u32 interface;
	/* Number of the interface among those of the domain, less than 64. */
	__u32 number;
};

/* The identifiers in one table. */
struct table {
	struct fid internal;
	struct fid outgoing[LINKS_MAX];
};

struct state {
	__u32 links;
	__u32 fill_bits_max;
	/* Packets with this hop limit or less are not forwarded. */
	__u32 last_hop;
	__u32 reserved;
	struct link link[LINKS_MAX];
	struct table tables[TABLES];
};

/* Two states, and the number of the one in use: so a packet never sees half a change. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct state);
} states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} current SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, LINKS_MAX);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct bpf_devmap_val));
} interfaces SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64[OUTCOMES]);
} counters SEC(".maps");

/* A receive queue with an AF_XDP socket, and where that is. */
struct queue {
	__u32 interface;
	__u32 number;
};

struct queue_socket {
	/* Address of the interface. */
	__u64 own;
	__u64 slot;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SOCKETS_MAX);
	__type(key, struct queue);
	__type(value, struct queue_socket);
} queues SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, SOCKETS_MAX);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

/* What the program reads of a frame. */
struct packet {
	struct fid fid;
	__u8 *head;
	__u32 table;
};

inlined struct state *current_state(void)
{
	__u32 key = 0, *number = bpf_map_lookup_elem(&current, &key);

	if (!number)
		return 0;
	key = *number & 1;
	return bpf_map_lookup_elem(&states, &key);
}

inlined void count(enum outcome outcome)
{
	__u32 key = 0;
	__u64 *counted = bpf_map_lookup_elem(&counters, &key);

	if (counted)
		counted[outcome]++;
}

inlined __u64 mac_at(const __u8 *at)
{
	return *(const __u32 *)at | (__u64) * (const __u16 *)(at + 4) << 32;
}

inlined void put_mac(__u8 *at, __u64 mac)
{
	*(__u32 *)at = mac;
	*(__u16 *)(at + 4) = mac >> 32;
}

/* Brings a frame to the service: by a socket of its own, or by the system. */
inlined int to_service(struct xdp_md *ctx, __u64 destination)
{
	struct queue key = { ctx->ingress_ifindex, ctx->rx_queue_index };
	struct queue_socket *found = bpf_map_lookup_elem(&queues, &key);

	/* Groups, and frames for another station that a bridge shows, may have other receivers. */
	if (!found || found->own != destination)
		return XDP_PASS;
	return bpf_redirect_map(&sockets, found->slot, XDP_PASS);
}

/* 0 if the number is 0, else 1; without a branch. */
inlined __u64 is_set(__u64 x)
{
	__u64 negative;

	/* The compiler would see a comparison in it, and make a branch. */
	barrier_var(x);
	negative = -x;
	barrier_var(negative);
	x = (x | negative) >> 63;
	barrier_var(x);
	return x;
}

/* 1 if the forwarding identifier contains the link's, else 0; without a branch. */
inlined __u64 contains(const struct fid *fid, const struct fid *id)
{
	__u64 missing = 0;

#pragma unroll
	for (int i = 0; i < WORDS; i++)
		missing |= id->words[i] & ~fid->words[i];
	return is_set(missing) ^ 1;
}

/* 1 if the numbers are equal, else 0; without a branch. */
inlined __u64 equal(__u64 a, __u64 b)
{
	return is_set(a ^ b) ^ 1;
}

inlined __u32 ones(const struct fid *fid)
{
	__u32 sum = 0;

#pragma unroll
	for (int i = 0; i < WORDS; i++) {
		__u64 x = fid->words[i];

		x -= x >> 1 & 0x5555555555555555;
		x = (x & 0x3333333333333333) + (x >> 2 & 0x3333333333333333);
		x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f;
		sum += x * 0x0101010101010101 >> 56;
	}
	return sum;
}

/* Reads the envelope in a frame. Returns its kind, or -1 if it is malformed. */
inlined int read_envelope(__u8 *data, __u8 *end, struct packet *packet)
{
	__u8 *head = data + ETHERNET_HEADER + 2;
	__u32 len;

	if (head + HEAD_BYTES + sizeof(struct fid) > end || data[ETHERNET_HEADER] != TYPE_PUBLICATION)
		return -1;
	len = data[ETHERNET_HEADER + 1];
	if (len == LENGTH_OF_2_BYTES) {
		len = data[ETHERNET_HEADER + 2] << 8 | data[ETHERNET_HEADER + 3];
		head += 2;
		/* Not the shortest form. */
		if (len < LENGTH_OF_2_BYTES)
			return -1;
	} else if (len > LENGTH_OF_2_BYTES) {
		return -1;
	}
	/* Behind the envelope there may be padding. */
	if (head + HEAD_BYTES + sizeof(struct fid) > end || len < HEAD_BYTES + sizeof(struct fid) ||
	    len > end - head || head[0] != VERSION)
		return -1;
	packet->head = head;
	packet->table = head[5];
#pragma unroll
	for (int i = 0; i < WORDS; i++)
		packet->fid.words[i] = *(__u64 *)(head + HEAD_BYTES + 8 * i);
	return head[1];
}

SEC("xdp")
int nw_lipsin(struct xdp_md *ctx)
{
	__u8 *data = (__u8 *)(long)ctx->data, *end = (__u8 *)(long)ctx->data_end;
	__u64 destination, sender, known = 0, hits = 0, last = 0, ingress = 0, seen = 0, elsewhere = 0;
	struct packet packet;
	struct state *state;
	struct link *link;
	__u32 filled, is_local;
	int kind;

	if (data + ETHERNET_HEADER > end || *(__u16 *)(data + 12) != ETHERTYPE_LIPSIN)
		return XDP_PASS;
	destination = mac_at(data);
	state = current_state();
	if (!state || !state->links)
		return to_service(ctx, destination);
	kind = read_envelope(data, end, &packet);
	if (kind != KIND_PUBLICATION) {
		count(kind < 0 ? MALFORMED : CONTROL);
		return to_service(ctx, destination);
	}
	/* The table must exist, as its identifiers are compared; without one there is no link. */
	__u32 has_table = packet.table < TABLES;
	struct table *table = &state->tables[has_table ? packet.table : 0];

	sender = mac_at(data + 6);
	for (__u32 i = 0; i < LINKS_MAX; i++) {
		if (i >= state->links)
			break;
		struct link *at = &state->link[i];
		__u64 is_sender = equal(at->station, sender) & equal(at->interface, ctx->ingress_ifindex);
		__u64 hit = contains(&packet.fid, &table->outgoing[i]) & (is_sender ^ 1) & has_table;
		__u64 bit = hit << (at->number & 63);

		known |= is_sender;
		ingress ^= (ingress ^ i) & -is_sender;
		last ^= (last ^ i) & -hit;
		hits += hit;
		/* By the service: not over Ethernet, or a second link of an interface. */
		elsewhere |= (hit & equal(at->interface, 0)) | is_set(seen & bit);
		seen |= bit;
	}
	link = &state->link[ingress & (LINKS_MAX - 1)];
	/* A frame for another station, shown by a switch or bridge, is left to the system too. */
	if (!known || link->own != destination) {
		count(UNKNOWN_SENDER);
		return to_service(ctx, destination);
	}
	filled = ones(&packet.fid);
	if (filled == FID_BITS) {
		count(LOCAL);
		return to_service(ctx, destination);
	}
	if (filled > state->fill_bits_max) {
		if (packet.table == STAGES_TABLE)
			goto stages;
		count(FILL_LIMIT);
		return XDP_DROP;
	}
	is_local = has_table && contains(&packet.fid, &table->internal);
	if (!hits) {
		if (packet.table == STAGES_TABLE)
			goto stages;
		count(is_local ? LOCAL : NO_LINK);
		return is_local ? to_service(ctx, destination) : XDP_DROP;
	}
	if (packet.head[3] <= state->last_hop) {
		count(HOP_LIMIT);
		return is_local ? to_service(ctx, destination) : XDP_DROP;
	}
	/* A copy by the interface of ingress would be left out: the service sends it. */
	if (hits > 1)
		elsewhere |= seen >> (link->number & 63) & 1;
	if (is_local || elsewhere) {
		count(LOCAL_AND_LINKS);
		return to_service(ctx, destination);
	}
	packet.head[3]--;
	if (hits > 1) {
		count(MULTICAST);
		return bpf_redirect_map(&interfaces, 0, BPF_F_BROADCAST | BPF_F_EXCLUDE_INGRESS);
	}
	count(FORWARDED);
	link = &state->link[last & (LINKS_MAX - 1)];
	put_mac(data, link->station);
	put_mac(data + 6, link->own);
	return bpf_redirect(link->interface, 0);
stages:
	count(STAGES);
	return to_service(ctx, destination);
}

/* A copy of a frame that leaves by an interface: kept if it has a link there. */
SEC("xdp/devmap")
int nw_lipsin_out(struct xdp_md *ctx)
{
	__u8 *data = (__u8 *)(long)ctx->data, *end = (__u8 *)(long)ctx->data_end;
	__u64 hits = 0, last = 0;
	struct packet packet;
	struct state *state = current_state();

	if (!state || data + ETHERNET_HEADER > end)
		return XDP_DROP;
	if (read_envelope(data, end, &packet) != KIND_PUBLICATION || packet.table >= TABLES)
		return XDP_DROP;
	struct table *table = &state->tables[packet.table];

	for (__u32 i = 0; i < LINKS_MAX; i++) {
		if (i >= state->links)
			break;
		__u64 hit = contains(&packet.fid, &table->outgoing[i]) &
			    equal(state->link[i].interface, ctx->egress_ifindex);

		last ^= (last ^ i) & -hit;
		hits |= hit;
	}
	if (!hits)
		return XDP_DROP;
	struct link *link = &state->link[last & (LINKS_MAX - 1)];

	put_mac(data, link->station);
	put_mac(data + 6, link->own);
	count(COPIES);
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
