/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * Who serves a name: rules, slots, members. The twin of crates/slot-table; and what a packet of a member's is.
 */
#ifndef NW_BALANCE_H
#define NW_BALANCE_H

#include "balancer.h"

/*
 * The longest rule that holds for the name in the scratch: depth | control << 16 | 1 << 24, or 0 for none. A boundary behind an implicit
 * digest counts for nothing.
 */
__attribute__((noinline)) __u32 find_rule(void)
{
	struct scratch *s = the_scratch();
	struct ruling *ruling = the_ruling();
	__u32 candidates;

	if (!s || !ruling)
		return 0;
	candidates = ruling->lengths & ~s->digests & ((2u << (s->components & 31)) - 1);
	rounds(i, COMPONENTS_MAX + 1) {
		if (again(candidates) >> (COMPONENTS_MAX - i) & 1) {
			struct rule *rule = bpf_map_lookup_elem(&rules, &s->prefixes[COMPONENTS_MAX - i]);

			if (rule && rule->length == COMPONENTS_MAX - i)
				return rule->depth | (__u32)rule->control << 16 | 1 << 24;
		}
	}
	return 0;
}

inlined struct asking *the_asking(void)
{
	return bpf_map_lookup_elem(&asking, (const void *)&ONLY);
}

/* CanBePrefix, which has no value, is the first element behind a name. */
inlined int is_can_be_prefix(const struct work *w)
{
	return w->behind_name == 0x21;
}

/*
 * Notes who sends the Interest whose name was hashed. A peer of one port sends its answer to the cluster's port, where a Data's name
 * decides; a longer one would meet another member.
 */
__attribute__((noinline)) __u32 note_asked(struct work *w)
{
	struct scratch *s = the_scratch();
	struct asking *asking = the_asking();
	struct asked entry;
	__u64 hash;
	__u32 length;

	if (!s || !w || !asking)
		return 0;
	length = opaque(s, again(s->components)) & (2 * COMPONENTS_MAX - 1);
	barrier_var(length);
	hash = s->prefixes[length];
	entry.until_ns = bpf_ktime_get_ns() + ASKED_NS;
	entry.member = w->member;
	entry.length = length;
	bpf_map_update_elem(&asked, &hash, &entry, 0);
	asking = the_asking();
	if (asking && !(again(asking->lengths) >> (length & 31) & 1))
		__sync_fetch_and_or(&asking->lengths, 1u << (length & 31));
	return 0;
}

/* Who waits for the Data whose name is in the scratch, by a prefix of it; 0 for nobody. Who is found has waited. */
__attribute__((noinline)) __u32 find_asked(void)
{
	struct scratch *s = the_scratch();
	struct asking *asking = the_asking();
	__u32 candidates, member;
	__u64 until_ns;

	if (!s || !asking)
		return 0;
	candidates = asking->lengths & ((2u << (s->components & 31)) - 1);
	rounds(i, COMPONENTS_MAX + 1) {
		if (again(candidates) >> (COMPONENTS_MAX - i) & 1) {
			struct asked *entry = bpf_map_lookup_elem(&asked, &s->prefixes[COMPONENTS_MAX - i]);

			if (entry && entry->length == COMPONENTS_MAX - i) {
				member = entry->member;
				until_ns = entry->until_ns;
				bpf_map_delete_elem(&asked, &s->prefixes[COMPONENTS_MAX - i]);
				if (bpf_ktime_get_ns() < until_ns)
					return member;
			}
		}
	}
	return 0;
}

/* The member that a hash leads to, 0 for none. */
inlined __u32 member_of_hash(struct work *w, __u64 hash)
{
	__u32 slot = (hash ^ hash >> 32) * SLOT_MULTIPLIER >> (64 - SLOT_BITS);
	__u32 index = slot / LINE_OCTETS;
	struct line *line = bpf_map_lookup_elem(&slots, &index);

	if (!line)
		return 0;
	slot = unknown(w, slot) & (LINE_OCTETS - 1);
	barrier_var(slot);
	return line->members[slot];
}

/* What `reason`, which locate() or hash_name() gave, says against a packet; FAILED + 1 for nothing. */
inlined __u32 refusal(__u32 reason)
{
	switch (reason) {
	case REASON_RELIABILITY:
		return RELIABILITY;
	case REASON_IDLE:
		return IDLE;
	case REASON_HEADER_LIMIT:
		return HEADER_LIMIT;
	case REASON_MALFORMED:
		return MALFORMED;
	case REASON_NOT_NDN:
		return NOT_NDN;
	case REASON_FAILED:
		return FAILED;
	}
	return FAILED + 1;
}

/* To the member that the hash leads to. */
inlined __u32 serve(struct work *w, __u64 hash)
{
	w->member = member_of_hash(w, hash);
	return w->member ? TO_PORT : done(w, NO_MEMBER);
}

