/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * Chooses the shard of a packet from its bytes. The twin of crates/wire/src/shard.rs, rule by rule;
 * both are tested with tests/vectors/shards.txt.
 *
 * The bytes to parse are copied to per-CPU memory (`struct scratch`), as no program may read at an
 * unknown offset of a packet. The first HEAD_BYTES are copied at once, the rest of a long name
 * later. Parsing is split into small global functions, each of which the verifier checks once;
 * docs/decisions/0021-kernel-programs-in-c-loaded-by-aya.md explains the code's form.
 *
 * The including file defines `ndn_load(ctx, offset, to, len)`, which copies from the packet and
 * returns 0 on success; or NDN_MEMBERS, if it chooses members of a cluster instead of shards: then
 * tokens are ignored, the hash of each prefix is kept, and the including file has its own loading,
 * counting and the_config().
 */
#ifndef NW_NDN_H
#define NW_NDN_H

#include <linux/bpf.h>

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int (*name)[value]
#define __type(name, value) typeof(value) *name
#define inlined static inline __attribute__((always_inline))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
/* Keeps the compiler from deriving one checked value from another: the verifier can't follow. */
#define barrier_var(var) ({ asm volatile("" : "+r"(var)); })

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;

/* The hash is defined on little-endian words, and words are loaded as they are in memory. */
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the kernel programs are for little-endian machines"
#endif
#define be64(x) __builtin_bswap64(x)
#define be16(x) __builtin_bswap16(x)

/* The limits, as in shard.rs. */
#define SHARDS_MAX 64
#define COMPONENTS_MAX 16
#define NAME_BYTES_MAX 512
#define HEAD_BYTES 128
#define FIELDS_MAX 16
#define FRAGMENTS_MAX 400
/* Maximum length of a header or number of a link field that is read here. */
#define STEP_BYTES 16

#define PORTS_MAX 8

/* Why a shard was chosen: `Reason` in shard.rs, in its order, then reasons of the kernel only. */
enum reason {
	REASON_INTEREST,
	REASON_DATA,
	REASON_NACK,
	REASON_TOKEN,
	REASON_FRAGMENT,
	REASON_NAME_LIMIT,
	REASON_HEADER_LIMIT,
	REASON_RELIABILITY,
	REASON_IDLE,
	REASON_MALFORMED,
	REASON_NOT_NDN,
	/* The shard has no socket: left to the system. */
	REASON_NO_SOCKET,
	/* XDP: not an NDN frame for this machine, left to the system unchanged. */
	REASON_PASSED,
	/* The program has no configuration, or could not read the packet. */
	REASON_FAILED,
	/* XDP: there is only one shard, so the packet was not parsed. */
	REASON_ONLY,
	/* No outcome yet: read_field() found the fragment, or locate() the name. */
	NAME_FOUND,
	REASONS = 16,
};

struct config {
	/* The first two words of the hash's key. */
	__u64 key[2];
	/* 1 to 64; 0 leaves everything to the system. */
	__u32 shards;
	/* XDP: 0 ignores EtherType 0x8624; 1 takes untagged frames; n + 1 those in VLAN n. */
	__u32 ethernet;
#ifndef NDN_MEMBERS
	/* XDP: UDP destination ports in network order, 0 for none. */
	__u16 ports[PORTS_MAX];
	/*
	 * XDP: the interface's own address and its multicast address, as words; 0 takes frames to
	 * any address.
	 */
	__u64 mac;
	__u64 group;
#endif
};

#ifndef NDN_MEMBERS
struct counters {
	__u64 reasons[REASONS];
	__u64 shards[SHARDS_MAX];
};
#endif

/* Twice the largest offset, so that a masked offset and all that is read there stay inside. */
#define SCRATCH_LEN 1024

/*
 * What each packet needs is in one place, next to its bytes: between two packets the system's code
 * evicts all cache lines.
 */
