/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * Which member serves a name: rules, slots, members (the twin of crates/slot-table); and what kind
 * of packet a member sends.
 */
#ifndef NW_BALANCE_H
#define NW_BALANCE_H

#include "balancer.h"

/*
 * The longest rule that matches the name in the scratch: depth | control << 16 | 1 << 24, or 0 for
 * none. A boundary after an implicit digest never matches.
 */
__attribute__((noinline)) __u32 find_rule(void)
{
	struct scratch *s = the_scratch();
	struct rule_state *rule_state = the_rule_state();
	__u32 candidates;

	if (!s || !rule_state)
		return 0;
	candidates = rule_state->lengths & ~s->digests & ((2u << (s->components & 31)) - 1);
	unrolled_for(i, COMPONENTS_MAX + 1) {
		if (ACCESS_ONCE(candidates) >> (COMPONENTS_MAX - i) & 1) {
			struct rule *rule = bpf_map_lookup_elem(&rules, &s->prefixes[COMPONENTS_MAX - i]);

			if (rule && rule->length == COMPONENTS_MAX - i)
				return rule->depth | (__u32)rule->control << 16 | 1 << 24;
		}
	}
	return 0;
}

inlined struct pending_lengths *the_pending_lengths(void)
{
	return bpf_map_lookup_elem(&asking, (const void *)&ONLY);
}

/* CanBePrefix, which has no value, is the first element after a name. */
inlined int is_can_be_prefix(const struct work *w)
{
	return w->after_name == 0x21;
}

/*
 * Records the member that sends the Interest whose name was hashed. A one-port peer sends its Data
 * to the cluster's port, where the Data's name chooses the member; a longer name would choose
 * another one.
 */
__attribute__((noinline)) __u32 record_pending(struct work *w)
{
	struct scratch *s = the_scratch();
	struct pending_lengths *pending = the_pending_lengths();
	struct pending_interest entry;
	__u64 hash;
	__u32 length;

	if (!s || !w || !pending)
		return 0;
	length = opaque(s, ACCESS_ONCE(s->components)) & (2 * COMPONENTS_MAX - 1);
	barrier_var(length);
	hash = s->prefixes[length];
	entry.until_ns = bpf_ktime_get_ns() + PENDING_NS;
	entry.member = w->member;
	entry.length = length;
	bpf_map_update_elem(&asked, &hash, &entry, 0);
	pending = the_pending_lengths();
	if (pending && !(ACCESS_ONCE(pending->lengths) >> (length & 31) & 1))
		__sync_fetch_and_or(&pending->lengths, 1u << (length & 31));
	return 0;
}

/*
 * The member with a recorded Interest for a prefix of the Data name in the scratch; 0 for none. The
 * record is removed.
 */
