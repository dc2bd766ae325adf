/* Prints publications and losses: subscribe SOCKET PATTERN COUNT [messages] */
#include "namewire_pubsub.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    if (argc < 4) return fprintf(stderr, "usage: subscribe SOCKET PATTERN COUNT [messages]\n"), 2;
    struct nw_options options = {.program = "subscribe", .without_shared_memory = argc > 4};
    nw_subscriber *subscriber = nw_subscriber_open(argv[1], &options);
    int64_t outcome = subscriber ? nw_subscribe(subscriber, argv[2], true) : NW_NO_NODE;
    unsigned long left = strtoul(argv[3], NULL, 10);
    if (outcome > 0) fprintf(stderr, "subscribed\n");
    while (outcome > 0 && left > 0) {
        struct nw_received received;
        outcome = nw_receive(subscriber, &received, 20000);
        if (outcome == NW_NOTHING) fprintf(stderr, "nothing arrived for 20 s\n");
        if (outcome > 0 && received.lost) printf("%s: %lu lost\n", received.name, received.lost);
        if (outcome != NW_PUBLICATION) continue;
        printf("%s %lu ", received.name, received.sequence);
        fwrite(received.payload, 1, received.payload_bytes, stdout);
        putchar('\n');
        left -= 1;
    }
    if (outcome < 0) fprintf(stderr, "%s\n", nw_error_text());
    nw_subscriber_close(subscriber);
    return outcome <= 0;
}
