/* What the files of the library share. The layout of messages is that of
 * crates/api/src/pubsub/message.rs, the ring's that of crates/faces/src/local_pubsub/ring.rs, the
 * page's that of crates/faces/src/local_pubsub/reader_page.rs.
 */
#ifndef NAMEWIRE_INTERNAL_H
#define NAMEWIRE_INTERNAL_H

#include "namewire_pubsub.h"

#include <stdatomic.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the layouts of publish/subscribe are for little-endian processors"
#endif

enum {
    PROTOCOL_VERSION = 2,
    FRAME_HEAD_BYTES = 6,
    FRAME_BYTES_MAX = 1 << 20,
    FRAGMENT_BYTES_MAX = 256 << 10,
    FILES_MAX = 64,
    REPLY_TIMEOUT_MS = 10000,
    SLICE_MS = 100,
    SLOTS_MAX = 1023,
    PAGE_BYTES = 64 * (SLOTS_MAX + 1)
};

#define BY_MESSAGES UINT32_MAX

enum request {
    REQUEST_HELLO = 1,
    REQUEST_RING = 2,
    REQUEST_PUBLISH = 3,
    REQUEST_UNPUBLISH = 4,
    REQUEST_SUBSCRIBE = 5,
    REQUEST_UNSUBSCRIBE = 6,
    REQUEST_DATA = 7,
    REQUEST_WAKE = 8,
    REQUEST_SUBSCRIBE_HISTORY = 10,
    REQUEST_SUBSCRIBE_HERE = 12,
    REQUEST_PUBLISH_SCOPE = 13,
    REQUEST_UNPUBLISH_SCOPE = 14,
    REQUEST_ADD_PARENT = 15,
    REQUEST_REMOVE_PARENT = 16,
    REQUEST_ROUTE = 17
};

enum event {
    EVENT_WELCOME = 1,
    EVENT_REPLY = 2,
    EVENT_SOURCE = 3,
    EVENT_ITEM = 4,
    EVENT_ITEM_END = 5,
    EVENT_SOURCE_END = 6,
    EVENT_READER = 7,
    EVENT_READER_END = 8,
    EVENT_SUBSCRIBERS = 9,
    EVENT_DATA = 10,
    EVENT_LOST = 11,
    EVENT_ITEM_READER = 14,
    EVENT_ITEM_READER_END = 15
};

/* --- errors and time --- */

/* Keeps a sentence for nw_error_text and returns `error`. */
int fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
void set_refusal_code(int code);
uint64_t now_us(void);
void sleep_us(unsigned us);

/* Doubles an array as needed. Returns false if memory is short; nothing is changed then. */
bool grow(void **array, size_t *capacity, size_t needed, size_t entry_bytes);

/* --- bodies of messages --- */

/* Reads a body; after a read beyond its end `is_bad` is set and all reads return 0. */
struct body {
    const uint8_t *at;
    size_t left;
    bool is_bad;
};

const uint8_t *take_bytes(struct body *body, size_t bytes);
uint16_t take_u16(struct body *body);
uint32_t take_u32(struct body *body);
uint64_t take_u64(struct body *body);
bool take_bool(struct body *body);
/* Returns a text as a new string; NULL if the body is too short or memory is. */
char *take_text(struct body *body);
/* Returns whether all of the body was read and no more. */
bool is_body_whole(const struct body *body);

/* Writes a body: fixed fields first, then at most one text. */
struct fields {
    uint8_t bytes[64];
    size_t len;
};

void put(struct fields *fields, uint64_t value, size_t bytes);

/* --- reader pages --- */

struct reader_page {
    uint8_t *memory;
};

/* It does not wait, or not for this item; it is woken; or its node is sent a message. */
enum wakeup { WAKEUP_UNNEEDED, WAKEUP_DONE, WAKEUP_BY_MESSAGE };

/* Creates a page; returns its descriptor, or -1. */
int page_create(struct reader_page *page);
/* Maps the page of another process. Returns false if it can shrink or has another length. */
bool page_map(struct reader_page *page, int file);
void page_unmap(struct reader_page *page);
uint32_t page_mail(const struct reader_page *page);
void page_announce_wait(struct reader_page *page);
void page_end_wait(struct reader_page *page);
void page_wait(struct reader_page *page, uint64_t timeout_us);
/* Wakes a reader that waits. */
enum wakeup page_wake(struct reader_page *page);
/* Wakes a reader that waits for an item of the ring in a slot. */
enum wakeup page_wake_for(struct reader_page *page, uint32_t slot, uint32_t item);
/* Says which items of a ring wake the reader: bit n % 64 for each item n; 0: all. */
void page_set_items(struct reader_page *page, uint32_t slot, uint64_t items);
void page_report(struct reader_page *page, uint32_t slot, uint64_t cursor, struct nw_counts counts);
uint64_t page_cursor(const struct reader_page *page, uint32_t slot);

/* --- connections --- */

