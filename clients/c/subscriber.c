/* The subscribing end. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* A publisher's ring. */
struct source {
    uint32_t slot;
    bool has_ended;
    struct ring_reader reader;
    struct nw_counts counts;
};

/* An item whose publications come in messages. */
struct relayed {
    uint32_t item;
    char *name;
    uint8_t *partial;
    size_t bytes, capacity;
};

/* A publication or loss that waits to be returned. */
struct pending {
    struct pending *next;
    char *name;
    uint8_t *payload;   /* NULL for a loss. */
    size_t bytes;
    uint64_t sequence, lost;
    bool is_last_value;
};

struct nw_subscriber {
    struct connection connection;
    struct source *sources;
    size_t source_count, source_capacity, next_source;
    struct relayed *relayed;
    size_t relayed_count, relayed_capacity;
    struct pending *first, **end;
    struct pending *current;   /* The entry that was returned last. */
    uint32_t last_subscription;
    size_t publication_bytes_max;
    struct nw_counts counts;
};

static void free_pending(struct pending *pending) {
    if (!pending) return;
    free(pending->name);
    free(pending->payload);
    free(pending);
}

/* Queues an entry with a copy of `name`, and takes over the payload. */
static void push(nw_subscriber *subscriber, const char *name, struct pending entry) {
    struct pending *pending = malloc(sizeof *pending);
    char *copy = strdup(name);
    if (!pending || !copy) {
        free(pending);
        free(copy);
        free(entry.payload);
        subscriber->connection.failure = fail(NW_NO_MEMORY, "memory is short");
        return;
    }
    *pending = entry;
    pending->next = NULL;
    pending->name = copy;
    *subscriber->end = pending;
    subscriber->end = &pending->next;
}

static struct source *find_source(nw_subscriber *subscriber, uint32_t slot) {
    for (size_t at = 0; at < subscriber->source_count; at++) {
        struct source *source = &subscriber->sources[at];
        if (source->slot == slot && !source->has_ended) return source;
    }
    return NULL;
}

static struct relayed *find_relayed(nw_subscriber *subscriber, uint32_t item) {
    for (size_t at = 0; at < subscriber->relayed_count; at++)
        if (subscriber->relayed[at].item == item) return &subscriber->relayed[at];
    return NULL;
}

static void add_source(nw_subscriber *subscriber, struct body *body, int file) {
    uint32_t slot = take_u32(body), bytes = take_u32(body), items = take_u32(body);
    struct source source = {.slot = slot};
    struct ring_size size = {bytes, items};
    void *sources = subscriber->sources;
    if (!is_body_whole(body) || file < 0) return;
    /* A ring that is not laid out as it must be ends only its own items. */
    if (!reader_map(&source.reader, file, size, subscriber->publication_bytes_max)) return;
    if (!grow(&sources, &subscriber->source_capacity, subscriber->source_count + 1,
              sizeof source)) {
        reader_unmap(&source.reader);
        return;
    }
    subscriber->sources = sources;
    subscriber->sources[subscriber->source_count++] = source;
}

static void add_relayed(nw_subscriber *subscriber, uint32_t item, char *name) {
    struct relayed *known = find_relayed(subscriber, item);
    void *all = subscriber->relayed;
    if (known) {
        free(known->name);
        known->name = name;
        known->bytes = 0;
    } else if (grow(&all, &subscriber->relayed_capacity, subscriber->relayed_count + 1,
                    sizeof *subscriber->relayed)) {
        subscriber->relayed = all;
        subscriber->relayed[subscriber->relayed_count++] =
            (struct relayed){.item = item, .name = name};
    } else {
        free(name);
    }
}

static void remove_relayed(nw_subscriber *subscriber, uint32_t item) {
    struct relayed *found = find_relayed(subscriber, item);
    if (!found) return;
    free(found->name);
    free(found->partial);
    *found = subscriber->relayed[--subscriber->relayed_count];
}

static void report(nw_subscriber *subscriber, const struct source *source) {
    page_report(&subscriber->connection.page, source->slot, source->reader.cursor, source->counts);
}

