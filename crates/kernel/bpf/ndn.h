/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * Which shard a packet goes to, read from the packet itself. The twin of crates/wire/src/shard.rs, rule for rule; both are held to
 * tests/vectors/shards.txt.
 *
 * What is read lies in per-CPU memory, because no program may read at an unknown offset of a packet it has not proven to be there. The
 * first octets are copied there at once; the rest of a long name follows. What is found there is found by small global functions: the
 * verifier looks at each once, whoever calls them. Why all is written as it is: docs/decisions/0021-kernel-programs.md.
 *
 * Whoever includes this file first defines `ndn_load(ctx, offset, to, len)`, which copies from the packet and returns 0 when it could; or
 * NDN_MEMBERS, when it chooses members of a cluster and not shards: then tokens are not looked at, the hash of each prefix is kept, and
 * loading, counting and the_config() are its own.
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
/* Keeps the compiler from deriving one checked value from another, which the verifier can't follow. */
#define barrier_var(var) ({ asm volatile("" : "+r"(var)); })

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;

/* The hash is defined over little-endian words, and all words here are loaded as they lie. */
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the kernel programs are for little-endian machines"
#endif
#define be64(x) __builtin_bswap64(x)
#define be16(x) __builtin_bswap16(x)

/* The limits, as in shard.rs. */
#define SHARDS_MAX 64
#define COMPONENTS_MAX 16
#define NAME_OCTETS_MAX 512
#define HEAD_OCTETS 128
#define FIELDS_MAX 16
#define FRAGMENTS_MAX 400
/* No head or number of a link header that is read here is longer. */
#define STEP_OCTETS 16

#define PORTS_MAX 8

/* Why a shard was chosen: `Reason` of shard.rs, in its order, then what only the kernel knows. */
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
	/* No socket was there for the shard: left to the system. */
	REASON_NO_SOCKET,
	/* XDP: no frame of ours, passed on untouched. */
	REASON_PASSED,
	/* The program has no configuration, or could not read what it knows to be there. */
	REASON_FAILED,
	/* XDP: there is one shard, so the packet was not read on. */
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
	/* XDP: 1 takes EtherType 0x8624 too, without a VLAN; 1 more than its number takes it in that VLAN. 0 does not. */
	__u32 ethernet;
#ifndef NDN_MEMBERS
	/* XDP: UDP destination ports in network order, 0 for none. */
	__u16 ports[PORTS_MAX];
	/* XDP: the interface's own address and that of its group, as words(); 0 takes frames to any. */
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

/* Twice the largest offset, so that a masked offset and whatever is read there stay inside. */
#define ROOM 1024

