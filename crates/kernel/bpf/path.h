/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * A frame's way through a program, from its first octet to where it is sent. Included once for XDP and once for traffic control, which differ
 * in how a packet is read and written; who includes it defines
 *
 *   PATH(name)                                 the name of a function here
 *   context                                    what the program is given
 *   path_load(ctx, offset, to, len)            copies from the frame; 0 when it could
 *   path_tag(ctx, record)                      notes the tag that the system has taken off the frame
 *   path_head(ctx, w, s, len)                  copies a packet's first octets to the scratch, HEAD_OCTETS at most; 0 when it could
 *
 * and has PATH(write) of write.h.
 */

/* Reads what a choice depends on. */
__attribute__((noinline)) __u32 PATH(look)(context *ctx, struct work *w)
{
	struct scratch *s = the_scratch();
	__u32 more;

	if (!s || !w)
		return REASON_FAILED;
	more = w->present > HEAD_OCTETS ? HEAD_OCTETS : w->present;
	barrier_var(more);
	if (more == 0 || more > HEAD_OCTETS || path_head(ctx, w, s, more))
		return REASON_FAILED;
	return note_kind(w, s, locate(s, again(w->packet_len)));
}

/* Hashes the name that was found: nearly all of them here, without a call. */
inlined __u32 PATH(hash)(context *ctx, struct work *w, struct scratch *s)
{
	struct config *c;
	__u32 more;

	more = again(s->copied_end);
	if (more > HEAD_OCTETS) {
		more -= HEAD_OCTETS;
		barrier_var(more);
		if (more == 0 || more > ROOM - HEAD_OCTETS ||
		    path_load(ctx, w->packet + HEAD_OCTETS, s->octets + HEAD_OCTETS, more))
			return REASON_FAILED;
	}
	c = the_config();
	if (likely(c && hash_short(s, c)))
		return s->reason;
	return hash_name();
}

/* A member's Interest to a peer of one port: when longer names answer it too, whose it is has to be known. */
__attribute__((noinline)) __u32 PATH(note_interest)(context *ctx, struct work *w)
{
	struct scratch *s = the_scratch();

	if (!w || !s || PATH(look)(ctx, w) != NAME_FOUND)
		return 0;
	if (s->name_end + 2 > w->present || path_load(ctx, w->packet + s->name_end, &w->behind_name, 2))
		return 0;
	if (is_can_be_prefix(w) && PATH(hash)(ctx, w, s) == REASON_INTEREST)
		note_asked(w);
	return 0;
}

/* A member's packet, to the outside: by the way that the system knows. */
__attribute__((noinline)) __u32 PATH(out)(context *ctx, struct work *w)
{
	__u32 step;

	if (!w)
		return DONE;
	step = leave(w);
	if (w->tag_at) {
		if (path_load(ctx, w->tag_at, &w->octet, 1))
			return done(w, FAILED);
		tag_sequence(w);
	}
	if (step != OUT)
		return step;
	return take_way(w, bpf_fib_lookup(ctx, &w->fib, sizeof(w->fib), 0));
}

/* A copy to the balancer's process, which gives it to the program again when the first fragment has come. */
__attribute__((noinline)) __u32 PATH(hold)(context *ctx, struct work *w)
{
	struct held_fragment *record;
	__u32 len;

	if (!w)
		return DONE;
	len = w->frame_len;
	barrier_var(len);
	if (len == 0 || len > HELD_BYTES)
		return done(w, IP_FRAGMENT_LOST);
	record = bpf_ringbuf_reserve(&held, sizeof(*record), 0);
	if (!record)
		return done(w, IP_FRAGMENT_LOST);
	if (path_load(ctx, 0, record->frame, len)) {
		bpf_ringbuf_discard(record, 0);
		return done(w, FAILED);
	}
	record->at_ns = bpf_ktime_get_ns();
	record->ifindex = w->ifindex;
	record->len = len;
	record->l2 = w->l2;
	record->outwards = w->outwards;
	record->tag = record->tag_type = 0;
	path_tag(ctx, record);
	bpf_ringbuf_submit(record, 0);
	return done(w, IP_FRAGMENT_HELD);
}

/* The step that the frame in the notes ends with. */
__attribute__((noinline)) __u32 PATH(decide)(context *ctx, struct work *w)
{
	struct scratch *s = the_scratch();
	__u32 step, reason;

	if (!w || !s)
		return DONE;
	step = sort_frame(w);
	if (step == DONE)
		return DONE;
	if (unlikely(step == HOLD))
		return PATH(hold)(ctx, w);
	if (step == BY_NAME) {
		reason = PATH(look)(ctx, w);
		if (reason == NAME_FOUND)
			reason = PATH(hash)(ctx, w, s);
		step = choose(w, s, reason);
	} else if (w->fragmented == 2) {
		if (step == TO_PORT)
			w->verdict = IP_FRAGMENT;
	} else {
		if (w->first_octet == 100)
			reason = PATH(look)(ctx, w);
		else
			reason = note_bare(w);
		if (step == OUT)
			step = judge(w, reason);
		else
			w->verdict = TO_MEMBER;
	}
	if (step == TO_PORT)
		return to_member(w);
	if (step != OUT)
		return DONE;
	step = PATH(out)(ctx, w);
	if (unlikely(w->to_one_port) && !w->fragmented)
		PATH(note_interest)(ctx, w);
	return step;
}

/* Decides, writes and counts: the step that is left to do. */
inlined __u32 PATH(balance)(context *ctx, struct work *w)
{
	__u32 step = PATH(decide)(ctx, w);

	if (step != DONE && PATH(write)(ctx, w, step))
		step = fail(w);
	count(w, step);
	return step;
}