__attribute__((noinline)) __u32 take_pending(void)
{
	struct scratch *s = the_scratch();
	struct pending_lengths *pending = the_pending_lengths();
	__u32 candidates, member;
	__u64 until_ns;

	if (!s || !pending)
		return 0;
	candidates = pending->lengths & ((2u << (s->components & 31)) - 1);
	unrolled_for(i, COMPONENTS_MAX + 1) {
		if (ACCESS_ONCE(candidates) >> (COMPONENTS_MAX - i) & 1) {
			struct pending_interest *entry = bpf_map_lookup_elem(&asked, &s->prefixes[COMPONENTS_MAX - i]);

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

/* The member of a hash's slot, 0 for none. */
inlined __u32 member_of_hash(struct work *w, __u64 hash)
{
	__u32 slot = (hash ^ hash >> 32) * SLOT_MULTIPLIER >> (64 - SLOT_BITS);
	__u32 index = slot / LINE_BYTES;
	struct line *line = bpf_map_lookup_elem(&slots, &index);

	if (!line)
		return 0;
	slot = opaque_in_work(w, slot) & (LINE_BYTES - 1);
	barrier_var(slot);
	return line->members[slot];
}

/*
 * The verdict that drops a packet for `reason`, which locate() or hash_name_slow() returned; FAILED
 * + 1 if it is not dropped.
 */
inlined __u32 drop_verdict(__u32 reason)
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

/* Sends to the member of the hash's slot. */
inlined __u32 to_slot_member(struct work *w, __u64 hash)
{
	w->member = member_of_hash(w, hash);
	return w->member ? TO_PORT : done(w, NO_MEMBER);
}

/*
 * Chooses the member of a packet to the cluster's port, in all cases that choose_member() does not
 * handle.
 */
__attribute__((noinline)) __u32 choose_slow(struct work *w, __u32 reason)
{
	struct scratch *s = the_scratch();
	struct rule_state *rule_state;
	__u32 drop = drop_verdict(reason), rule = 0, pending = 0;
	__u64 hash;

	if (!s || !w)
		return DONE;
	if (drop <= FAILED)
		return done(w, drop);
	hash = s->hash;
	if (reason == REASON_FRAGMENT) {
		w->verdict = FRAGMENT;
	} else {
		/* w->kind was set by inspect(). */
		w->verdict = w->kind == KIND_INTEREST ? INTEREST : w->kind == KIND_DATA ? DATA : NACK;
		if (unlikely(w->kind == KIND_DATA))
			pending = take_pending();
		rule_state = the_rule_state();
		if (rule_state && unlikely(rule_state->lengths))
			rule = find_rule();
	}
	s = the_scratch();
	rule_state = the_rule_state();
	if (!s || !rule_state)
		return DONE;
	if (pending) {
		w->member = pending;
	} else if (rule >> 16 & 1) {
		w->verdict = CONTROL;
		w->member = rule_state->control;
	} else {
		__u32 depth = rule & 31;

		if (rule && depth <= s->components && !(s->digests >> depth & 1)) {
			depth = opaque(s, depth) & (2 * COMPONENTS_MAX - 1);
			barrier_var(depth);
			hash = s->prefixes[depth];
		}
		return to_slot_member(w, hash);
	}
	return w->member ? TO_PORT : done(w, NO_MEMBER);
}

/*
 * Chooses the member of a packet to the cluster's port. `reason` is that of hash_name_slow(), or of
 * locate() if there is no name. Most packets are Interests in a cluster without rules, where the
 * hash alone decides.
 */
inlined __u32 choose_member(struct work *w, struct scratch *s, __u32 reason)
{
	struct rule_state *rule_state = the_rule_state();

	if (likely(rule_state && reason == REASON_INTEREST && !rule_state->lengths)) {
		w->verdict = INTEREST;
		return to_slot_member(w, s->hash);
	}
	return choose_slow(w, reason);
}

/*
 * Whether all that was found is in bytes that arrived: of an IPv4 fragment, the rest of the packet
 * is elsewhere.
 */
inlined int is_present(struct work *w, struct scratch *s, __u32 reason)
{
	return reason == REASON_FRAGMENT ? s->fragment < w->present :
	       reason == NAME_FOUND	 ? s->copied_end <= w->present :
					   1;
}

/*
 * The kind of a link packet with a fragment: a fragmented packet counts once, by its first
 * fragment, as in the routers at both ends. Later fragments are a kind of their own.
 */
inlined __u32 kind_of_fragment(struct scratch *s)
{
	__u32 at = opaque(s, s->fragment) & (SCRATCH_LEN - 1);

	barrier_var(at);
	if (s->frag_index)
		return KIND_FRAGMENT;
	if (s->nack)
		return KIND_NACK;
	return s->bytes[at] == 5 ? KIND_INTEREST : s->bytes[at] == 6 ? KIND_DATA : KIND_FRAGMENT;
}

/* Records the kind of packet that locate() found, and returns its reason. */
inlined __u32 set_kind(struct work *w, struct scratch *s, __u32 reason)
{
	if (!is_present(w, s, reason))
		return REASON_MALFORMED;
	if (reason == REASON_FRAGMENT)
		w->kind = kind_of_fragment(s);
	else if (reason == NAME_FOUND)
		w->kind = s->reason == REASON_INTEREST ? KIND_INTEREST :
			  s->reason == REASON_DATA     ? KIND_DATA :
							 KIND_NACK;
	return reason;
}

/* Records the kind of a packet without a link header, by its first byte. */
inlined __u32 set_bare_kind(struct work *w)
{
	if (w->first_byte != 5 && w->first_byte != 6)
		return REASON_NOT_NDN;
	w->kind = w->first_byte == 5 ? KIND_INTEREST : KIND_DATA;
	return NAME_FOUND;
}

/*
 * Whether a fragment from a member belongs to an Interest: the first fragment shows it, and is
 * recorded for the others. Few Interests are longer than an MTU.
 */
inlined int is_of_interest(struct work *w, struct scratch *s)
{
	struct interest_fragment key = {
		.first_sequence = s->sequence - s->frag_index,
		.member = w->member,
	};
	__u32 member = w->member;

	if (!s->frag_index) {
		__u32 at = opaque(s, s->fragment) & (SCRATCH_LEN - 1);

		barrier_var(at);
		if (s->nack || s->bytes[at] != 5)
			return 0;
		bpf_map_update_elem(&fragments, &key, &member, 0);
		return 1;
	}
	return bpf_map_lookup_elem(&fragments, &key) != 0;
}

/*
 * Checks a link packet from a member; `reason` is locate()'s. Sets w->as_interest: whether it
 * leaves like an Interest.
 */
__attribute__((noinline)) __u32 check_outgoing(struct work *w, __u32 reason)
{
	struct scratch *s = the_scratch();
	__u32 drop = drop_verdict(reason);

	if (!s || !w)
		return DONE;
	if (drop <= FAILED)
		return done(w, drop);
	w->as_interest = w->kind == KIND_INTEREST;
	if (reason == REASON_FRAGMENT)
		w->as_interest = is_of_interest(w, s);
	/*
	 * Members number their link packets alike, and a peer sees all of them as one sender: the
	 * member's number tells them apart.
	 */
	if (w->first_byte == 100 && s->has_sequence) {
		w->tag_at = w->packet + s->sequence_at;
		w->tag = w->member;
	}
	return OUT;
}

#endif
