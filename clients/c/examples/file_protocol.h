/* Messages of the file transfer: a request names the file and blocks, a reply is one block. */
#ifndef FILE_PROTOCOL_H
#define FILE_PROTOCOL_H

#include <stdint.h>

enum { BLOCK_BYTES = 8192, WINDOW_BLOCKS = 32, FILE_NAME_BYTES = 256 };

struct block_request {
    uint64_t first;   /* Number of the first block that is wanted. */
    uint64_t wanted;  /* Bit n: block `first` + n is wanted; WINDOW_BLOCKS bits. */
    char name[FILE_NAME_BYTES];
};

struct block {
    uint64_t number;
    uint64_t file_bytes;   /* UINT64_MAX: there is no such file. */
    uint8_t bytes[BLOCK_BYTES];
};

#define BLOCK_HEAD_BYTES 16

#endif