struct connection {
    int socket;
    uint8_t *received;
    size_t received_bytes, received_capacity;
    int files[FILES_MAX];
    unsigned file_count;
    struct reader_page page;
    bool has_page;
    uint32_t last_mail;
    bool has_more;   /* Whether the socket was not read to its end. */
    int failure;     /* Why the connection ended; 0 while it is open. */
    uint32_t last_request;
    uint32_t ring_bytes_max, items_max;
    uint16_t version;
    bool has_welcome;
    uint32_t reply_request;
    bool has_reply;
    int reply_code;
    /* Handles all events but welcome and replies. The file is closed after it. */
    void (*handle)(void *owner, uint8_t kind, struct body *body, int file);
    void *owner;
};

int connection_open(struct connection *connection, const char *path, const char *program);
void connection_close(struct connection *connection);
/* Sends a frame: fields, then payload, with a descriptor unless -1. */
int connection_send(struct connection *connection, uint8_t kind, const struct fields *fields,
                    const void *payload, size_t payload_bytes, int file);
/* Sends a request whose number and `fields` come before an optional text; waits for the reply. */
int connection_request(struct connection *connection, uint8_t kind, const struct fields *fields,
                       const char *text);
/* Sends a request with two texts; waits for the reply. */
int connection_request_pair(struct connection *connection, uint8_t kind, const char *first,
                            const char *second);
/* Handles what the socket has. Returns 0 or the failure. */
int connection_update(struct connection *connection);
bool connection_has_mail(const struct connection *connection);
void connection_poll(struct connection *connection, uint64_t timeout_us);

/* --- rings --- */

enum {
    RING_HEAD_BYTES = 4096,
    ITEM_ENTRY_BYTES = 16,
    RECORD_HEAD_BYTES = 32,
    RING_BYTES_MIN = 64 << 10,
    RING_BYTES_MAX = 1 << 30,
    RING_ITEMS_MAX = 1 << 20
};

enum record_flag { FLAG_FIRST = 1, FLAG_LAST = 2, FLAG_PAD = 4, FLAG_MISSING = 8,
                   FLAG_ELSEWHERE = 16 };

struct ring_size {
    uint32_t bytes, items;
};

struct record {
    uint32_t bytes, item;
    uint64_t sequence, total_bytes, offset;
    uint8_t flags;
};

size_t ring_data_at(struct ring_size size);
size_t ring_record_bytes_max(struct ring_size size);

struct ring_writer {
    uint8_t *memory;
    struct ring_size size;
    uint64_t tail, mark;
};

/* Creates a ring; returns its descriptor, or -1. */
int writer_create(struct ring_writer *writer, uint32_t bytes, uint32_t items);
void writer_unmap(struct ring_writer *writer);
uint64_t writer_tail_after(const struct ring_writer *writer, size_t bytes);
void writer_write(struct ring_writer *writer, struct record record, const void *payload);
void writer_start_item(struct ring_writer *writer, uint32_t item);

/* An item that a reader follows. */
struct followed {
    uint32_t item;
    bool has_end;
    uint64_t last;   /* Publications up to this number are accounted for. */
    uint64_t end;    /* Later ones are not wanted. */
    char *name;
};

struct ring_reader {
    const uint8_t *memory;
    struct ring_size size;
    uint64_t cursor;
    struct followed *items;   /* Ordered by number. */
    size_t item_count, item_capacity;
    uint32_t items_by_bit[64];
    struct record partial;    /* The publication of which `partial_bytes` are read. */
    size_t partial_bytes;
    bool has_partial;
    uint64_t partial_start; /* Position of its first record. */
    bool is_gapped;
    uint64_t restarts;        /* Restarts of items that are known here. */
    uint64_t reads_all_until; /* Position up to which all records are read because of them. */
    uint8_t *buffer;
    size_t buffer_capacity;
    size_t publication_bytes_max;
};

enum read_kind { READ_EMPTY, READ_SKIPPED, READ_PUBLICATION, READ_LOSS, READ_FAULT };

struct read_event {
    enum read_kind kind;
    uint32_t item;
    uint64_t sequence;
    size_t bytes;
    uint64_t lost;
};

/* Maps a ring that only its creator can write. Returns false if it is not laid out so. */
bool reader_map(struct ring_reader *reader, int file, struct ring_size size, size_t bytes_max);
void reader_unmap(struct ring_reader *reader);
/* Follows an item, takes over `name`. A reader that follows no other item leaves out what is before
 * `position`. Returns false if the item is beyond the table. */
bool reader_follow(struct ring_reader *reader, uint32_t item, uint64_t position, uint64_t after,
                   char *name);
struct followed *reader_find(const struct ring_reader *reader, uint32_t item);
void reader_unfollow(struct ring_reader *reader, struct followed *followed);
/* Returns the followed items as page_set_items takes them. */
uint64_t reader_wake_items(const struct ring_reader *reader);
bool reader_has_records(const struct ring_reader *reader);
/* Reads the next publication of a followed item into the reader's buffer; bounded work. */
struct read_event reader_read(struct ring_reader *reader);
/* Reads the last publication of a followed item into a new allocation, if it is in the ring. */
uint8_t *reader_read_last(struct ring_reader *reader, uint32_t item, uint64_t *sequence,
                          size_t *bytes);

#endif