/* What each packet needs stands together, next to its octets: between two packets the system's code displaces every cache line. */
struct scratch {
	/* Of the link header, as far as it is read. */
	__u64 sequence;
	__u64 frag_index;
	__u64 frag_count;
	/* The type before, as types ascend; the shard that a token of ours names, SHARDS_MAX and more for none. */
	__u32 last;
	__u32 token;
	__u32 has_sequence;
#ifdef NDN_MEMBERS
	/* Where the Sequence's number is in the packet. */
	__u32 sequence_at;
#endif
	/* Where the packet is in its frame, and how many octets may be of it. */
	__u32 packet;
	__u32 len;
	/* Of the loop over the name: where it is, where the component there ends, and whether that is an implicit digest. */
	__u32 at;
	__u32 component_end;
	__u32 in_digest;
	/* The chosen one, for whom a helper needs it in memory. */
	__u32 shard;
	/* XDP: to whom an IP packet goes; IPv4 addresses are mapped. */
	__u64 destination[2];
#ifdef NDN_MEMBERS
	/* Hashes of the name's first n components. */
	__u64 prefixes[2 * COMPONENTS_MAX];
	/* Bit n: the name's n-th component (from 1) is an implicit digest. */
	__u32 digests;
#endif
	__u32 nack;
	/* What the shard is computed from; of a name, or of the number that a packet's fragments share. */
	__u64 hash;
	/* Of the loop over the name: the key's second word. */
	__u64 multiplier;
	/* Where the link packet ends, and where its fragment starts; from the packet's start, as all that follows. */
	__u32 end;
	__u32 fragment;
	/* Where the name's TLV-VALUE starts, where it ends, and where its part that is copied ends. */
	__u32 name;
	__u32 name_end;
	__u32 copied_end;
	/* How many components there were. */
	__u32 components;
	/* Why the shard is chosen when nothing is wrong with the name. */
	__u32 reason;
	/* A number that the verifier shall forget: see opaque(). */
	__u32 forgotten;
	__u8 octets[2 * ROOM];
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
 * Nothing interrupts a program of the receive path for another packet of the same hook on the same processor, so one copy each is
 * enough; were it not so, a packet would go to a wrong shard and be sent on from there.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratch SEC(".maps");

/*
 * The key of all maps of one entry. Not on the stack: without CAP_PERFMON each first store to a place there, and each store over a kept
 * register, is followed by an instruction that stops speculation, which costs more than all else here.
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

/* Read or written in memory, there and then. */
#define again(place) (*(volatile typeof(place) *)&(place))

/*
 * The same number, of which the verifier knows nothing any more, as it does not follow what is in a map. Offsets are masked after this:
 * a program without CAP_PERFMON may add to a pointer only what has the same bounds on every way there, and what is known of an offset
 * would make each round of a loop one of its own.
 */
inlined __u32 opaque(struct scratch *s, __u32 number)
{
	again(s->forgotten) = number;
	return again(s->forgotten);
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

/* Eight octets from `at`, which is opaque; the first in the lowest bits. What lies behind the copied ones is of no packet: see who asks. */
inlined __u64 word(const struct scratch *s, __u32 at)
{
	at &= ROOM - 1;
	barrier_var(at);
	return *(const __u64 *)(s->octets + at);
}

/* The same, where it is known how far `at` may be: two words, the second for whom the first is not enough. */
inlined const __u64 *words(const struct scratch *s, __u64 at)
{
	at &= ROOM - 1;
	barrier_var(at);
	return (const __u64 *)(s->octets + at);
}

/*
 * `for` without a way back: the compiler lays the rounds one behind the other. Without CAP_PERFMON the verifier finds no end in a loop, as
 * on ways of mere speculation it forgets the counter.
 */
#define rounds(i, n) _Pragma("clang loop unroll(full)") for (__u32 i = 0; i < (n); i++)

struct head {
	__u32 type;
	__u32 len;
	/* Octets of both numbers; 0 when one is longer than three octets or not minimal. Such a length is beyond any packet. */
	__u32 size;
};

/* The rare ones: type | len << 16 | size << 32. */
__attribute__((noinline)) __u64 read_long_head(__u64 octets)
{
	__u64 type = octets & 0xff, len, size = 2;

	octets >>= 8;
	if (type >= 253) {
		if (type > 253)
			return 0;
		type = be16((__u16)octets);
		if (type < 253)
			return 0;
		octets >>= 16;
		size = 4;
	}
	len = octets & 0xff;
	if (len >= 253) {
		if (len > 253)
			return 0;
		len = be16((__u16)(octets >> 8));
		if (len < 253)
			return 0;
		size += 2;
	}
	return type | len << 16 | size << 32;
}

/* Type and length from eight octets. */
inlined struct head read_head(__u64 octets)
{
	struct head head = { .type = octets & 0xff, .len = octets >> 8 & 0xff, .size = 2 };

	if (unlikely(head.type >= 253 || head.len >= 253)) {
		__u64 both = read_long_head(octets);

		head.type = both & 0xffff;
		head.len = both >> 16 & 0xffff;
		head.size = both >> 32;
	}
	return head;
}

/* A NonNegativeInteger of `len` octets at `at`; false when no number has so many. */
inlined int read_integer(struct scratch *s, __u32 at, __u32 len, __u64 *value)
{
	__u64 octets = be64(word(s, opaque(s, at)));

	if (len != 1 && len != 2 && len != 4 && len != 8)
		return 0;
	*value = octets >> (64 - 8 * len & 63);
	return 1;
}

/* The lower half of a word, in one instruction: clang 14 takes two shifts, each of which the next product would wait for. */
inlined __u64 low(__u64 value)
{
	__u32 half;

	asm("%0 = %1" : "=w"(half) : "w"((__u32)value));
	return half;
}

/* The two halves of the 128-bit product, one xor the other: the high one from four products of 32 bits, as no instruction gives it. */
inlined __u64 fold(__u64 a, __u64 b)
{
	__u64 a0 = low(a), a1 = a >> 32, b0 = low(b), b1 = b >> 32;
	/* Neither sum overflows: (2^32-1)^2 + 2^32-1 < 2^64. */
	__u64 middle = a0 * b1 + (a0 * b0 >> 32);
	__u64 other = a1 * b0 + low(middle);

	return (a1 * b1 + (middle >> 32) + (other >> 32)) ^ a * b;
}

/* What to keep of two words to have the first n octets of sixteen; at n - 1, with none for n = 0. */
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

/* Whether a head at `at` may lie beyond the octets that were copied. */
inlined int beyond_head(const struct scratch *s, __u32 at)
{
	return at + STEP_OCTETS > HEAD_OCTETS && s->end > HEAD_OCTETS;
}

/*
 * Takes in the field of a link header at `at`: where the next one starts, or 0 when the reading ends there; `*s` then has the fragment's
 * place and NAME_FOUND, or why the shard is chosen.
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
	/* Ack repeats, but ends the reading. */
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
 * Finds what the choice depends on in the first octets of a packet of `len`, of which HEAD_OCTETS at most are in the scratch. Returns the
 * reason when it is decided (and the token or hash in the scratch), else NAME_FOUND with the name's place there.
 */
inlined __u32 locate(struct scratch *s, __u32 len)
{
	struct config *c = the_config();
	__u32 at, end, type;
	struct head head;

	if (!c || !c->shards || c->shards > SHARDS_MAX)
		return REASON_FAILED;
	type = s->octets[0];
	if (type != 5 && type != 6 && type != 100)
		return REASON_NOT_NDN;
	head = read_head(*(const __u64 *)s->octets);
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
		rounds(i, FIELDS_MAX) {
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
		/* The shards are looked up before the head is read, which may take a call. */
		end = c->shards;
		if (s->token >= end)
			s->token = SHARDS_MAX;
		at = opaque(s, at);
		head = read_head(word(s, at));
		type = head.type;
		if (!head.size || (type != 5 && (type != 6 || again(s->nack))))
			return REASON_MALFORMED;
		at += head.size;
		end = at + head.len;
		if (end > again(s->end))
			return REASON_MALFORMED;
		if ((again(s->nack) || type == 6) && again(s->token) < SHARDS_MAX)
			return REASON_TOKEN;
	}

	s->reason = again(s->nack) ? REASON_NACK : type == 6 ? REASON_DATA : REASON_INTEREST;
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
	s->copied_end = at + (head.len > NAME_OCTETS_MAX ? NAME_OCTETS_MAX : head.len);
	return NAME_FOUND;
}

/* The component at `at`, whatever it is: its end | its type << 32, or a reason << 32. */
__attribute__((noinline)) __u64 read_component(__u32 at, __u32 components)
{
	struct scratch *s = the_scratch();
	struct head head;
	__u32 end;

	if (!s)
		return (__u64)REASON_FAILED << 32;
	/* What fits decides then: names that begin alike stay together, and others spread. */
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

/* Keeps what the components so far hash to. */
inlined void keep_prefix(struct scratch *s, __u64 state)
{
#ifdef NDN_MEMBERS
	__u32 components = again(s->components) & (2 * COMPONENTS_MAX - 1);

	barrier_var(components);
	s->prefixes[components] = state;
#else
	(void)s, (void)state;
#endif
}

/* The type of the component that begins. */
inlined void note_digest(struct scratch *s, __u32 type)
{
#ifdef NDN_MEMBERS
	s->digests |= (type == 1) << (again(s->components) + 1 & 31);
#else
	(void)s, (void)type;
#endif
}

/* Added to a component's first two octets, a type and a length: a type from 8 on becomes the rest over 8, and carries one into the length. */
#define SHORT_ADDED (0x100 - 8)
/* All bits that the sum may have: of a type to 71, of a length (and one) to 14. */
#define SHORT_BITS 0xf3f

/*
 * Names of short components of usual types alone, as nearly all are: each type is 8 to 71 (neither a digest nor a long number), no component
 * with its head is longer than 16 octets, all were copied. Each component is one step then. Whether one was another is asked once, at the end:
 * until then what is read may be nothing, but lies in the scratch. Returns 0 when the name is another one.
 */
inlined int hash_short(struct scratch *s, const struct config *c)
{
	__u64 state, at, sums = 0;

	state = c->key[0];
	s->multiplier = c->key[1];
	at = s->name;
	if (s->name_end != s->copied_end)
		return 0;
	rounds(i, COMPONENTS_MAX + 1) {
		const __u64 *octets, *mask;
		__u64 first, sum, len;

#ifdef NDN_MEMBERS
		s->prefixes[i] = state;
#endif
		if (at == again(s->name_end)) {
			s->hash = state;
			s->components = i;
#ifdef NDN_MEMBERS
			s->digests = 0;
#endif
			return !(sums & ~(__u64)SHORT_BITS);
		}
		if (i == COMPONENTS_MAX)
			return 0;
		octets = words(s, at);
		first = octets[0];
		sum = (first & 0xffff) + SHORT_ADDED;
		sums |= sum;
		/* With its head, less one. */
		len = sum >> 8;
		mask = MASKS[len & 31];
		state = fold((first & mask[0]) ^ state, (octets[1] & mask[1]) ^ s->multiplier);
		at += len + 1;
	}
	return 0;
}

/*
 * Hashes the name in the scratch as crates/name/src/hash.rs does, implicit digests at its end left out. One loop for components and for
 * the words in them: each step begins a component or goes on in one, and takes 16 octets of it.
 *
 * Without CAP_PERFMON the verifier follows each branch both ways and joins two ways only where it knows the very same of every variable.
 * So there are few branches, and what one round leaves to the next is in memory, but for the hash. What a round needs is read anew behind
 * the call, as there are four registers that outlive one, and a variable more would go to the stack (see ONLY).
 */
__attribute__((noinline)) __u32 hash_name(void)
{
	struct scratch *s = the_scratch();
	struct config *c = the_config();
	__u64 state;

	if (!s || !c)
		return REASON_FAILED;
#ifndef NDN_MEMBERS
	/* Who chooses members has tried that. */
	if (likely(hash_short(s, c)))
		return s->reason;
	/* Read anew, so that nothing is kept over the short way. */
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
	rounds(i, COMPONENTS_MAX + NAME_OCTETS_MAX / 16 + 1) {
		__u32 at = again(s->at), component_end = again(s->component_end), taken;
		const __u64 *mask;
		__u64 a, b;

		barrier_var(s);
		if (at >= component_end) {
			__u32 octets = word(s, at), type = octets & 0xff, len = octets >> 8 & 0xff;

			keep_prefix(s, state);
			if (at >= again(s->name_end))
				break;
			component_end = at + 2 + len;
			/* Nearly all components are short, are no digests, and were copied: no difference is negative. */
			if (likely((__s32)((type - 3) | (252 - type) | (252 - len) |
					   (again(s->copied_end) - component_end) |
					   (COMPONENTS_MAX - 1 - again(s->components))) >= 0)) {
				again(s->in_digest) = 0;
			} else {
				__u64 read = read_component(at, again(s->components));

				component_end = read & 0xffffffff;
				type = read >> 32;
				if (!component_end) {
					s->reason = type;
					break;
				}
				if (type == 1 && !again(s->in_digest))
					again(s->hash) = state;
				note_digest(s, type);
				again(s->in_digest) = type == 1;
			}
			again(s->components) += 1;
			again(s->component_end) = component_end;
		}
		taken = component_end - at;
		if (taken > 16)
			taken = 16;
		again(s->at) = at + taken;
		at = opaque(s, at);
		a = word(s, at);
		b = word(s, at + 8);
		mask = MASKS[opaque(s, taken - 1) & 31];
		a &= mask[0];
		b &= mask[1];
		state = fold(a ^ state, b ^ again(s->multiplier));
	}
	if (!again(s->in_digest))
		s->hash = state;
	return s->reason;
}

#ifndef NDN_MEMBERS
/* What is returned: the shard | the reason << 8. */
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
 * The shard of the packet of `len` octets at `offset`, with the reason above it: shard | reason << 8. Inlined, because only the program
 * itself may load from its packet; it keeps little over a call, as what it keeps may go to the stack (see ONLY).
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
	more = len > HEAD_OCTETS ? HEAD_OCTETS : len;
	barrier_var(more);
	if (more == 0 || more > HEAD_OCTETS || ndn_load(ctx, offset, s->octets, more))
		return REASON_FAILED << 8;
	reason = locate(s, again(s->len));
	if (reason == NAME_FOUND) {
		more = again(s->copied_end);
		if (more > HEAD_OCTETS) {
			more -= HEAD_OCTETS;
			barrier_var(more);
			if (more == 0 || more > ROOM - HEAD_OCTETS ||
			    ndn_load(ctx, again(s->packet) + HEAD_OCTETS, s->octets + HEAD_OCTETS, more))
				return REASON_FAILED << 8;
		}
		reason = hash_name();
	}
	return outcome(reason);
}
#endif

#endif