/* Says which items wake this subscriber. */
static void set_items(nw_subscriber *subscriber, const struct source *source) {
    if (source->has_ended) return;
    page_set_items(&subscriber->connection.page, source->slot, reader_wake_items(&source->reader));
}

static void add_item(nw_subscriber *subscriber, struct body *body) {
    uint32_t slot = take_u32(body), item = take_u32(body);
    uint64_t position = take_u64(body), after = take_u64(body);
    bool reads_last = take_bool(body);
    char *name = take_text(body);
    if (!name) return;
    struct source *source = slot == BY_MESSAGES ? NULL : find_source(subscriber, slot);
    if (is_body_whole(body) && slot == BY_MESSAGES) {
        add_relayed(subscriber, item, name);
        return;
    }
    if (!is_body_whole(body) || !source) {
        free(name);
        return;
    }
    if (!reader_follow(&source->reader, item, position, after, name)) return;
    set_items(subscriber, source);
    report(subscriber, source);
    struct pending entry = {.is_last_value = true};
    if (reads_last && after > 0)
        entry.payload =
            reader_read_last(&source->reader, item, &entry.sequence, &entry.bytes);
    if (!entry.payload) return;
    source->counts.delivered += 1;
    push(subscriber, name, entry);
}

/* Takes a publication that came in a message, or a part of one. */
static void take_fragment(nw_subscriber *subscriber, struct body *body) {
    uint32_t item = take_u32(body);
    struct pending entry = {.is_last_value = take_bool(body)};
    entry.sequence = take_u64(body);
    uint64_t total = take_u64(body), offset = take_u64(body);
    uint32_t bytes = take_u32(body);
    const uint8_t *payload = take_bytes(body, bytes);
    struct relayed *relayed = find_relayed(subscriber, item);
    if (!payload || !is_body_whole(body) || !relayed) return;
    if (offset > total || bytes > total - offset) return;
    if (offset == 0) relayed->bytes = 0;
    void *partial = relayed->partial;
    /* One byte at least, so that an empty payload has an address. */
    if (total <= subscriber->publication_bytes_max && relayed->bytes == offset &&
        grow(&partial, &relayed->capacity, relayed->bytes + bytes + 1, 1)) {
        relayed->partial = partial;
        memcpy(relayed->partial + relayed->bytes, payload, bytes);
        relayed->bytes += bytes;
    }
    if (offset + bytes != total) return;
    if (relayed->partial && relayed->bytes == total) {
        entry.payload = relayed->partial;
        entry.bytes = relayed->bytes;
        relayed->partial = NULL;
        relayed->capacity = 0;
    } else {
        entry.lost = 1;
    }
    relayed->bytes = 0;
    push(subscriber, relayed->name, entry);
}

static void end_item(nw_subscriber *subscriber, struct body *body) {
    uint32_t slot = take_u32(body), item = take_u32(body);
    uint64_t last = take_u64(body);
    if (!is_body_whole(body)) return;
    if (slot == BY_MESSAGES) {
        remove_relayed(subscriber, item);
        return;
    }
    struct source *source = find_source(subscriber, slot);
    struct followed *followed = source ? reader_find(&source->reader, item) : NULL;
    if (!followed) return;
    followed->end = last;
    followed->has_end = true;
}

static void handle(void *owner, uint8_t kind, struct body *body, int file) {
    nw_subscriber *subscriber = owner;
    switch (kind) {
    case EVENT_SOURCE: add_source(subscriber, body, file); break;
    case EVENT_ITEM: add_item(subscriber, body); break;
    case EVENT_ITEM_END: end_item(subscriber, body); break;
    case EVENT_DATA: take_fragment(subscriber, body); break;
    case EVENT_SOURCE_END: {
        struct source *source = find_source(subscriber, take_u32(body));
        if (!source || !is_body_whole(body)) break;
        source->has_ended = true;
        /* The slot may be that of another ring from now on. */
        page_set_items(&subscriber->connection.page, source->slot, 0);
        break;
    }
    case EVENT_LOST: {
        struct relayed *relayed = find_relayed(subscriber, take_u32(body));
        struct pending entry = {.lost = take_u64(body)};
        if (relayed && is_body_whole(body)) push(subscriber, relayed->name, entry);
        break;
    }
    default: break;
    }
}