struct scratch {
	/* The link header, as far as it was read. */
	__u64 sequence;
	__u64 frag_index;
	__u64 frag_count;
	/*
	 * The previous type, as types must ascend; the shard in a PIT token of this router,
	 * SHARDS_MAX or more for none.
	 */
	__u32 last;
	__u32 token;
	__u32 has_sequence;
#ifdef NDN_MEMBERS
	/* The offset of the Sequence's number in the packet. */
	__u32 sequence_at;
#endif
	/* The offset of the packet in its frame, and the number of bytes that may belong to it. */
	__u32 packet;
	__u32 len;
	/*
	 * The loop over the name: its offset, the end of the current component, whether that is an
	 * implicit digest.
	 */
	__u32 at;
	__u32 component_end;
	__u32 in_digest;
	/* The chosen shard, for a helper that needs it in memory. */
	__u32 shard;
	/* XDP: the destination of an IP packet; IPv4 addresses are mapped. */
	__u64 destination[2];
#ifdef NDN_MEMBERS
	/* Hashes of the name's first n components. */
	__u64 prefixes[2 * COMPONENTS_MAX];
	/* Bit n: the name's n-th component (from 1) is an implicit digest. */
	__u32 digests;
#endif
	__u32 nack;
	/* Decides the shard: hash of a name, or of the number that a packet's fragments share. */
	__u64 hash;
	/* The loop over the name: the key's second word. */
	__u64 multiplier;
	/* From the packet's start, as all below: the link packet's end, its fragment's start. */
	__u32 end;
	__u32 fragment;
	/* The start of the name's TLV-VALUE, its end, and the end of the copied part. */
	__u32 name;
	__u32 name_end;
	__u32 copied_end;
	/* Number of components. */
	__u32 components;
	/* The reason if the name is valid. */
	__u32 reason;
	/* Hides a number from the verifier: see opaque(). */
	__u32 forgotten;
	__u8 bytes[2 * SCRATCH_LEN];
};

#ifndef NDN_MEMBERS
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct config);
} config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counters SEC(".maps");
#endif

/*
 * No other packet of the same hook interrupts a program of the receive path on the same CPU, so one
 * copy per CPU is enough. If one did, a packet would go to a wrong shard and be handed over there.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratch SEC(".maps");

/*
 * The key of all maps with one entry. Not on the stack: without CAP_PERFMON, each first store to a
 * stack slot, and each store over a spilled register, is followed by an instruction that stops
 * speculation, which costs more than everything else here.
 */
static const volatile __u32 ONLY;

inlined struct scratch *the_scratch(void)
{
	return bpf_map_lookup_elem(&scratch, (const void *)&ONLY);
}

#ifdef NDN_MEMBERS
inlined struct config *the_config(void);
#else
inlined struct config *the_config(void)
{
	return bpf_map_lookup_elem(&config, (const void *)&ONLY);
}

inlined struct counters *the_counters(void)
{
	return bpf_map_lookup_elem(&counters, (const void *)&ONLY);
}
#endif

/* Reads or writes a variable in memory, at this point of the program. */
#define ACCESS_ONCE(place) (*(volatile typeof(place) *)&(place))

/*
 * The same number, with all that the verifier knows of it forgotten, as it does not track the
 * content of maps. Offsets are masked after this: a program without CAP_PERFMON may add to a
 * pointer only a number with the same bounds on every path, and known bounds of an offset would
 * make the verifier check each round of a loop separately.
 */
inlined __u32 opaque(struct scratch *s, __u32 number)
{
	ACCESS_ONCE(s->forgotten) = number;
	return ACCESS_ONCE(s->forgotten);
}

#ifndef NDN_MEMBERS
inlined void count_reason(struct counters *c, struct scratch *s, __u32 reason)
{
	c->reasons[opaque(s, reason) & (REASONS - 1)]++;
}

inlined void count_shard(struct counters *c, struct scratch *s, __u32 shard)
{
	c->shards[opaque(s, shard) & (SHARDS_MAX - 1)]++;
}
#endif

/*
 * Eight bytes at the opaque offset `at`; the first is the lowest. Bytes after the copied ones are
 * arbitrary: callers check lengths.
 */
inlined __u64 word(const struct scratch *s, __u32 at)
{
	at &= SCRATCH_LEN - 1;
	barrier_var(at);
	return *(const __u64 *)(s->bytes + at);
}

/* Two words at `at`, for callers that know a bound of it. */
inlined const __u64 *words(const struct scratch *s, __u64 at)
{
	at &= SCRATCH_LEN - 1;
	barrier_var(at);
	return (const __u64 *)(s->bytes + at);
}

/*
 * An unrolled `for` loop. Without CAP_PERFMON the verifier does not accept loops, as it loses the
 * counter on speculative paths.
 */
#define unrolled_for(i, n) _Pragma("clang loop unroll(full)") for (__u32 i = 0; i < (n); i++)

struct head {
	__u32 type;
	__u32 len;
	/*
	 * Length of both numbers in bytes; 0 if one is longer than three bytes or not minimal. Such
	 * a length exceeds any packet.
	 */
	__u32 size;
};

