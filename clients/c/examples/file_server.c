/* Serves the files of the current folder by datagrams: file_server SOCKET SCOPE LABEL
 *
 * It keeps nothing between requests: a client asks again for what it lost. */
#include "file_protocol.h"
#include "namewire_datagram.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int answer(nw_datagram_socket *server, const struct block_request *request,
                  const char *client) {
    struct block block = {.file_bytes = UINT64_MAX};
    struct stat status;
    int is_below = request->name[0] != '.' && !strchr(request->name, '/');
    int file = is_below ? open(request->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (file < 0 || fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
        if (file >= 0) close(file);
        return (int)nw_sendto(server, &block, BLOCK_HEAD_BYTES, client);
    }
    int outcome = 0;
    block.file_bytes = (uint64_t)status.st_size;
    uint64_t blocks = (block.file_bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
    for (unsigned bit = 0; bit < WINDOW_BLOCKS && outcome >= 0; bit++) {
        if (request->first > blocks || request->first + bit >= (blocks ? blocks : 1)) break;
        if (!(request->wanted >> bit & 1)) continue;
        block.number = request->first + bit;
        ssize_t count = pread(file, block.bytes, BLOCK_BYTES, (off_t)(block.number * BLOCK_BYTES));
        if (count < 0) break;
        outcome = (int)nw_sendto(server, &block, BLOCK_HEAD_BYTES + (size_t)count, client);
    }
    close(file);
    return outcome;
}

int main(int argc, char **argv) {
    if (argc != 4) return fprintf(stderr, "usage: file_server SOCKET SCOPE LABEL\n"), 2;
    nw_datagram_socket *server = nw_datagram_open(argv[1], argv[2], argv[3]);
    if (server) fprintf(stderr, "serving\n");
    for (ssize_t outcome = server ? 0 : -1; outcome >= 0;) {
        struct block_request request;
        char client[NW_LABEL_BYTES];
        outcome = nw_recvfrom(server, &request, sizeof request, client, -1);
        if (outcome != sizeof request || request.name[FILE_NAME_BYTES - 1]) continue;
        outcome = answer(server, &request, client);
    }
    fprintf(stderr, "%s\n", nw_error_text());
    nw_datagram_close(server);
    return 1;
}
