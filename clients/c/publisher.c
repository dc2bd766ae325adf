/* The publishing end. */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAUSE_US = 50 };

struct reader {
    uint32_t number, slot;
    uint32_t items;    /* Items that it reads. One of none is not waited for and not woken. */
    bool is_stalled;   /* Whether it read nothing for too long. */
    struct reader_page page;
};

struct item {
    bool is_announced;
    uint32_t subscribers;
    uint64_t sequence;
};

struct nw_publisher {
    struct connection connection;
    struct ring_writer ring;
    bool has_ring;
    bool wakes_node;   /* Whether the node waits for a message about new records. */
    uint32_t wait_ms;
    /* Position from which on a record wakes all readers, so that none is a quarter of the ring
     * behind only because it waits for other items. */
    uint64_t wakes_all_at;
    uint64_t wakeups;
    struct reader *readers;
    size_t reader_count, reader_capacity;
    struct item *items;
    size_t item_count, item_capacity;
};

static void add_reader(nw_publisher *publisher, uint32_t number, uint32_t slot, int file) {
    void *readers = publisher->readers;
    struct reader reader = {.number = number, .slot = slot};
    if (file < 0 || !page_map(&reader.page, file)) return;
    if (!grow(&readers, &publisher->reader_capacity, publisher->reader_count + 1, sizeof reader)) {
        page_unmap(&reader.page);
        return;
    }
    publisher->readers = readers;
    publisher->readers[publisher->reader_count++] = reader;
    /* It may wait for publications that were written before it was known here. */
    publisher->wakes_node |= page_wake(&reader.page) == WAKEUP_BY_MESSAGE;
}

static void remove_reader(nw_publisher *publisher, uint32_t number) {
    for (size_t at = 0; at < publisher->reader_count; at++) {
        if (publisher->readers[at].number != number) continue;
        page_unmap(&publisher->readers[at].page);
        publisher->readers[at] = publisher->readers[--publisher->reader_count];
        return;
    }
}

static struct reader *find_reader(nw_publisher *publisher, uint32_t number) {
    for (size_t at = 0; at < publisher->reader_count; at++)
        if (publisher->readers[at].number == number) return &publisher->readers[at];
    return NULL;
}

static void count_wakeup(nw_publisher *publisher, enum wakeup wakeup) {
    publisher->wakeups += wakeup != WAKEUP_UNNEEDED;
    publisher->wakes_node |= wakeup == WAKEUP_BY_MESSAGE;
}

static void add_item_reader(nw_publisher *publisher, uint32_t item, uint32_t number,
                            uint64_t after) {
    struct reader *reader = find_reader(publisher, number);
    if (!reader) return;
    reader->items += 1;
    if (reader->items == 1) reader->is_stalled = false;
    /* It may wait for what was published before it was known to read the item. */
    if (item < publisher->item_count && publisher->items[item].sequence > after)
        count_wakeup(publisher, page_wake_for(&reader->page, reader->slot, item));
}

static void handle(void *owner, uint8_t kind, struct body *body, int file) {
    nw_publisher *publisher = owner;
    uint32_t first = take_u32(body);
    if (kind == EVENT_READER) {
        uint32_t slot = take_u32(body);
        if (is_body_whole(body)) add_reader(publisher, first, slot, file);
    } else if (kind == EVENT_READER_END && is_body_whole(body)) {
        remove_reader(publisher, first);
    } else if (kind == EVENT_ITEM_READER) {
        uint32_t number = take_u32(body);
        uint64_t after = take_u64(body);
        if (is_body_whole(body)) add_item_reader(publisher, first, number, after);
    } else if (kind == EVENT_ITEM_READER_END) {
        struct reader *reader = find_reader(publisher, take_u32(body));
        if (is_body_whole(body) && reader && reader->items) reader->items -= 1;
    } else if (kind == EVENT_SUBSCRIBERS) {
        uint32_t count = take_u32(body);
        if (is_body_whole(body) && first < publisher->item_count)
            publisher->items[first].subscribers = count;
    }
}

