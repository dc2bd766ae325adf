/* History, scopes and derived names of the C library, for tests/pubsub/test_c.py:
 * scopes SOCKET [messages]
 *
 * Prints what subscribers receive, then the codes of refusals. Ends with 1 at the first failure. */
#include "namewire_pubsub.h"

#include <stdio.h>
#include <string.h>

static int failures;

static int64_t check(int64_t outcome, const char *call) {
    if (outcome < 0) {
        fprintf(stderr, "%s: %s\n", call, nw_error_text());
        failures += 1;
    }
    return outcome;
}
#define CHECK(call) check(call, #call)

static void refused(int64_t outcome) {
    printf("refused %d\n", outcome == NW_REFUSED ? nw_refusal_code() : (int)outcome);
}

/* Prints the next `count` publications, or the one that should not arrive for 0. */
static void print(nw_subscriber *subscriber, int count) {
    struct nw_received received;
    int found, wait_ms = count ? 10000 : 100;
    for (int at = 0; at < (count ? count : 1); at++) {
        if (CHECK(found = nw_receive(subscriber, &received, wait_ms)) <= 0) break;
        printf("%s %s %lu %.*s\n", received.is_last_value ? "late" : "live", received.name,
               received.sequence, (int)received.payload_bytes, (const char *)received.payload);
    }
    struct nw_counts counts = nw_counts(subscriber);
    printf("delivered %lu, lost %lu\n", counts.delivered, counts.lost);
}

int main(int argc, char **argv) {
    struct nw_options options = {.program = "scopes", .without_shared_memory = argc > 2};
    nw_publisher *publisher = nw_publisher_open(argv[1], &options);
    nw_subscriber *late = nw_subscriber_open(argv[1], &options);
    nw_subscriber *further = nw_subscriber_open(argv[1], &options);
    if (!publisher || !late || !further) return fprintf(stderr, "%s\n", nw_error_text()), 1;

    CHECK(nw_publish_scope(publisher, "/c/scope", NW_NODE));
    uint32_t item = (uint32_t)CHECK(nw_announce(publisher, "/c/scope/item", true));
    for (int number = 1; number <= 9; number++) {
        char payload[8];
        int bytes = snprintf(payload, sizeof payload, "v%d", number);
        CHECK(nw_publish(publisher, item, payload, (size_t)bytes));
    }
    int64_t number = CHECK(nw_subscribe_from(late, "/c/scope/*", 4));
    print(late, 4);
    CHECK(nw_publish(publisher, item, "v10", 3));
    print(late, 1);
    CHECK(nw_unsubscribe(late, (uint32_t)number));
    CHECK(nw_subscribe_from(late, "/c/scope/item", 1000));
    print(late, 10);

    CHECK(nw_subscribe_here(further, "/further/**", 1));
    CHECK(nw_add_parent(publisher, "/c/scope", "/further"));
    print(further, 1);
    CHECK(nw_remove_parent(publisher, "/c/scope", "/further"));
    print(further, 0);
    CHECK(nw_publish(publisher, item, "v11", 3));
    print(further, 0);
    refused(nw_remove_parent(publisher, "/c/scope", "/further"));
    refused(nw_add_parent(publisher, "/c/scope", "/c/scope/below"));
    refused(nw_announce_with(publisher, "/c/scope/other", true, NW_DOMAIN));
    refused(nw_set_route_like(publisher, item, "/main"));
    refused(nw_set_route_path(publisher, item, (const uint8_t[34]){0}));
    CHECK(nw_withdraw_scope(publisher, "/c/scope"));

    char derived[NW_NAME_BYTES];
    CHECK(nw_derived_name(derived, "/a/b", 1));
    printf("%s\n", derived);
    CHECK(nw_derived_name(derived, "/8=00000000000000ff/a/b/c/d/e/f/g", 1ul << 40));
    printf("%s\n", derived);
    refused(nw_derived_name(derived, "/8=12", 1));
    refused(nw_derived_name(derived, "//a", 1));
    refused(nw_derived_name(derived, "a", 1));

    nw_publisher_close(publisher);
    nw_subscriber_close(late);
    nw_subscriber_close(further);
    return failures > 0;
}