/* Reads headers with long numbers: type | len << 16 | size << 32. */
__attribute__((noinline)) __u64 read_long_head(__u64 bytes)
{
	__u64 type = bytes & 0xff, len, size = 2;

	bytes >>= 8;
	if (type >= 253) {
		if (type > 253)
			return 0;
		type = be16((__u16)bytes);
		if (type < 253)
			return 0;
		bytes >>= 16;
		size = 4;
	}
	len = bytes & 0xff;
	if (len >= 253) {
		if (len > 253)
			return 0;
		len = be16((__u16)(bytes >> 8));
		if (len < 253)
			return 0;
		size += 2;
	}
	return type | len << 16 | size << 32;
}

/* Reads type and length from eight bytes. */
inlined struct head read_head(__u64 bytes)
{
	struct head head = { .type = bytes & 0xff, .len = bytes >> 8 & 0xff, .size = 2 };

	if (unlikely(head.type >= 253 || head.len >= 253)) {
		__u64 both = read_long_head(bytes);

		head.type = both & 0xffff;
		head.len = both >> 16 & 0xffff;
		head.size = both >> 32;
	}
	return head;
}

/* Reads a NonNegativeInteger of `len` bytes at `at`; returns 0 if the length is invalid. */
inlined int read_integer(struct scratch *s, __u32 at, __u32 len, __u64 *value)
{
	__u64 bytes = be64(word(s, opaque(s, at)));

	if (len != 1 && len != 2 && len != 4 && len != 8)
		return 0;
	*value = bytes >> (64 - 8 * len & 63);
	return 1;
}

/*
 * The lower half of a word, in one instruction: clang 14 uses two shifts, which the next product
 * would wait for.
 */
inlined __u64 low(__u64 value)
{
	__u32 half;

	asm("%0 = %1" : "=w"(half) : "w"((__u32)value));
	return half;
}

/*
 * The two halves of the 128-bit product, combined by xor: the high half from four 32-bit products,
 * as no instruction computes it.
 */
inlined __u64 fold(__u64 a, __u64 b)
{
	__u64 a0 = low(a), a1 = a >> 32, b0 = low(b), b1 = b >> 32;
	/* Neither sum overflows: (2^32-1)^2 + 2^32-1 < 2^64. */
	__u64 cross = a0 * b1 + (a0 * b0 >> 32);
	__u64 cross_low = a1 * b0 + low(cross);

	return (a1 * b1 + (cross >> 32) + (cross_low >> 32)) ^ a * b;
}

/* The masks that keep the first n bytes of two words, at index n - 1. */
static const __u64 MASKS[32][2] = {
	{ ~0ull >> 56, 0 },
	{ ~0ull >> 48, 0 },
	{ ~0ull >> 40, 0 },
	{ ~0ull >> 32, 0 },
	{ ~0ull >> 24, 0 },
	{ ~0ull >> 16, 0 },
	{ ~0ull >> 8, 0 },
	{ ~0ull, 0 },
	{ ~0ull, ~0ull >> 56 },
	{ ~0ull, ~0ull >> 48 },
	{ ~0ull, ~0ull >> 40 },
	{ ~0ull, ~0ull >> 32 },
	{ ~0ull, ~0ull >> 24 },
	{ ~0ull, ~0ull >> 16 },
	{ ~0ull, ~0ull >> 8 },
	{ ~0ull, ~0ull },
};

/* Whether a header at `at` may extend beyond the copied bytes. */
inlined int beyond_head(const struct scratch *s, __u32 at)
{
	return at + STEP_BYTES > HEAD_BYTES && s->end > HEAD_BYTES;
}

/*
 * Reads the link field at `at`, and returns the offset of the next one, or 0 at the end; s->reason
 * is then NAME_FOUND with s->fragment set, or the reason of the outcome.
 */