/* To the cluster's port, whatever it is. */
__attribute__((noinline)) __u32 choose_any(struct work *w, __u32 reason)
{
	struct scratch *s = the_scratch();
	struct ruling *ruling;
	__u32 refused = refusal(reason), rule = 0, waits = 0;
	__u64 hash;

	if (!s || !w)
		return DONE;
	if (refused <= FAILED)
		return done(w, refused);
	hash = s->hash;
	if (reason == REASON_FRAGMENT) {
		w->verdict = FRAGMENT;
	} else {
		/* w->kind was noted by look(). */
		w->verdict = w->kind == KIND_INTEREST ? INTEREST : w->kind == KIND_DATA ? DATA : NACK;
		if (unlikely(w->kind == KIND_DATA))
			waits = find_asked();
		ruling = the_ruling();
		if (ruling && unlikely(ruling->lengths))
			rule = find_rule();
	}
	s = the_scratch();
	ruling = the_ruling();
	if (!s || !ruling)
		return DONE;
	if (waits) {
		w->member = waits;
	} else if (rule >> 16 & 1) {
		w->verdict = CONTROL;
		w->member = ruling->control;
	} else {
		__u32 depth = rule & 31;

		if (rule && depth <= s->components && !(s->digests >> depth & 1)) {
			depth = opaque(s, depth) & (2 * COMPONENTS_MAX - 1);
			barrier_var(depth);
			hash = s->prefixes[depth];
		}
		return serve(w, hash);
	}
	return w->member ? TO_PORT : done(w, NO_MEMBER);
}

/*
 * To the cluster's port: who serves it. `reason` is what hash_name() gave, or locate() when there was no name to find. Nearly all are Interests
 * of a cluster without rules, of which the hash alone decides.
 */
inlined __u32 choose(struct work *w, struct scratch *s, __u32 reason)
{
	struct ruling *ruling = the_ruling();

	if (likely(ruling && reason == REASON_INTEREST && !ruling->lengths)) {
		w->verdict = INTEREST;
		return serve(w, s->hash);
	}
	return choose_any(w, reason);
}

/* What was found is in octets that came: of an IPv4 fragment, not all of the packet did. */
inlined int is_present(struct work *w, struct scratch *s, __u32 reason)
{
	return reason == REASON_FRAGMENT ? s->fragment < w->present :
	       reason == NAME_FOUND	 ? s->copied_end <= w->present :
					   1;
}

/*
 * The kind of a link packet in a fragment's place: a packet that is cut counts once, by its first fragment, as the routers at both ends
 * count it. Later fragments are a kind of their own.
 */
inlined __u32 fragment_kind(struct scratch *s)
{
	__u32 at = opaque(s, s->fragment) & (ROOM - 1);

	barrier_var(at);
	if (s->frag_index)
		return KIND_FRAGMENT;
	if (s->nack)
		return KIND_NACK;
	return s->octets[at] == 5 ? KIND_INTEREST : s->octets[at] == 6 ? KIND_DATA : KIND_FRAGMENT;
}

/* Notes what kind of packet locate() found, and gives its reason on. */
inlined __u32 note_kind(struct work *w, struct scratch *s, __u32 reason)
{
	if (!is_present(w, s, reason))
		return REASON_MALFORMED;
	if (reason == REASON_FRAGMENT)
		w->kind = fragment_kind(s);
	else if (reason == NAME_FOUND)
		w->kind = s->reason == REASON_INTEREST ? KIND_INTEREST :
			  s->reason == REASON_DATA     ? KIND_DATA :
							 KIND_NACK;
	return reason;
}

/* Notes what a packet without a link header is, by its first octet. */
inlined __u32 note_bare(struct work *w)
{
	if (w->first_octet != 5 && w->first_octet != 6)
		return REASON_NOT_NDN;
	w->kind = w->first_octet == 5 ? KIND_INTEREST : KIND_DATA;
	return NAME_FOUND;
}

/*
 * Whether a fragment of a member's is of an Interest: the first one shows it, the others follow the first. Interests are rarely longer
 * than a link takes.
 */
inlined int is_of_interest(struct work *w, struct scratch *s)
{
	struct interest_fragment key = { .first_sequence = s->sequence - s->frag_index, .member = w->member };
	__u32 member = w->member;

	if (!s->frag_index) {
		__u32 at = opaque(s, s->fragment) & (ROOM - 1);

		barrier_var(at);
		if (s->nack || s->octets[at] != 5)
			return 0;
		bpf_map_update_elem(&fragments, &key, &member, 0);
		return 1;
	}
	return bpf_map_lookup_elem(&fragments, &key) != 0;
}

/* A link packet of a member's, to the outside: `reason` is locate()'s. Whether it leaves as an Interest does is noted. */
__attribute__((noinline)) __u32 judge(struct work *w, __u32 reason)
{
	struct scratch *s = the_scratch();
	__u32 refused = refusal(reason);

	if (!s || !w)
		return DONE;
	if (refused <= FAILED)
		return done(w, refused);
	w->as_interest = w->kind == KIND_INTEREST;
	if (reason == REASON_FRAGMENT)
		w->as_interest = is_of_interest(w, s);
	/*
	 * Members number their link packets alike, and to a peer all are one sender: the member's number sets them apart.
	 */
	if (w->first_octet == 100 && s->has_sequence) {
		w->tag_at = w->packet + s->sequence_at;
		w->tag = w->member;
	}
	return OUT;
}

#endif
