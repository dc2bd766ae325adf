/* The ring in shared memory, both ends.
 *
 * Nothing in the ring is believed before it is copied out and the copy is known to be of one
 * record; the work per call is bounded; and for each item the publications since it was followed
 * are those returned plus those reported as lost, exactly.
 */
#include "internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

enum { RECORDS_PER_CALL = 4096 };
/* Records in a row without a result after which the table of items is read, and followed items up
 * to which it is. */
enum { OTHERS_MAX = 8, SKIP_ITEMS_MAX = 16 };
enum { MAGIC_AT = 0, SIZE_AT = 8, ITEMS_AT = 16, INTENT_AT = 64, TAIL_AT = 72, RESTARTS_AT = 80,
       MARK_AT = 192, EARLIER_MARK_AT = 200 };
static const uint64_t MAGIC = 0x31676e69722d776e; /* "nw-ring1" */

size_t ring_data_at(struct ring_size size) {
    size_t end = RING_HEAD_BYTES + (size_t)size.items * ITEM_ENTRY_BYTES;
    return (end + 4095) / 4096 * 4096;
}

static size_t memory_bytes(struct ring_size size) { return ring_data_at(size) + size.bytes; }

size_t ring_record_bytes_max(struct ring_size size) { return size.bytes / 4 - RECORD_HEAD_BYTES; }

static uint64_t record_bytes(uint64_t payload_bytes) {
    return (RECORD_HEAD_BYTES + payload_bytes + RECORD_HEAD_BYTES - 1) / RECORD_HEAD_BYTES *
           RECORD_HEAD_BYTES;
}

static size_t item_at(uint32_t item) {
    return RING_HEAD_BYTES + (size_t)item * ITEM_ENTRY_BYTES;
}

static uint64_t load(const uint8_t *memory, size_t at, memory_order order) {
    return atomic_load_explicit((_Atomic uint64_t *)(void *)(memory + at), order);
}

static void store(uint8_t *memory, size_t at, uint64_t value, memory_order order) {
    atomic_store_explicit((_Atomic uint64_t *)(void *)(memory + at), value, order);
}

/* --- the writing end --- */

static void encode(const struct record *record, uint8_t bytes[RECORD_HEAD_BYTES]) {
    uint64_t last = record->offset << 8 | record->flags;
    memcpy(bytes, &record->bytes, 4);
    memcpy(bytes + 4, &record->item, 4);
    memcpy(bytes + 8, &record->sequence, 8);
    memcpy(bytes + 16, &record->total_bytes, 8);
    memcpy(bytes + 24, &last, 8);
}

