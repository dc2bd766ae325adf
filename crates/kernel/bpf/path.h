/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * The path of a frame through a program, from its first byte to where it is sent. Included once for
 * XDP and once for traffic control, which differ in how a packet is read and written. The including
 * file defines
 *
 *   PATH(name)                        the name of a function here
 *   context                           the type of the program's argument
 *   path_load(ctx, offset, to, len)   copies from the frame; 0 on success
 *   path_tag(ctx, record)             records the tag that the system has removed from the frame
 *   path_head(ctx, w, s, len)         copies a packet's first bytes, HEAD_BYTES at most, to the
 *                                     scratch; 0 on success
 *
 * and has PATH(write) of write.h.
 */

/* Loads and parses what the choice depends on. */
__attribute__((noinline)) __u32 PATH(inspect)(context *ctx, struct work *w)
{
	struct scratch *s = the_scratch();
	__u32 more;

	if (!s || !w)
		return REASON_FAILED;
	more = w->present > HEAD_BYTES ? HEAD_BYTES : w->present;
	barrier_var(more);
	if (more == 0 || more > HEAD_BYTES || path_head(ctx, w, s, more))
		return REASON_FAILED;
	return set_kind(w, s, locate(s, ACCESS_ONCE(w->packet_len)));
}

/* Hashes the name that was found: most names here, without a call. */
inlined __u32 PATH(hash)(context *ctx, struct work *w, struct scratch *s)
{
	struct config *c;
	__u32 more;

	more = ACCESS_ONCE(s->copied_end);
	if (more > HEAD_BYTES) {
		more -= HEAD_BYTES;
		barrier_var(more);
		if (more == 0 || more > SCRATCH_LEN - HEAD_BYTES ||
		    path_load(ctx, w->packet + HEAD_BYTES, s->bytes + HEAD_BYTES, more))
			return REASON_FAILED;
	}
	c = the_config();
	if (likely(c && hash_name_fast(s, c)))
		return s->reason;
	return hash_name_slow();
}

/* A member's Interest to a one-port peer: with CanBePrefix, its member is recorded. */
__attribute__((noinline)) __u32 PATH(record_interest)(context *ctx, struct work *w)
{
	struct scratch *s = the_scratch();

	if (!w || !s || PATH(inspect)(ctx, w) != NAME_FOUND)
		return 0;
	if (s->name_end + 2 > w->present || path_load(ctx, w->packet + s->name_end, &w->after_name, 2))
		return 0;
	if (is_can_be_prefix(w) && PATH(hash)(ctx, w, s) == REASON_INTEREST)
		record_pending(w);
	return 0;
}

/* Rewrites a member's packet, and looks up its route. */
__attribute__((noinline)) __u32 PATH(out)(context *ctx, struct work *w)
{
	__u32 step;

	if (!w)
		return DONE;
	step = rewrite_outgoing(w);
	if (w->tag_at) {
		if (path_load(ctx, w->tag_at, &w->sequence_byte, 1))
			return done(w, FAILED);
		tag_sequence(w);
	}
	if (step != OUT)
		return step;
	return apply_fib_result(w, bpf_fib_lookup(ctx, &w->fib, sizeof(w->fib), 0));
}

/*
 * Copies the frame to the balancer's process, which injects it again when the first fragment has
 * arrived.
 */
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

/* Decides on the frame in `w`, and returns the last step. */
__attribute__((noinline)) __u32 PATH(decide)(context *ctx, struct work *w)
{
	struct scratch *s = the_scratch();
	__u32 step, reason;

	if (!w || !s)
		return DONE;
	step = classify_frame(w);
	if (step == DONE)
		return DONE;
	if (unlikely(step == HOLD))
		return PATH(hold)(ctx, w);
	if (step == BY_NAME) {
		reason = PATH(inspect)(ctx, w);
		if (reason == NAME_FOUND)
			reason = PATH(hash)(ctx, w, s);
		step = choose_member(w, s, reason);
	} else if (w->fragmented == 2) {
		if (step == TO_PORT)
			w->verdict = IP_FRAGMENT;
	} else {
		if (w->first_byte == 100)
			reason = PATH(inspect)(ctx, w);
		else
			reason = set_bare_kind(w);
		if (step == OUT)
			step = check_outgoing(w, reason);
		else
			w->verdict = TO_MEMBER;
	}
	if (step == TO_PORT)
		return to_member(w);
	if (step != OUT)
		return DONE;
	step = PATH(out)(ctx, w);
	if (unlikely(w->to_one_port) && !w->fragmented)
		PATH(record_interest)(ctx, w);
	return step;
}

/* Decides, writes and counts; returns the last step. */
inlined __u32 PATH(balance)(context *ctx, struct work *w)
{
	__u32 step = PATH(decide)(ctx, w);

	if (step != DONE && PATH(write)(ctx, w, step))
		step = fail(w);
	count(w, step);
	return step;
}