nw_subscriber *nw_subscriber_open(const char *path, const struct nw_options *options) {
    struct nw_options none = {0};
    if (!options) options = &none;
    nw_subscriber *subscriber = calloc(1, sizeof *subscriber);
    if (!subscriber) {
        fail(NW_NO_MEMORY, "memory is short");
        return NULL;
    }
    size_t bytes_max = options->publication_bytes_max;
    subscriber->publication_bytes_max = bytes_max ? bytes_max : 256u << 20;
    subscriber->end = &subscriber->first;
    struct connection *connection = &subscriber->connection;
    connection->socket = -1;
    connection->handle = handle;
    connection->owner = subscriber;
    connection->has_page = !options->without_shared_memory;
    if (connection_open(connection, path, options->program ? options->program : "c") == 0)
        return subscriber;
    nw_subscriber_close(subscriber);
    return NULL;
}

void nw_subscriber_close(nw_subscriber *subscriber) {
    if (!subscriber) return;
    for (size_t at = 0; at < subscriber->source_count; at++)
        reader_unmap(&subscriber->sources[at].reader);
    while (subscriber->relayed_count) remove_relayed(subscriber, subscriber->relayed[0].item);
    while (subscriber->first) {
        struct pending *next = subscriber->first->next;
        free_pending(subscriber->first);
        subscriber->first = next;
    }
    free_pending(subscriber->current);
    connection_close(&subscriber->connection);
    free(subscriber->sources);
    free(subscriber->relayed);
    free(subscriber);
}

int64_t nw_subscribe(nw_subscriber *subscriber, const char *pattern, bool wants_last) {
    return nw_subscribe_from(subscriber, pattern, wants_last);
}

static int64_t subscribe(nw_subscriber *subscriber, uint8_t kind, const char *pattern,
                         uint32_t history) {
    struct fields fields = {.len = 0};
    uint32_t number = ++subscriber->last_subscription;
    put(&fields, number, 4);
    put(&fields, history, 4);
    int outcome = connection_request(&subscriber->connection, kind, &fields, pattern);
    return outcome < 0 ? outcome : (int64_t)number;
}

int64_t nw_subscribe_from(nw_subscriber *subscriber, const char *pattern, uint32_t history) {
    return subscribe(subscriber, REQUEST_SUBSCRIBE_HISTORY, pattern, history);
}

int64_t nw_subscribe_here(nw_subscriber *subscriber, const char *pattern, uint32_t history) {
    return subscribe(subscriber, REQUEST_SUBSCRIBE_HERE, pattern, history);
}

int nw_unsubscribe(nw_subscriber *subscriber, uint32_t subscription) {
    struct fields fields = {.len = 0};
    put(&fields, subscription, 4);
    return connection_request(&subscriber->connection, REQUEST_UNSUBSCRIBE, &fields, NULL);
}

struct nw_counts nw_counts(const nw_subscriber *subscriber) { return subscriber->counts; }

/* Ends the items of which nothing more will come: the ring is read to its end. */
static void settle(nw_subscriber *subscriber, struct source *source) {
    bool has_ended = false;
    for (size_t at = source->reader.item_count; at-- > 0;) {
        struct followed *item = &source->reader.items[at];
        if (!item->has_end) continue;
        if (item->end > item->last) {
            struct pending entry = {.lost = item->end - item->last};
            source->counts.lost += entry.lost;
            push(subscriber, item->name, entry);
        }
        reader_unfollow(&source->reader, item);
        has_ended = true;
    }
    if (has_ended) set_items(subscriber, source);
}

static int return_pending(nw_subscriber *subscriber, struct nw_received *received) {
    struct pending *pending = subscriber->first;
    subscriber->first = pending->next;
    if (!subscriber->first) subscriber->end = &subscriber->first;
    subscriber->current = pending;
    *received = (struct nw_received){pending->name, pending->sequence, pending->payload,
                                     pending->bytes, pending->lost, pending->is_last_value};
    if (!pending->payload) received->sequence = 0;
    return pending->payload ? NW_PUBLICATION : NW_LOSS;
}