__attribute__((noinline)) __u32 read_field(__u32 at)
{
	struct scratch *s = the_scratch();
	__u32 value, next, reason = REASON_MALFORMED;
	struct head head;

	if (!s)
		return 0;
	at = opaque(s, at);
	if (at >= s->end) {
		reason = REASON_IDLE;
		goto ended;
	}
	if (beyond_head(s, at)) {
		reason = REASON_HEADER_LIMIT;
		goto ended;
	}
	head = read_head(word(s, at));
	value = at + head.size;
	next = value + head.len;
	if (!head.size || next > s->end)
		goto ended;
	if (head.type == 80) {
		/* "Fragment last". */
		if (head.len && next == s->end) {
			s->fragment = value;
			reason = NAME_FOUND;
		}
		goto ended;
	}
	/* Ack may repeat, but ends the reading anyway. */
	if (head.type <= s->last)
		goto ended;
	s->last = head.type;
	switch (head.type) {
	case 81:
		if (head.len != 8 || !read_integer(s, value, 8, &s->sequence))
			goto ended;
		s->has_sequence = 1;
#ifdef NDN_MEMBERS
		s->sequence_at = value;
#endif
		break;
	case 82:
		if (!read_integer(s, value, head.len, &s->frag_index))
			goto ended;
		break;
	case 83:
		if (!read_integer(s, value, head.len, &s->frag_count))
			goto ended;
		break;
	case 98:
		if (!head.len || head.len > 32)
			goto ended;
#ifndef NDN_MEMBERS
		if (head.len == 6)
			s->token = word(s, opaque(s, value)) & 0xff;
#endif
		break;
	case 800:
		s->nack = 1;
		break;
	case 836:
	case 840:
		reason = REASON_RELIABILITY;
		goto ended;
	default:
		/* "Ignored if in 800..959 with the two lowest bits clear." */
		if (head.type < 800 || head.type > 959 || head.type & 3)
			goto ended;
	}
	return next;
ended:
	s->reason = reason;
	return 0;
}

/*
 * Finds what the choice depends on in a packet of `len` bytes, of which at most HEAD_BYTES are in
 * the scratch. Returns the reason if it is decided (with the token or hash in the scratch), else
 * NAME_FOUND with the name's offsets in the scratch.
 */
inlined __u32 locate(struct scratch *s, __u32 len)
{
	struct config *c = the_config();
	__u32 at, end, type;
	struct head head;

	if (!c || !c->shards || c->shards > SHARDS_MAX)
		return REASON_FAILED;
	type = s->bytes[0];
	if (type != 5 && type != 6 && type != 100)
		return REASON_NOT_NDN;
	head = read_head(*(const __u64 *)s->bytes);
	at = head.size;
	end = at + head.len;
	s->end = end;
	s->nack = 0;
	if (!head.size || end > len)
		return REASON_MALFORMED;

	if (type == 100) {
		s->last = s->has_sequence = 0;
		s->frag_index = 0;
		s->frag_count = 1;
		s->token = SHARDS_MAX;
		s->reason = REASON_HEADER_LIMIT;
		unrolled_for(i, FIELDS_MAX) {
			at = read_field(at);
			if (!at)
				break;
		}
		if (s->reason != NAME_FOUND)
			return s->reason;
		if (!s->frag_count || s->frag_count > FRAGMENTS_MAX || s->frag_index >= s->frag_count)
			return REASON_MALFORMED;
		c = the_config();
		if (!c)
			return REASON_FAILED;
		if (s->frag_count > 1) {
			if (!s->has_sequence)
				return REASON_MALFORMED;
			s->hash = fold((s->sequence - s->frag_index) ^ c->key[0], c->key[1]);
			return REASON_FRAGMENT;
		}
		at = s->fragment;
		if (beyond_head(s, at))
			return REASON_HEADER_LIMIT;
		/* The number of shards is read before the header, as that may take a call. */
		end = c->shards;
		if (s->token >= end)
			s->token = SHARDS_MAX;
		at = opaque(s, at);
		head = read_head(word(s, at));
		type = head.type;
		if (!head.size || (type != 5 && (type != 6 || ACCESS_ONCE(s->nack))))
			return REASON_MALFORMED;
		at += head.size;
		end = at + head.len;
		if (end > ACCESS_ONCE(s->end))
			return REASON_MALFORMED;
		if ((ACCESS_ONCE(s->nack) || type == 6) && ACCESS_ONCE(s->token) < SHARDS_MAX)
			return REASON_TOKEN;
	}

	s->reason = ACCESS_ONCE(s->nack) ? REASON_NACK : type == 6 ? REASON_DATA : REASON_INTEREST;
	if (at >= end)
		return REASON_MALFORMED;
	if (beyond_head(s, at))
		return REASON_HEADER_LIMIT;
	at = opaque(s, at);
	head = read_head(word(s, at));
	at += head.size;
	if (!head.size || head.type != 7 || at + head.len > end)
		return REASON_MALFORMED;
	s->name = at;
	s->name_end = at + head.len;
	s->copied_end = at + (head.len > NAME_BYTES_MAX ? NAME_BYTES_MAX : head.len);
	return NAME_FOUND;
}

