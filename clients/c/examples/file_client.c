/* Fetches a file by datagrams: file_client SOCKET SCOPE SERVER NAME > FILE
 *
 * Asks for a window of blocks, then for those of it that are missing, until all are there. */
#include "file_protocol.h"
#include "namewire_datagram.h"

#include <stdio.h>
#include <string.h>

enum { REPLY_TIMEOUT_MS = 200, ATTEMPTS = 100 };

struct window {
    struct block_request request;
    uint64_t file_bytes;
    uint64_t requests, blocks;
    uint8_t bytes[WINDOW_BLOCKS][BLOCK_BYTES];
};

static size_t block_bytes(const struct window *window, uint64_t number) {
    uint64_t start = number * BLOCK_BYTES;
    uint64_t left = window->file_bytes > start ? window->file_bytes - start : 0;
    return left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES;
}

/* Keeps a block if it is wanted, and learns the length of the file. */
static int take(struct window *window, const struct block *block, size_t bytes) {
    uint64_t bit = block->number - window->request.first;
    if (bytes < BLOCK_HEAD_BYTES) return 0;
    if (block->file_bytes == UINT64_MAX) return fprintf(stderr, "no such file\n"), -1;
    window->file_bytes = block->file_bytes;
    if (bit >= WINDOW_BLOCKS || !(window->request.wanted >> bit & 1)) return 0;
    if (bytes - BLOCK_HEAD_BYTES != block_bytes(window, block->number)) return 0;
    memcpy(window->bytes[bit], block->bytes, bytes - BLOCK_HEAD_BYTES);
    window->request.wanted &= ~(1ull << bit);
    window->blocks += 1;
    /* Blocks beyond the end of the file are not wanted. */
    for (bit = 1; bit < WINDOW_BLOCKS; bit++)
        if (block_bytes(window, window->request.first + bit) == 0)
            window->request.wanted &= ~(1ull << bit);
    return 0;
}

static int fetch(nw_datagram_socket *client, const char *server, struct window *window) {
    struct block block;
    for (int attempt = 0; window->request.wanted && attempt < ATTEMPTS; attempt++) {
        ssize_t got = nw_sendto(client, &window->request, sizeof window->request, server);
        window->requests += 1;
        while (got >= 0 && window->request.wanted) {
            got = nw_recvfrom(client, &block, sizeof block, NULL, REPLY_TIMEOUT_MS);
            if (got >= 0 && take(window, &block, (size_t)got) < 0) return -1;
        }
        if (got < 0 && got != NW_TIMEOUT) return fprintf(stderr, "%s\n", nw_error_text()), -1;
    }
    if (window->request.wanted) return fprintf(stderr, "the server does not answer\n"), -1;
    return 0;
}

int main(int argc, char **argv) {
    static struct window window;
    if (argc != 5) return fprintf(stderr, "usage: file_client SOCKET SCOPE SERVER NAME\n"), 2;
    nw_datagram_socket *client = nw_datagram_open(argv[1], argv[2], NULL);
    if (!client) return fprintf(stderr, "%s\n", nw_error_text()), 1;
    snprintf(window.request.name, sizeof window.request.name, "%s", argv[4]);
    int outcome = 0;
    do {
        window.request.wanted = (1ull << WINDOW_BLOCKS) - 1;
        outcome = fetch(client, argv[3], &window);
        for (unsigned at = 0; at < WINDOW_BLOCKS && outcome == 0; at++)
            fwrite(window.bytes[at], 1, block_bytes(&window, window.request.first + at), stdout);
        window.request.first += WINDOW_BLOCKS;
    } while (outcome == 0 && window.request.first * BLOCK_BYTES < window.file_bytes);
    fprintf(stderr, "%lu bytes in %lu blocks, %lu requests, %lu datagrams lost\n",
            window.file_bytes, window.blocks, window.requests, nw_datagrams_lost(client));
    nw_datagram_close(client);
    return outcome != 0 || fflush(stdout) != 0;
}