/* Handles the node's messages, and tells the node of records if it waits. */
static int update(nw_publisher *publisher) {
    int outcome = connection_update(&publisher->connection);
    while (outcome == 0 && publisher->wakes_node) {
        struct fields none = {.len = 0};
        publisher->wakes_node = false;
        outcome = connection_send(&publisher->connection, REQUEST_WAKE, &none, NULL, 0, -1);
    }
    return outcome;
}

static int offer_ring(nw_publisher *publisher, uint32_t bytes) {
    struct connection *connection = &publisher->connection;
    if (bytes > connection->ring_bytes_max) bytes = connection->ring_bytes_max;
    int file = writer_create(&publisher->ring, bytes, connection->items_max);
    if (file < 0) return fail(NW_NO_MEMORY, "can't create shared memory: %s", strerror(errno));
    publisher->has_ring = true;
    struct fields sizes = {.len = 0};
    put(&sizes, publisher->ring.size.bytes, 4);
    put(&sizes, publisher->ring.size.items, 4);
    int outcome = connection_send(connection, REQUEST_RING, &sizes, NULL, 0, file);
    close(file);
    return outcome;
}

nw_publisher *nw_publisher_open(const char *path, const struct nw_options *options) {
    struct nw_options none = {0};
    if (!options) options = &none;
    nw_publisher *publisher = calloc(1, sizeof *publisher);
    if (!publisher) {
        fail(NW_NO_MEMORY, "memory is short");
        return NULL;
    }
    struct connection *connection = &publisher->connection;
    connection->socket = -1;
    connection->handle = handle;
    connection->owner = publisher;
    /* The page tells a publisher of messages without a system call. */
    connection->has_page = true;
    publisher->wait_ms = options->wait_ms;
    int outcome = connection_open(connection, path, options->program ? options->program : "c");
    if (outcome == 0 && !options->without_shared_memory)
        outcome = offer_ring(publisher, options->ring_bytes ? options->ring_bytes : 1 << 20);
    if (outcome == 0) return publisher;
    nw_publisher_close(publisher);
    return NULL;
}

void nw_publisher_close(nw_publisher *publisher) {
    if (!publisher) return;
    for (size_t at = 0; at < publisher->reader_count; at++)
        page_unmap(&publisher->readers[at].page);
    if (publisher->has_ring) writer_unmap(&publisher->ring);
    connection_close(&publisher->connection);
    free(publisher->readers);
    free(publisher->items);
    free(publisher);
}

int64_t nw_announce(nw_publisher *publisher, const char *name, bool keeps_last) {
    return nw_announce_with(publisher, name, keeps_last, NW_INHERITED);
}

int nw_publish_scope(nw_publisher *publisher, const char *name, enum nw_strategy strategy) {
    struct fields fields = {.len = 0};
    put(&fields, strategy, 1);
    return connection_request(&publisher->connection, REQUEST_PUBLISH_SCOPE, &fields, name);
}

int nw_withdraw_scope(nw_publisher *publisher, const char *name) {
    struct fields fields = {.len = 0};
    return connection_request(&publisher->connection, REQUEST_UNPUBLISH_SCOPE, &fields, name);
}

int nw_add_parent(nw_publisher *publisher, const char *name, const char *parent) {
    return connection_request_pair(&publisher->connection, REQUEST_ADD_PARENT, name, parent);
}

int nw_remove_parent(nw_publisher *publisher, const char *name, const char *parent) {
    return connection_request_pair(&publisher->connection, REQUEST_REMOVE_PARENT, name, parent);
}

int nw_set_route_like(nw_publisher *publisher, uint32_t item, const char *name) {
    struct fields fields = {.len = 0};
    put(&fields, item, 4);
    put(&fields, name != NULL, 1);
    return connection_request(&publisher->connection, REQUEST_ROUTE, &fields, name);
}

int nw_set_route_path(nw_publisher *publisher, uint32_t item, const uint8_t path[34]) {
    struct fields fields = {.len = 0};
    put(&fields, item, 4);
    put(&fields, 2, 1);
    memcpy(fields.bytes + fields.len, path, 34);
    fields.len += 34;
    return connection_request(&publisher->connection, REQUEST_ROUTE, &fields, NULL);
}