/* Reads any component at `at`: its end | its type << 32, or a reason << 32. */
__attribute__((noinline)) __u64 read_component(__u32 at, __u32 components)
{
	struct scratch *s = the_scratch();
	struct head head;
	__u32 end;

	if (!s)
		return (__u64)REASON_FAILED << 32;
	/* The part that fits decides: names with the same start stay together, others spread. */
	if (components >= COMPONENTS_MAX || (at + 8 > s->copied_end && s->copied_end < s->name_end))
		return (__u64)REASON_NAME_LIMIT << 32;
	head = read_head(word(s, at));
	end = at + head.size + head.len;
	if (!head.size || !head.type || end > s->name_end || (head.type <= 2 && head.len != 32))
		return (__u64)REASON_MALFORMED << 32;
	if (end > s->copied_end)
		return (__u64)REASON_NAME_LIMIT << 32;
	return end | (__u64)head.type << 32;
}

/* Keeps the hash of the components so far. */
inlined void keep_prefix(struct scratch *s, __u64 state)
{
#ifdef NDN_MEMBERS
	__u32 components = ACCESS_ONCE(s->components) & (2 * COMPONENTS_MAX - 1);

	barrier_var(components);
	s->prefixes[components] = state;
#else
	(void)s, (void)state;
#endif
}

/* Records whether the component that starts is an implicit digest. */
inlined void set_digest(struct scratch *s, __u32 type)
{
#ifdef NDN_MEMBERS
	s->digests |= (type == 1) << (ACCESS_ONCE(s->components) + 1 & 31);
#else
	(void)s, (void)type;
#endif
}

/*
 * Added to a component's first two bytes (type and length): the type minus 8, with a carry of 1
 * into the length for types from 8 on.
 */
#define SHORT_ADDED (0x100 - 8)
/* All bits that the sum may have: for types up to 71, and lengths (plus 1) up to 14. */
#define SHORT_BITS 0xf3f

/*
 * Hashes a name with short components of usual types only, as most names are: each type is 8 to 71
 * (not a digest, not a long number), no component with its header is longer than 16 bytes, and all
 * were copied. Then each component is one step. Whether all components were of this kind is checked
 * once at the end; until then the bytes read may be arbitrary, but are inside the scratch. Returns
 * 0 if the name is not of this kind.
 */
inlined int hash_name_fast(struct scratch *s, const struct config *c)
{
	__u64 state, at, sums = 0;

	state = c->key[0];
	s->multiplier = c->key[1];
	at = s->name;
	if (s->name_end != s->copied_end)
		return 0;
	unrolled_for(i, COMPONENTS_MAX + 1) {
		const __u64 *bytes, *mask;
		__u64 first, sum, len;

#ifdef NDN_MEMBERS
		s->prefixes[i] = state;
#endif
		if (at == ACCESS_ONCE(s->name_end)) {
			s->hash = state;
			s->components = i;
#ifdef NDN_MEMBERS
			s->digests = 0;
#endif
			return !(sums & ~(__u64)SHORT_BITS);
		}
		if (i == COMPONENTS_MAX)
			return 0;
		bytes = words(s, at);
		first = bytes[0];
		sum = (first & 0xffff) + SHORT_ADDED;
		sums |= sum;
		/* The length with its header, minus 1. */
		len = sum >> 8;
		mask = MASKS[len & 31];
		state = fold((first & mask[0]) ^ state, (bytes[1] & mask[1]) ^ s->multiplier);
		at += len + 1;
	}
	return 0;
}

/*
 * Hashes the name in the scratch as crates/name/src/hash.rs does, without implicit digests at its
 * end. One loop over components and the words in them: each round starts a component or continues
 * one, and reads 16 bytes of it.
 *
 * Without CAP_PERFMON the verifier follows both ways of each branch, and joins two paths only if it
 * knows exactly the same of every variable. So there are few branches, and what one round passes to
 * the next is in memory, except for the hash. What a round needs is read again after the call, as
 * only four registers survive it, and another variable would go to the stack (see ONLY).
 */