/* Reads a ring once. At its end the items that have ended are settled. */
static int read_source(nw_subscriber *subscriber, struct source *source,
                       struct nw_received *received) {
    struct ring_reader *reader = &source->reader;
    struct read_event event = reader_read(reader);
    if (event.kind == READ_FAULT) {
        /* The publisher is faulty: only its own items end. */
        while (reader->item_count) reader_unfollow(reader, &reader->items[reader->item_count - 1]);
        source->has_ended = true;
        return NW_NOTHING;
    }
    if (event.kind == READ_EMPTY) settle(subscriber, source);
    bool is_publication = event.kind == READ_PUBLICATION;
    if (is_publication || event.kind == READ_LOSS) {
        source->counts.delivered += is_publication;
        source->counts.lost += event.lost;
        *received = (struct nw_received){reader_find(reader, event.item)->name, event.sequence,
                                         reader->buffer, event.bytes, event.lost, false};
        if (!is_publication) *received = (struct nw_received){.name = received->name,
                                                              .lost = event.lost};
    }
    report(subscriber, source);
    return is_publication ? NW_PUBLICATION : event.kind == READ_LOSS ? NW_LOSS : NW_NOTHING;
}

/* Returns the next thing to report, or NW_NOTHING. */
static int find_next(nw_subscriber *subscriber, struct nw_received *received) {
    if (subscriber->first) return return_pending(subscriber, received);
    for (size_t count = subscriber->source_count; count > 0; count--) {
        subscriber->next_source = (subscriber->next_source + 1) % subscriber->source_count;
        struct source *source = &subscriber->sources[subscriber->next_source];
        /* A ring of which no item is subscribed to now is not read. */
        bool is_read = source->reader.item_count > 0;
        int found = is_read ? read_source(subscriber, source, received) : NW_NOTHING;
        if (found != NW_NOTHING) return found;
        if (source->has_ended && source->reader.item_count == 0) {
            reader_unmap(&source->reader);
            subscriber->source_count -= 1;
            memmove(source, source + 1,
                    (subscriber->source_count - subscriber->next_source) * sizeof *source);
            if (subscriber->next_source) subscriber->next_source -= 1;
        }
        if (subscriber->first) return return_pending(subscriber, received);
    }
    return NW_NOTHING;
}

static bool has_records(const nw_subscriber *subscriber) {
    for (size_t at = 0; at < subscriber->source_count; at++)
        if (subscriber->sources[at].reader.item_count > 0 &&
            reader_has_records(&subscriber->sources[at].reader))
            return true;
    return false;
}

/* Waits once, at most a slice, and handles the node's messages. */
static void wait_once(nw_subscriber *subscriber, uint64_t left_us) {
    struct connection *connection = &subscriber->connection;
    uint64_t slice_us = left_us < SLICE_MS * 1000ull ? left_us : SLICE_MS * 1000ull;
    if (!connection->has_page) {
        connection_poll(connection, slice_us);
    } else {
        page_announce_wait(&connection->page);
        if (left_us == 0 || has_records(subscriber) || connection_has_mail(connection)) {
            page_end_wait(&connection->page);
            return;
        }
        page_wait(&connection->page, slice_us);
    }
    /* The end of the node shows at the socket only. */
    connection_update(connection);
}

int nw_receive(nw_subscriber *subscriber, struct nw_received *received, int timeout_ms) {
    struct connection *connection = &subscriber->connection;
    uint64_t deadline = timeout_ms < 0 ? UINT64_MAX : now_us() + 1000ull * (unsigned)timeout_ms;
    free_pending(subscriber->current);
    subscriber->current = NULL;
    for (;;) {
        uint64_t now = now_us();
        uint64_t left_us = deadline > now ? deadline - now : 0;
        if (connection->has_page && connection_has_mail(connection)) connection_update(connection);
        int found = find_next(subscriber, received);
        if (found == NW_NOTHING && !connection->failure) {
            wait_once(subscriber, left_us);
            found = find_next(subscriber, received);
        }
        if (found != NW_NOTHING) {
            subscriber->counts.delivered += found == NW_PUBLICATION;
            subscriber->counts.lost += received->lost;
            return found;
        }
        if (connection->failure && !has_records(subscriber)) return connection->failure;
        if (left_us == 0) return NW_NOTHING;
    }
}
