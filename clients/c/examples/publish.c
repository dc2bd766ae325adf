/* Publishes values: publish SOCKET NAME VALUE... Waits for a subscriber first, at most 20 s. The
 * value - is all of standard input, at most 16 MiB. */
#include "namewire_pubsub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { INPUT_BYTES_MAX = 16 << 20 };

static int64_t publish(nw_publisher *publisher, uint32_t item, const char *value) {
    if (strcmp(value, "-") != 0) return nw_publish(publisher, item, value, strlen(value));
    char *input = malloc(INPUT_BYTES_MAX);
    if (!input) return NW_NO_MEMORY;
    int64_t outcome = nw_publish(publisher, item, input, fread(input, 1, INPUT_BYTES_MAX, stdin));
    free(input);
    return outcome;
}

int main(int argc, char **argv) {
    if (argc < 4) return fprintf(stderr, "usage: publish SOCKET NAME VALUE...\n"), 2;
    struct nw_options options = {.program = "publish", .wait_ms = 1000};
    nw_publisher *publisher = nw_publisher_open(argv[1], &options);
    int64_t item = publisher ? nw_announce(publisher, argv[2], true) : NW_NO_NODE;
    for (int at = 0; at < 2000 && item >= 0; at++) {
        if (nw_subscriber_count(publisher, (uint32_t)item) != 0) break;
        usleep(10000);
    }
    int64_t outcome = item;
    for (int at = 3; at < argc && outcome >= 0; at++)
        outcome = publish(publisher, (uint32_t)item, argv[at]);
    if (outcome >= 0) outcome = nw_drain(publisher, 5000);
    if (outcome < 0) fprintf(stderr, "%s\n", nw_error_text());
    nw_publisher_close(publisher);
    return outcome < 0;
}