__attribute__((noinline)) __u32 hash_name_slow(void)
{
	struct scratch *s = the_scratch();
	struct config *c = the_config();
	__u64 state;

	if (!s || !c)
		return REASON_FAILED;
#ifndef NDN_MEMBERS
	/* Programs that choose members have tried it already. */
	if (likely(hash_name_fast(s, c)))
		return s->reason;
	/* Read again, so that nothing is kept over the fast path. */
	c = the_config();
	if (!c)
		return REASON_FAILED;
#endif
	state = c->key[0];
	s->multiplier = c->key[1];
	s->hash = state;
	s->at = s->component_end = s->name;
	s->components = s->in_digest = 0;
#ifdef NDN_MEMBERS
	s->digests = 0;
#endif
	unrolled_for(i, COMPONENTS_MAX + NAME_BYTES_MAX / 16 + 1) {
		__u32 at = ACCESS_ONCE(s->at), component_end = ACCESS_ONCE(s->component_end), taken;
		const __u64 *mask;
		__u64 a, b;

		barrier_var(s);
		if (at >= component_end) {
			__u32 bytes = word(s, at), type = bytes & 0xff, len = bytes >> 8 & 0xff;

			keep_prefix(s, state);
			if (at >= ACCESS_ONCE(s->name_end))
				break;
			component_end = at + 2 + len;
			/*
			 * Most components are short, no digests, and were copied: then no
			 * difference is negative.
			 */
			if (likely((__s32)((type - 3) | (252 - type) | (252 - len) |
					   (ACCESS_ONCE(s->copied_end) - component_end) |
					   (COMPONENTS_MAX - 1 - ACCESS_ONCE(s->components))) >= 0)) {
				ACCESS_ONCE(s->in_digest) = 0;
			} else {
				__u64 read = read_component(at, ACCESS_ONCE(s->components));

				component_end = read & 0xffffffff;
				type = read >> 32;
				if (!component_end) {
					s->reason = type;
					break;
				}
				if (type == 1 && !ACCESS_ONCE(s->in_digest))
					ACCESS_ONCE(s->hash) = state;
				set_digest(s, type);
				ACCESS_ONCE(s->in_digest) = type == 1;
			}
			ACCESS_ONCE(s->components) += 1;
			ACCESS_ONCE(s->component_end) = component_end;
		}
		taken = component_end - at;
		if (taken > 16)
			taken = 16;
		ACCESS_ONCE(s->at) = at + taken;
		at = opaque(s, at);
		a = word(s, at);
		b = word(s, at + 8);
		mask = MASKS[opaque(s, taken - 1) & 31];
		a &= mask[0];
		b &= mask[1];
		state = fold(a ^ state, b ^ ACCESS_ONCE(s->multiplier));
	}
	if (!ACCESS_ONCE(s->in_digest))
		s->hash = state;
	return s->reason;
}

#ifndef NDN_MEMBERS
/* The result: shard | reason << 8. */
__attribute__((noinline)) __u32 outcome(__u32 reason)
{
	struct scratch *s = the_scratch();
	struct config *c = the_config();
	__u32 shard = 0;

	if (!s || !c)
		return REASON_FAILED << 8;
	if (reason == REASON_TOKEN)
		shard = s->token;
	else if (reason <= REASON_NAME_LIMIT)
		shard = (__u32)(s->hash & 0xffff) * c->shards >> 16;
	return (shard & 0xff) | reason << 8;
}

/*
 * The shard of the packet of `len` bytes at `offset`: shard | reason << 8. Inlined, because only
 * the program itself may load from its packet; it keeps few values over a call, as they may go to
 * the stack (see ONLY).
 */
inlined __u32 ndn_shard(void *ctx, __u32 offset, __u32 len)
{
	struct scratch *s = the_scratch();
	__u32 reason, more;

	if (!s)
		return REASON_FAILED << 8;
	if (!len)
		return REASON_NOT_NDN << 8;
	s->packet = offset;
	s->len = len;
	more = len > HEAD_BYTES ? HEAD_BYTES : len;
	barrier_var(more);
	if (more == 0 || more > HEAD_BYTES || ndn_load(ctx, offset, s->bytes, more))
		return REASON_FAILED << 8;
	reason = locate(s, ACCESS_ONCE(s->len));
	if (reason == NAME_FOUND) {
		more = ACCESS_ONCE(s->copied_end);
		if (more > HEAD_BYTES) {
			more -= HEAD_BYTES;
			barrier_var(more);
			if (more == 0 || more > SCRATCH_LEN - HEAD_BYTES ||
			    ndn_load(ctx, ACCESS_ONCE(s->packet) + HEAD_BYTES, s->bytes + HEAD_BYTES, more))
				return REASON_FAILED << 8;
		}
		reason = hash_name_slow();
	}
	return outcome(reason);
}
#endif

#endif