int64_t nw_announce_with(nw_publisher *publisher, const char *name, bool keeps_last,
                         enum nw_strategy strategy) {
    struct nw_item_options options = {.without_last = !keeps_last, .strategy = strategy};
    return nw_announce_item(publisher, name, &options);
}

int64_t nw_announce_item(nw_publisher *publisher, const char *name,
                         const struct nw_item_options *options) {
    size_t item = 0;
    while (item < publisher->item_count && publisher->items[item].is_announced) item++;
    if (item >= publisher->connection.items_max)
        return fail(NW_REFUSED, "the node permits %u items", publisher->connection.items_max);
    void *items = publisher->items;
    if (!grow(&items, &publisher->item_capacity, item + 1, sizeof *publisher->items))
        return fail(NW_NO_MEMORY, "memory is short");
    publisher->items = items;
    if (item == publisher->item_count) publisher->item_count += 1;
    publisher->items[item] = (struct item){.is_announced = true};
    if (publisher->has_ring) writer_start_item(&publisher->ring, (uint32_t)item);
    struct fields fields = {.len = 0};
    put(&fields, item, 4);
    uint64_t codes = (options->without_last ? 0 : 1) | (uint64_t)options->strategy << 1 |
                     (uint64_t)options->choice << 4 | (uint64_t)(options->strength > 0) << 6;
    put(&fields, codes, 1);
    if (options->strength > 0) put(&fields, options->strength, 4);
    int outcome = connection_request(&publisher->connection, REQUEST_PUBLISH, &fields, name);
    if (outcome < 0) {
        publisher->items[item].is_announced = false;
        return outcome;
    }
    outcome = update(publisher);
    return outcome < 0 ? outcome : (int64_t)item;
}

static struct item *find_item(nw_publisher *publisher, uint32_t item) {
    if (item < publisher->item_count && publisher->items[item].is_announced)
        return &publisher->items[item];
    fail(NW_ARGUMENT, "item %u was not announced", item);
    return NULL;
}

int nw_withdraw(nw_publisher *publisher, uint32_t item) {
    struct item *found = find_item(publisher, item);
    if (!found) return NW_ARGUMENT;
    struct fields fields = {.len = 0};
    put(&fields, item, 4);
    int outcome = connection_request(&publisher->connection, REQUEST_UNPUBLISH, &fields, NULL);
    if (outcome == 0) found->is_announced = false;
    return outcome;
}

int64_t nw_subscriber_count(nw_publisher *publisher, uint32_t item) {
    struct item *found = find_item(publisher, item);
    if (!found) return NW_ARGUMENT;
    int outcome = update(publisher);
    return outcome < 0 ? outcome : (int64_t)found->subscribers;
}

uint64_t nw_wakeups(const nw_publisher *publisher) { return publisher->wakeups; }

/* Returns how far a reader has read. What can't be true counts as all, and so does a reader of no
 * item. */
static uint64_t reader_cursor(const struct reader *reader, uint64_t tail) {
    if (reader->items == 0) return tail;
    uint64_t cursor = page_cursor(&reader->page, reader->slot);
    return cursor < tail ? cursor : tail;
}

static uint64_t slowest_cursor(const nw_publisher *publisher, bool with_stalled) {
    uint64_t slowest = publisher->ring.tail;
    for (size_t at = 0; at < publisher->reader_count; at++) {
        const struct reader *reader = &publisher->readers[at];
        if (reader->is_stalled && !with_stalled) continue;
        uint64_t cursor = reader_cursor(reader, publisher->ring.tail);
        if (cursor < slowest) slowest = cursor;
    }
    return slowest;
}

/* Wakes the readers that have not read everything. */
static int wake_all(nw_publisher *publisher) {
    uint64_t tail = publisher->ring.tail;
    for (size_t at = 0; at < publisher->reader_count; at++) {
        struct reader *reader = &publisher->readers[at];
        if (reader_cursor(reader, tail) < tail) count_wakeup(publisher, page_wake(&reader->page));
    }
    return publisher->wakes_node ? update(publisher) : 0;
}

