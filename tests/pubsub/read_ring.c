/* Reads a ring for tests/pubsub/test_ring.py: read_ring DESCRIPTOR RING_BYTES ITEMS
 *
 * Lines of standard input, each answered by one of standard output:
 *   follow ITEM POSITION AFTER
 *   read              reads all: "ITEM SEQUENCE BYTES LOST" of each publication, with SEQUENCE 0
 *                     for a loss, separated by commas
 *   end ITEM LAST     reads all up to LAST: the same, and then the accounted number */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_all(struct ring_reader *reader) {
    for (;;) {
        struct read_event event = reader_read(reader);
        if (event.kind == READ_EMPTY) return;
        if (event.kind == READ_FAULT) {
            fprintf(stderr, "the ring is faulty\n");
            exit(1);
        }
        if (event.kind == READ_PUBLICATION || event.kind == READ_LOSS)
            printf("%u %lu %zu %lu,", event.item, (unsigned long)event.sequence,
                   event.kind == READ_LOSS ? 0 : event.bytes, (unsigned long)event.lost);
    }
}

int main(int argc, char **argv) {
    char line[128];
    unsigned item;
    unsigned long first, second;
    struct ring_reader reader;
    if (argc != 4) return 2;
    struct ring_size size = {(uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3])};
    if (!reader_map(&reader, atoi(argv[1]), size, 1 << 20)) return 3;
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "follow %u %lu %lu", &item, &first, &second) == 3) {
            if (!reader_follow(&reader, item, first, second, strdup("item"))) return 4;
        } else if (sscanf(line, "end %u %lu", &item, &first) == 2) {
            reader_find(&reader, item)->end = first;
            read_all(&reader);
            struct followed *followed = reader_find(&reader, item);
            printf("%lu", (unsigned long)followed->last);
            reader_unfollow(&reader, followed);
        } else {
            read_all(&reader);
        }
        printf("\n");
        fflush(stdout);
    }
    reader_unmap(&reader);
    return 0;
}
