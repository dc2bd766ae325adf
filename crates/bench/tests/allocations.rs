//! No allocation on the path of a packet: in the steady state, the forwarding plane allocates no
//! memory. Exceptions, which these packets do not touch: prefix announcements, decision traces, and
//! queues of faces that are full.

use nw_bench::forward::{Link, Options, steady_state};

const NAMES: usize = 20_000;

#[test]
fn forwarding_in_steady_state_allocates_nothing() {
    for link in [Link::TokensInMetadata, Link::NoTokens, Link::Headers] {
        for content_len in [1, 1000] {
            let options = Options {
                prefixes: 2_000,
                pending: NAMES as u64 / 2,
                link,
                content_len,
                shuffled: true,
                ..Options::default()
            };
            let mut forward = steady_state(options);
            // Buffers grow to their final size.
            forward(2 * NAMES);
            let allocations = allocation_counter::measure(|| forward(2 * NAMES));
            assert_eq!(allocations.count_total, 0, "{link:?}, {content_len} bytes of content");
        }
    }
}

#[test]
fn the_counter_counts() {
    let allocations = allocation_counter::measure(|| drop(std::hint::black_box(vec![0_u8; 100])));
    assert_eq!(allocations.count_total, 1);
}