/* Waits until no reader would lose anything by a record, as long as readers make progress. */
static int wait_for_space(nw_publisher *publisher, size_t bytes) {
    /* A publication of several records is of no use with one overwritten. */
    uint64_t patience_us = 1000ull * (publisher->wait_ms ? publisher->wait_ms : 1000);
    uint64_t end = writer_tail_after(&publisher->ring, bytes), size = publisher->ring.size.bytes;
    uint64_t progress = UINT64_MAX, since = 0;
    for (;;) {
        uint64_t slowest = slowest_cursor(publisher, false);
        if (end - slowest <= size) return 0;
        if (slowest != progress) {
            progress = slowest;
            since = now_us();
        } else if (now_us() - since > patience_us) {
            for (size_t at = 0; at < publisher->reader_count; at++) {
                struct reader *reader = &publisher->readers[at];
                reader->is_stalled |= end - reader_cursor(reader, publisher->ring.tail) > size;
            }
            return 0;
        }
        /* Also those that wait for other items have to read on. */
        int woken = wake_all(publisher);
        if (woken < 0) return woken;
        sleep_us(PAUSE_US);
        if (connection_has_mail(&publisher->connection)) {
            int outcome = update(publisher);
            if (outcome < 0) return outcome;
        }
    }
}

static int write_record(nw_publisher *publisher, struct record record, const void *payload) {
    writer_write(&publisher->ring, record, payload);
    if (publisher->ring.tail >= publisher->wakes_all_at) {
        publisher->wakes_all_at = publisher->ring.tail + publisher->ring.size.bytes / 4;
        return wake_all(publisher);
    }
    for (size_t at = 0; at < publisher->reader_count; at++) {
        struct reader *reader = &publisher->readers[at];
        if (reader->items > 0)
            count_wakeup(publisher, page_wake_for(&reader->page, reader->slot, record.item));
    }
    return publisher->wakes_node ? update(publisher) : 0;
}

static int send_part(nw_publisher *publisher, struct record record, const void *payload) {
    struct fields head = {.len = 0};
    put(&head, record.item, 4);
    put(&head, record.sequence, 8);
    put(&head, record.total_bytes, 8);
    put(&head, record.offset, 8);
    put(&head, record.bytes, 4);
    return connection_send(&publisher->connection, REQUEST_DATA, &head, payload, record.bytes, -1);
}

int64_t nw_publish(nw_publisher *publisher, uint32_t item, const void *payload, size_t bytes) {
    struct item *found = find_item(publisher, item);
    if (!found) return NW_ARGUMENT;
    if (connection_has_mail(&publisher->connection)) {
        int outcome = update(publisher);
        if (outcome < 0) return outcome;
    }
    bool has_ring = publisher->has_ring;
    size_t part_max = has_ring ? ring_record_bytes_max(publisher->ring.size) : FRAGMENT_BYTES_MAX;
    struct record record = {.item = item, .sequence = ++found->sequence, .total_bytes = bytes};
    size_t start = 0;
    do {
        size_t part = bytes - start < part_max ? bytes - start : part_max;
        const uint8_t *at = start ? (const uint8_t *)payload + start : payload;
        int outcome = 0;
        record.bytes = (uint32_t)part;
        record.offset = start;
        record.flags = (start == 0 ? FLAG_FIRST : 0) | (start + part == bytes ? FLAG_LAST : 0);
        if (has_ring && (publisher->wait_ms || bytes > part_max))
            outcome = wait_for_space(publisher, part);
        if (outcome == 0)
            outcome = has_ring ? write_record(publisher, record, at)
                               : send_part(publisher, record, at);
        if (outcome < 0) return outcome;
        start += part;
    } while (start < bytes);
    return (int64_t)record.sequence;
}

int nw_drain(nw_publisher *publisher, uint32_t timeout_ms) {
    uint64_t deadline = now_us() + 1000ull * timeout_ms;
    for (;;) {
        int outcome = update(publisher);
        if (outcome < 0) return outcome;
        if (!publisher->has_ring) return 1;
        if (slowest_cursor(publisher, true) >= publisher->ring.tail) return 1;
        if (now_us() >= deadline) return 0;
        outcome = wake_all(publisher);
        if (outcome < 0) return outcome;
        sleep_us(1000);
    }
}
