/* Counts publications for tests/pubsub/test_c.py: count SOCKET PATTERN [messages]
 *                                              count SOCKET NAME publish
 *
 * Subscribes, waits for a line of standard input, then reads until nothing arrives for 300 ms;
 * again for each line. Prints per line: publications, losses, and the last payload's length.
 *
 * With publish: announces an item, waits for a line, then publishes 200 times 20,000 bytes and
 * waits for readers up to 15 s each time. Prints the milliseconds that took, and the wake-ups. */
#include "namewire_pubsub.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int publish(const char *path, const char *name) {
    static char payload[20000];
    struct nw_options options = {.program = "count", .wait_ms = 15000};
    nw_publisher *publisher = nw_publisher_open(path, &options);
    int64_t item = publisher ? nw_announce(publisher, name, false) : -1;
    if (item < 0 || getchar() == EOF) {
        fprintf(stderr, "%s\n", nw_error_text());
        nw_publisher_close(publisher);
        return 1;
    }
    long started = now_ms();
    int64_t outcome = 0;
    for (int count = 0; count < 200 && outcome >= 0; count++)
        outcome = nw_publish(publisher, (uint32_t)item, payload, sizeof payload);
    long elapsed = now_ms() - started;
    nw_drain(publisher, 15000);
    printf("published %ld %lu\n", elapsed, (unsigned long)nw_wakeups(publisher));
    nw_publisher_close(publisher);
    return outcome < 0;
}

int main(int argc, char **argv) {
    if (argc > 3 && strcmp(argv[3], "publish") == 0) return publish(argv[1], argv[2]);
    struct nw_options options = {.program = "count", .without_shared_memory = argc > 3};
    nw_subscriber *subscriber = nw_subscriber_open(argv[1], &options);
    if (!subscriber || nw_subscribe(subscriber, argv[2], false) < 0) {
        fprintf(stderr, "%s\n", nw_error_text());
        nw_subscriber_close(subscriber);
        return 1;
    }
    printf("subscribed\n");
    fflush(stdout);
    int found = NW_NOTHING;
    while (found >= 0 && getchar() != EOF) {
        struct nw_received received = {0};
        size_t last_bytes = 0;
        while ((found = nw_receive(subscriber, &received, 300)) > 0)
            if (found == NW_PUBLICATION) last_bytes = received.payload_bytes;
        struct nw_counts counts = nw_counts(subscriber);
        printf("%lu %lu %zu\n", counts.delivered, counts.lost, last_bytes);
        fflush(stdout);
    }
    if (found < 0) fprintf(stderr, "%s\n", nw_error_text());
    nw_subscriber_close(subscriber);
    return found < 0;
}