int writer_create(struct ring_writer *writer, uint32_t bytes, uint32_t items) {
    uint32_t rounded = RING_BYTES_MIN;
    while (rounded < bytes && rounded < RING_BYTES_MAX) rounded *= 2;
    items = items > RING_ITEMS_MAX ? RING_ITEMS_MAX : items ? items : 1;
    writer->size = (struct ring_size){rounded, items};
    size_t length = memory_bytes(writer->size);
    int file = memfd_create("nw-shm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0) return -1;
    void *memory = MAP_FAILED;
    if (ftruncate(file, (off_t)length) == 0 &&
        fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
        memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    /* From here on the mapping above is the only one that can write. */
    if (memory == MAP_FAILED ||
        fcntl(file, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) {
        if (memory != MAP_FAILED) munmap(memory, length);
        close(file);
        return -1;
    }
    writer->memory = memory;
    writer->tail = writer->mark = 0;
    store(writer->memory, SIZE_AT, rounded, memory_order_relaxed);
    store(writer->memory, ITEMS_AT, items, memory_order_relaxed);
    store(writer->memory, MAGIC_AT, MAGIC, memory_order_release);
    return file;
}

void writer_unmap(struct ring_writer *writer) {
    if (writer->memory) munmap(writer->memory, memory_bytes(writer->size));
}

static uint64_t writer_pad(const struct ring_writer *writer, uint64_t record) {
    uint64_t left = writer->size.bytes - (writer->tail & (writer->size.bytes - 1));
    return record > left ? left : 0;
}

uint64_t writer_tail_after(const struct ring_writer *writer, size_t bytes) {
    uint64_t record = record_bytes(bytes);
    return writer->tail + writer_pad(writer, record) + record;
}

void writer_write(struct ring_writer *writer, struct record record, const void *payload) {
    uint64_t end = writer_tail_after(writer, record.bytes);
    uint64_t start = end - record_bytes(record.bytes);
    uint8_t *data = writer->memory + ring_data_at(writer->size);
    uint64_t mask = writer->size.bytes - 1;
    store(writer->memory, INTENT_AT, end, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    if (start > writer->tail) {
        struct record filler = {.bytes = (uint32_t)(start - writer->tail - RECORD_HEAD_BYTES),
                                .flags = FLAG_PAD};
        encode(&filler, data + (writer->tail & mask));
    }
    uint8_t *at = data + (start & mask);
    encode(&record, at);
    if (record.bytes) memcpy(at + RECORD_HEAD_BYTES, payload, record.bytes);
    if (record.flags & FLAG_FIRST)
        store(writer->memory, item_at(record.item) + 8, start + 1, memory_order_release);
    if (record.flags & FLAG_LAST)
        store(writer->memory, item_at(record.item), record.sequence, memory_order_release);
    store(writer->memory, TAIL_AT, end, memory_order_release);
    writer->tail = end;
    if (end - writer->mark >= writer->size.bytes / 4) {
        store(writer->memory, EARLIER_MARK_AT, writer->mark, memory_order_relaxed);
        store(writer->memory, MARK_AT, end, memory_order_relaxed);
        writer->mark = end;
    }
}

void writer_start_item(struct ring_writer *writer, uint32_t item) {
    size_t at = item_at(item);
    if (load(writer->memory, at, memory_order_relaxed) ||
        load(writer->memory, at + 8, memory_order_relaxed)) {
        /* Records of the earlier item may be unread, and the entry no longer shows them. */
        uint64_t restarts = load(writer->memory, RESTARTS_AT, memory_order_relaxed);
        store(writer->memory, RESTARTS_AT, restarts + 1, memory_order_release);
    }
    store(writer->memory, at + 8, 0, memory_order_release);
    store(writer->memory, at, 0, memory_order_release);
}

/* --- the reading end --- */

static bool is_size_valid(struct ring_size size) {
    return size.bytes >= RING_BYTES_MIN && size.bytes <= RING_BYTES_MAX &&
           (size.bytes & (size.bytes - 1)) == 0 && size.items >= 1 && size.items <= RING_ITEMS_MAX;
}

bool reader_map(struct ring_reader *reader, int file, struct ring_size size, size_t bytes_max) {
    struct stat status;
    int required = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;
    if (!is_size_valid(size)) return false;
    int seals = fcntl(file, F_GET_SEALS);
    if (seals < 0 || (seals & required) != required) return false;
    if (fstat(file, &status) != 0 || (uint64_t)status.st_size != memory_bytes(size)) return false;
    void *memory = mmap(NULL, memory_bytes(size), PROT_READ, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) return false;
    memset(reader, 0, sizeof *reader);
    reader->memory = memory;
    reader->size = size;
    reader->publication_bytes_max = bytes_max;
    if (load(memory, MAGIC_AT, memory_order_acquire) != MAGIC ||
        load(memory, SIZE_AT, memory_order_relaxed) != size.bytes ||
        load(memory, ITEMS_AT, memory_order_relaxed) != size.items) {
        reader_unmap(reader);
        return false;
    }
    reader->restarts = load(memory, RESTARTS_AT, memory_order_acquire);
    reader->cursor = load(memory, TAIL_AT, memory_order_acquire);
    return true;
}

void reader_unmap(struct ring_reader *reader) {
    for (size_t at = 0; at < reader->item_count; at++) free(reader->items[at].name);
    free(reader->items);
    free(reader->buffer);
    munmap((void *)reader->memory, memory_bytes(reader->size));
}

/* Returns the index of the first item that is not below `item`. */
static size_t item_index(const struct ring_reader *reader, uint32_t item) {
    size_t low = 0, high = reader->item_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (reader->items[middle].item < item)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct followed *reader_find(const struct ring_reader *reader, uint32_t item) {
    size_t at = item_index(reader, item);
    bool is_there = at < reader->item_count && reader->items[at].item == item;
    return is_there ? &reader->items[at] : NULL;
}

bool reader_follow(struct ring_reader *reader, uint32_t item, uint64_t position, uint64_t after,
                   char *name) {
    struct followed *known = reader_find(reader, item);
    void *items = reader->items;
    if (item >= reader->size.items ||
        (!known && !grow(&items, &reader->item_capacity, reader->item_count + 1,
                         sizeof *reader->items))) {
        free(name);
        return false;
    }
    if (reader->item_count == 0) {
        reader->cursor = position;
        reader->has_partial = reader->is_gapped = false;
    }
    if (known) {
        free(known->name);
        known->name = name;
        known->has_end = false;
        known->end = UINT64_MAX;
    } else {
        reader->items = items;
        size_t at = item_index(reader, item);
        memmove(reader->items + at + 1, reader->items + at,
                (reader->item_count - at) * sizeof *reader->items);
        reader->items[at] =
            (struct followed){.item = item, .last = after, .end = UINT64_MAX, .name = name};
        reader->item_count += 1;
        reader->items_by_bit[item % 64] += 1;
    }
    /* The records of a publication follow each other: within one nothing is read again. */
    bool is_within = reader->has_partial && reader->partial_start < position;
    if (position < reader->cursor && !is_within) {
        /* Publications of other items are not returned twice: their numbers are known. */
        reader->cursor = position;
        reader->has_partial = false;
    }
    return true;
}

void reader_unfollow(struct ring_reader *reader, struct followed *followed) {
    size_t at = (size_t)(followed - reader->items);
    free(followed->name);
    reader->items_by_bit[followed->item % 64] -= 1;
    reader->item_count -= 1;
    memmove(followed, followed + 1, (reader->item_count - at) * sizeof *followed);
}

uint64_t reader_wake_items(const struct ring_reader *reader) {
    uint64_t items = 0;
    for (unsigned bit = 0; bit < 64; bit++)
        if (reader->items_by_bit[bit]) items |= 1ull << bit;
    return items;
}

bool reader_has_records(const struct ring_reader *reader) {
    return load(reader->memory, TAIL_AT, memory_order_acquire) != reader->cursor;
}

/* Returns whether the bytes copied from a position may have been overwritten meanwhile. */
static bool is_overwritten(const struct ring_reader *reader, uint64_t position) {
    atomic_thread_fence(memory_order_acquire);
    return load(reader->memory, INTENT_AT, memory_order_relaxed) - position > reader->size.bytes;
}

static const uint8_t *ring_bytes(const struct ring_reader *reader, uint64_t position) {
    uint64_t offset = position & (reader->size.bytes - 1);
    return reader->memory + ring_data_at(reader->size) + offset;
}

enum taken { TAKEN, OVERWRITTEN, FAULTY, LEFT_OUT };

/* Copies the header at a position, which is at most a ring before `tail`. */
static enum taken read_header(const struct ring_reader *reader, uint64_t position, uint64_t tail,
                              struct record *record) {
    uint64_t last, offset = position & (reader->size.bytes - 1);
    uint8_t bytes[RECORD_HEAD_BYTES];
    if (position % RECORD_HEAD_BYTES) return FAULTY;
    memcpy(bytes, ring_bytes(reader, position), sizeof bytes);
    memcpy(&record->bytes, bytes, 4);
    memcpy(&record->item, bytes + 4, 4);
    memcpy(&record->sequence, bytes + 8, 8);
    memcpy(&record->total_bytes, bytes + 16, 8);
    memcpy(&last, bytes + 24, 8);
    record->offset = last >> 8;
    record->flags = (uint8_t)last;
    uint64_t length = record_bytes(record->bytes);
    if (offset + length <= reader->size.bytes && length <= tail - position) return TAKEN;
    /* Bytes of two records are not a fault. */
    return is_overwritten(reader, position) ? OVERWRITTEN : FAULTY;
}

/* Returns whether a record starts or continues a publication that can be assembled. */
static bool start_or_continue(struct ring_reader *reader, const struct record *record,
                              uint64_t position) {
    const struct record *partial = &reader->partial;
    bool had_partial = reader->has_partial;
    reader->has_partial = false;
    if (record->flags & FLAG_FIRST) {
        if (record->total_bytes > reader->publication_bytes_max) return false;
        if (record->bytes > record->total_bytes) return false;
        if (record->flags & FLAG_LAST && record->total_bytes != record->bytes) return false;
        reader->partial = *record;
        reader->partial_bytes = 0;
        reader->partial_start = position;
    } else {
        /* The offset has 56 bits and the length 32, so their sum fits. */
        uint64_t end = record->offset + record->bytes;
        if (!had_partial || partial->item != record->item) return false;
        if (partial->sequence != record->sequence) return false;
        if (partial->total_bytes != record->total_bytes) return false;
        if (reader->partial_bytes != record->offset || end > partial->total_bytes) return false;
        if (record->flags & FLAG_LAST && end != partial->total_bytes) return false;
    }
    void *buffer = reader->buffer;
    /* One byte at least, so that an empty payload has an address. */
    size_t needed = reader->partial_bytes + record->bytes + 1;
    if (!grow(&buffer, &reader->buffer_capacity, needed, 1)) return false;
    reader->buffer = buffer;
    return true;
}

/* Takes the record at the cursor and moves past it, unless it was overwritten. */
static enum taken take_record(struct ring_reader *reader, const struct record *record,
                              struct read_event *event) {
    uint64_t position = reader->cursor;
    struct followed *item = reader_find(reader, record->item);
    bool is_wanted = !(record->flags & FLAG_PAD) && item && record->sequence > item->last &&
                     record->sequence <= item->end;
    bool is_told = is_wanted && record->flags & (FLAG_MISSING | FLAG_ELSEWHERE);
    bool is_copied = is_wanted && !is_told && start_or_continue(reader, record, position);
    if (is_copied)
        memcpy(reader->buffer + reader->partial_bytes,
               ring_bytes(reader, position) + RECORD_HEAD_BYTES, record->bytes);
    if (is_overwritten(reader, position)) return OVERWRITTEN;
    reader->cursor += record_bytes(record->bytes);
    if (!is_told && !is_copied) return LEFT_OUT;
    if (is_copied) {
        reader->partial_bytes += record->bytes;
        reader->has_partial = !(record->flags & FLAG_LAST);
        if (reader->has_partial) return LEFT_OUT;
    }
    uint64_t passed = record->sequence - item->last;
    item->last = record->sequence;
    event->kind = is_copied ? READ_PUBLICATION : READ_LOSS;
    event->item = record->item;
    event->sequence = record->sequence;
    event->bytes = reader->partial_bytes;
    event->lost = is_told && record->flags & FLAG_MISSING ? passed : passed - 1;
    return event->kind == READ_LOSS && event->lost == 0 ? LEFT_OUT : TAKEN;
}

/* Moves to a later record: a mark that is still intact, else the end. Returns false if the ring
 * leads nowhere. */
static bool skip_overwritten(struct ring_reader *reader, uint64_t tail) {
    uint64_t mark = load(reader->memory, EARLIER_MARK_AT, memory_order_acquire);
    bool is_usable = mark > reader->cursor && mark <= tail &&
                     tail - mark <= (uint64_t)reader->size.bytes / 4 * 3;
    uint64_t target = is_usable ? mark : tail;
    reader->is_gapped = true;
    reader->has_partial = false;
    if (target <= reader->cursor || target % RECORD_HEAD_BYTES) return false;
    reader->cursor = target;
    return true;
}

/* Reports a loss that no later publication of its item reports, at the end of the ring. */
static struct read_event loss_at_end(struct ring_reader *reader) {
    struct read_event event = {.kind = READ_EMPTY};
    if (!reader->is_gapped) return event;
    for (size_t at = 0; at < reader->item_count; at++) {
        struct followed *item = &reader->items[at];
        uint64_t sequence = load(reader->memory, item_at(item->item), memory_order_acquire);
        /* A record that is being written is not lost: it will be read. */
        if (load(reader->memory, INTENT_AT, memory_order_acquire) != reader->cursor) return event;
        if (sequence > item->end) sequence = item->end;
        if (sequence <= item->last) continue;
        event = (struct read_event){READ_LOSS, item->item, 0, 0, sequence - item->last};
        item->last = sequence;
        return event;
    }
    reader->is_gapped = false;
    return event;
}

/* Returns a position at most at `tail` before which no record of an item is of interest, or
 * UINT64_MAX if its entry in the table does not tell. */
static uint64_t next_of(const struct ring_reader *reader, const struct followed *item,
                        uint64_t tail) {
    struct record record;
    if (item->last >= item->end) return tail;
    /* In this order: the number before a start is visible before it. */
    uint64_t start = load(reader->memory, item_at(item->item) + 8, memory_order_acquire) - 1;
    uint64_t sequence = load(reader->memory, item_at(item->item), memory_order_acquire);
    bool is_ahead = start != UINT64_MAX && start >= reader->cursor;
    /* One that starts after the cursor is known, or its last parts are to come. */
    if (sequence == item->last) return is_ahead && start < tail ? start : tail;
    if (sequence != item->last + 1 || !is_ahead || start >= tail) return UINT64_MAX;
    if (read_header(reader, start, tail, &record) != TAKEN) return UINT64_MAX;
    bool is_next = record.item == item->item && record.sequence == sequence &&
                   record.flags & FLAG_FIRST && !is_overwritten(reader, start);
    return is_next ? start : UINT64_MAX;
}

/* Moves past records of other items by the table of items, at most to `tail`, which was read
 * before. Returns whether it moved. */
static bool skip_others(struct ring_reader *reader, uint64_t tail) {
    uint64_t target = tail;
    if (reader->has_partial || reader->item_count > SKIP_ITEMS_MAX) return false;
    if (reader->cursor < reader->reads_all_until) return false;
    for (size_t at = 0; at < reader->item_count; at++) {
        uint64_t next = next_of(reader, &reader->items[at], tail);
        if (next == UINT64_MAX) return false;
        if (next < target) target = next;
    }
    /* After the entries: one that starts again is visible after the number of restarts. */
    uint64_t restarts = load(reader->memory, RESTARTS_AT, memory_order_acquire);
    if (restarts != reader->restarts) {
        reader->restarts = restarts;
        reader->reads_all_until = load(reader->memory, TAIL_AT, memory_order_acquire);
        return false;
    }
    if (target <= reader->cursor || target % RECORD_HEAD_BYTES) return false;
    reader->cursor = target;
    return true;
}

struct read_event reader_read(struct ring_reader *reader) {
    struct read_event event = {.kind = READ_SKIPPED};
    int others = 0;
    for (int count = 0; count < RECORDS_PER_CALL; count++) {
        uint64_t tail = load(reader->memory, TAIL_AT, memory_order_acquire);
        if (tail == reader->cursor) return loss_at_end(reader);
        struct record record;
        enum taken outcome = OVERWRITTEN;
        bool is_overrun = tail - reader->cursor > reader->size.bytes;
        if (is_overrun || others == OTHERS_MAX) {
            others = 0;
            if (skip_others(reader, tail)) continue;
        }
        if (!is_overrun) outcome = read_header(reader, reader->cursor, tail, &record);
        if (outcome == TAKEN) outcome = take_record(reader, &record, &event);
        if (outcome == TAKEN) return event;
        others += outcome == LEFT_OUT;
        if (outcome == FAULTY || (outcome == OVERWRITTEN && !skip_overwritten(reader, tail))) {
            event.kind = READ_FAULT;
            return event;
        }
    }
    event.kind = READ_SKIPPED;
    return event;
}

/* Reads the publication that starts at the cursor, if all of it is intact. */
static bool read_whole(struct ring_reader *reader, uint32_t item, uint64_t tail,
                       struct read_event *event) {
    for (int count = 0; count < RECORDS_PER_CALL && reader->cursor != tail; count++) {
        struct record record;
        if (read_header(reader, reader->cursor, tail, &record) != TAKEN) return false;
        enum taken outcome = take_record(reader, &record, event);
        if (outcome == TAKEN) return event->kind == READ_PUBLICATION && event->item == item;
        if (outcome != LEFT_OUT) return false;
    }
    return false;
}

uint8_t *reader_read_last(struct ring_reader *reader, uint32_t item, uint64_t *sequence,
                          size_t *bytes) {
    struct followed *followed = reader_find(reader, item);
    if (!followed) return NULL;
    uint64_t start = load(reader->memory, item_at(item) + 8, memory_order_acquire) - 1;
    uint64_t tail = load(reader->memory, TAIL_AT, memory_order_acquire);
    if (start == UINT64_MAX || tail - start > reader->size.bytes) return NULL;
    /* A second reader of the same memory, so that this one's progress and buffer stay. */
    struct followed only = {.item = item, .end = UINT64_MAX};
    struct ring_reader second = {.memory = reader->memory, .size = reader->size, .cursor = start,
                                 .items = &only, .item_count = 1,
                                 .publication_bytes_max = reader->publication_bytes_max};
    struct read_event event = {.kind = READ_EMPTY};
    if (!read_whole(&second, item, tail, &event)) {
        free(second.buffer);
        return NULL;
    }
    if (event.sequence > followed->last) followed->last = event.sequence;
    *sequence = event.sequence;
    *bytes = event.bytes;
    return second.buffer;
}
