/* The socket to a node: frames with descriptors, requests and replies, and the reader page. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* Bytes per read, and reads per update: a node that sends without end can't keep a call busy. */
enum { RECEIVE_BYTES = 64 << 10, READS_PER_UPDATE = 64 };
enum { AWAKE = 0, WAITS_BY_FUTEX = 1, WAITS_BY_MESSAGE = 2 };

static _Thread_local char error_text[512];
static _Thread_local int refusal_code;

const char *nw_error_text(void) { return error_text; }

int nw_refusal_code(void) { return refusal_code; }

void set_refusal_code(int code) { refusal_code = code; }

int fail(int error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error_text, sizeof error_text, format, arguments);
    va_end(arguments);
    return error;
}

uint64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void sleep_us(unsigned us) {
    struct timespec pause = {us / 1000000, (long)(us % 1000000) * 1000};
    nanosleep(&pause, NULL);
}

bool grow(void **array, size_t *capacity, size_t needed, size_t entry_bytes) {
    if (needed <= *capacity) return true;
    size_t larger = *capacity ? *capacity * 2 : 16;
    if (larger < needed) larger = needed;
    void *moved = realloc(*array, larger * entry_bytes);
    if (!moved) return false;
    *array = moved;
    *capacity = larger;
    return true;
}

/* --- bodies --- */

const uint8_t *take_bytes(struct body *body, size_t bytes) {
    if (body->is_bad || bytes > body->left) {
        body->is_bad = true;
        return NULL;
    }
    const uint8_t *taken = body->at;
    body->at += bytes;
    body->left -= bytes;
    return taken;
}

static uint64_t take_number(struct body *body, size_t bytes) {
    const uint8_t *taken = take_bytes(body, bytes);
    uint64_t value = 0;
    if (taken) memcpy(&value, taken, bytes);
    return value;
}

uint16_t take_u16(struct body *body) { return (uint16_t)take_number(body, 2); }

uint32_t take_u32(struct body *body) { return (uint32_t)take_number(body, 4); }

uint64_t take_u64(struct body *body) { return take_number(body, 8); }

bool take_bool(struct body *body) {
    uint64_t value = take_number(body, 1);
    body->is_bad |= value > 1;
    return value == 1;
}

char *take_text(struct body *body) {
    size_t bytes = take_u16(body);
    const uint8_t *taken = take_bytes(body, bytes);
    char *text = taken ? malloc(bytes + 1) : NULL;
    if (!text) return NULL;
    memcpy(text, taken, bytes);
    text[bytes] = 0;
    return text;
}

bool is_body_whole(const struct body *body) { return !body->is_bad && body->left == 0; }

void put(struct fields *fields, uint64_t value, size_t bytes) {
    memcpy(fields->bytes + fields->len, &value, bytes);
    fields->len += bytes;
}

/* --- reader pages --- */

static _Atomic uint32_t *page_word(const struct reader_page *page, size_t at) {
    return (_Atomic uint32_t *)(void *)(page->memory + at);
}

static _Atomic uint64_t *slot_word(const struct reader_page *page, uint32_t slot, size_t at) {
    size_t index = slot < SLOTS_MAX ? slot : SLOTS_MAX - 1;
    return (_Atomic uint64_t *)(void *)(page->memory + (index + 1) * 64 + at);
}

int page_create(struct reader_page *page) {
    int file = memfd_create("nw-shm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0) return -1;
    if (ftruncate(file, PAGE_BYTES) == 0 &&
        fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0 &&
        page_map(page, file))
        return file;
    close(file);
    return -1;
}

bool page_map(struct reader_page *page, int file) {
    struct stat status;
    int seals = fcntl(file, F_GET_SEALS);
    int required = F_SEAL_SHRINK | F_SEAL_GROW;
    if (seals < 0 || (seals & required) != required) return false;
    if (fstat(file, &status) != 0 || status.st_size != PAGE_BYTES) return false;
    void *memory = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) return false;
    page->memory = memory;
    return true;
}

void page_unmap(struct reader_page *page) { munmap(page->memory, PAGE_BYTES); }

uint32_t page_mail(const struct reader_page *page) {
    return atomic_load_explicit(page_word(page, 8), memory_order_acquire);
}

void page_announce_wait(struct reader_page *page) {
    atomic_store_explicit(page_word(page, 0), WAITS_BY_FUTEX, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
}

void page_end_wait(struct reader_page *page) {
    atomic_store_explicit(page_word(page, 0), AWAKE, memory_order_relaxed);
}

void page_wait(struct reader_page *page, uint64_t timeout_us) {
    struct timespec limit = {(time_t)(timeout_us / 1000000), (long)(timeout_us % 1000000) * 1000};
    syscall(SYS_futex, page->memory, FUTEX_WAIT, WAITS_BY_FUTEX, &limit, NULL, 0);
    page_end_wait(page);
}

enum wakeup page_wake(struct reader_page *page) {
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(page_word(page, 0), memory_order_relaxed) == AWAKE)
        return WAKEUP_UNNEEDED;
    uint32_t waits = atomic_exchange_explicit(page_word(page, 0), AWAKE, memory_order_relaxed);
    if (waits == WAITS_BY_FUTEX) syscall(SYS_futex, page->memory, FUTEX_WAKE, 1, NULL, NULL, 0);
    return waits == WAITS_BY_MESSAGE ? WAKEUP_BY_MESSAGE : WAKEUP_DONE;
}

enum wakeup page_wake_for(struct reader_page *page, uint32_t slot, uint32_t item) {
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(page_word(page, 0), memory_order_relaxed) == AWAKE)
        return WAKEUP_UNNEEDED;
    uint64_t items = atomic_load_explicit(slot_word(page, slot, 24), memory_order_acquire);
    return items == 0 || items >> item % 64 & 1 ? page_wake(page) : WAKEUP_UNNEEDED;
}

void page_set_items(struct reader_page *page, uint32_t slot, uint64_t items) {
    atomic_store_explicit(slot_word(page, slot, 24), items, memory_order_release);
}

void page_report(struct reader_page *page, uint32_t slot, uint64_t cursor,
                 struct nw_counts counts) {
    atomic_store_explicit(slot_word(page, slot, 8), counts.delivered, memory_order_relaxed);
    atomic_store_explicit(slot_word(page, slot, 16), counts.lost, memory_order_relaxed);
    atomic_store_explicit(slot_word(page, slot, 0), cursor, memory_order_release);
}

uint64_t page_cursor(const struct reader_page *page, uint32_t slot) {
    return atomic_load_explicit(slot_word(page, slot, 0), memory_order_acquire);
}

/* --- frames --- */

static int end_connection(struct connection *connection, int failure, const char *reason) {
    connection->failure = failure;
    return fail(failure, "connection to the node lost: %s", reason);
}

static void take_frame(struct connection *connection, uint8_t kind, struct body body, int file) {
    if (kind == EVENT_WELCOME) {
        connection->version = take_u16(&body);
        take_u64(&body);
        connection->ring_bytes_max = take_u32(&body);
        connection->items_max = take_u32(&body);
        connection->has_welcome = is_body_whole(&body);
    } else if (kind == EVENT_REPLY) {
        uint32_t request = take_u32(&body);
        int code = take_u16(&body);
        size_t bytes = take_u16(&body);
        const uint8_t *text = take_bytes(&body, bytes);
        if (!text || request != connection->reply_request) return;
        connection->reply_code = code;
        connection->has_reply = true;
        if (code) fail(NW_REFUSED, "the node refused: %.*s", (int)bytes, (const char *)text);
    } else {
        connection->handle(connection->owner, kind, &body, file);
    }
}

/* Handles whole frames among the received bytes. Returns false if the framing is violated. */
static bool take_frames(struct connection *connection) {
    size_t at = 0;
    bool is_valid = true;
    while (connection->received_bytes - at >= FRAME_HEAD_BYTES) {
        const uint8_t *head = connection->received + at;
        uint32_t bytes;
        memcpy(&bytes, head, 4);
        if (bytes < 2 || bytes > FRAME_BYTES_MAX || head[4] > 1) {
            is_valid = false;
            break;
        }
        if (connection->received_bytes - at < 4 + (size_t)bytes) break;
        int file = -1;
        if (head[4]) {
            if (connection->file_count == 0) {
                is_valid = false;
                break;
            }
            file = connection->files[0];
            connection->file_count -= 1;
            memmove(connection->files, connection->files + 1,
                    connection->file_count * sizeof connection->files[0]);
        }
        take_frame(connection, head[5], (struct body){head + 6, bytes - 2, false}, file);
        if (file >= 0) close(file);
        at += 4 + (size_t)bytes;
    }
    connection->received_bytes -= at;
    memmove(connection->received, connection->received + at, connection->received_bytes);
    return is_valid;
}

/* Keeps received descriptors; those beyond the bound are closed, and a frame will miss them. */
static void take_files(struct connection *connection, struct msghdr *message) {
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t at = 0; at < count; at++) {
            int file;
            memcpy(&file, CMSG_DATA(part) + at * sizeof file, sizeof file);
            if (connection->file_count < FILES_MAX)
                connection->files[connection->file_count++] = file;
            else
                close(file);
        }
    }
}

/* Reads once. Returns 1 if bytes arrived, 0 if there are none, or the failure. */
static int read_once(struct connection *connection) {
    size_t needed = connection->received_bytes + RECEIVE_BYTES;
    void *received = connection->received;
    if (!grow(&received, &connection->received_capacity, needed, 1))
        return end_connection(connection, NW_NO_MEMORY, "memory is short");
    connection->received = received;
    union {
        struct cmsghdr align;
        uint8_t bytes[CMSG_SPACE(16 * sizeof(int))];
    } control;
    struct iovec bytes = {connection->received + connection->received_bytes, RECEIVE_BYTES};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t count;
    do {
        count = recvmsg(connection->socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (count < 0 && errno == EINTR);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
    if (count < 0) return end_connection(connection, NW_CLOSED, strerror(errno));
    if (count == 0)
        return end_connection(connection, NW_CLOSED, "the node has closed the connection");
    take_files(connection, &message);
    connection->received_bytes += (size_t)count;
    if (!take_frames(connection))
        return end_connection(connection, NW_PROTOCOL, "the node sent an invalid frame");
    return 1;
}

int connection_update(struct connection *connection) {
    if (connection->failure) return connection->failure;
    if (connection->has_page) connection->last_mail = page_mail(&connection->page);
    int outcome = 1;
    for (int reads = 0; outcome > 0 && reads < READS_PER_UPDATE; reads++)
        outcome = read_once(connection);
    connection->has_more = outcome > 0;
    return outcome < 0 ? outcome : 0;
}

bool connection_has_mail(const struct connection *connection) {
    return connection->has_more || !connection->has_page ||
           page_mail(&connection->page) != connection->last_mail;
}

static void poll_socket(struct connection *connection, short events, uint64_t timeout_us) {
    struct pollfd one = {connection->socket, events, 0};
    poll(&one, 1, (int)((timeout_us + 999) / 1000));
}

void connection_poll(struct connection *connection, uint64_t timeout_us) {
    poll_socket(connection, POLLIN, timeout_us);
}

/* Sends once from `start`. Returns the bytes sent, 0 if the socket is full, or -1. */
static ssize_t send_once(int socket, const struct iovec parts[2], size_t start, int file) {
    struct iovec rest[2];
    for (int at = 0; at < 2; at++) {
        size_t skipped = start < parts[at].iov_len ? start : parts[at].iov_len;
        rest[at].iov_base = skipped ? (uint8_t *)parts[at].iov_base + skipped : parts[at].iov_base;
        rest[at].iov_len = parts[at].iov_len - skipped;
        start -= skipped;
    }
    union {
        struct cmsghdr align;
        uint8_t bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = rest, .msg_iovlen = 2};
    if (file >= 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *part = CMSG_FIRSTHDR(&message);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(sizeof file);
        memcpy(CMSG_DATA(part), &file, sizeof file);
    }
    ssize_t sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return 0;
    return sent;
}

int connection_send(struct connection *connection, uint8_t kind, const struct fields *fields,
                    const void *payload, size_t payload_bytes, int file) {
    if (connection->failure) return connection->failure;
    size_t bytes = fields->len + payload_bytes + 2;
    if (bytes > FRAME_BYTES_MAX) return fail(NW_ARGUMENT, "the message is too long");
    struct fields head = {.len = 0};
    put(&head, bytes, 4);
    put(&head, file >= 0, 1);
    put(&head, kind, 1);
    memcpy(head.bytes + head.len, fields->bytes, fields->len);
    head.len += fields->len;
    struct iovec parts[2] = {{head.bytes, head.len}, {(void *)payload, payload_bytes}};
    uint64_t deadline = now_us() + REPLY_TIMEOUT_MS * 1000ull;
    for (size_t sent = 0; sent < head.len + payload_bytes;) {
        ssize_t count = send_once(connection->socket, parts, sent, sent ? -1 : file);
        if (count < 0) return end_connection(connection, NW_CLOSED, strerror(errno));
        sent += (size_t)count;
        if (count > 0) continue;
        if (now_us() > deadline)
            return end_connection(connection, NW_TIMEOUT, "the node does not read");
        /* The node may be waiting for this end to read. */
        poll_socket(connection, POLLIN | POLLOUT, SLICE_MS * 1000);
        int outcome = connection_update(connection);
        if (outcome < 0) return outcome;
    }
    return 0;
}

static int await_reply(struct connection *connection, const bool *has_arrived) {
    uint64_t deadline = now_us() + REPLY_TIMEOUT_MS * 1000ull;
    while (!*has_arrived) {
        if (connection->failure) return connection->failure;
        if (now_us() > deadline) return fail(NW_TIMEOUT, "the node does not reply");
        poll_socket(connection, POLLIN, SLICE_MS * 1000);
        connection_update(connection);
    }
    return 0;
}

int connection_request(struct connection *connection, uint8_t kind, const struct fields *fields,
                       const char *text) {
    struct fields body = {.len = 0};
    size_t text_bytes = text ? strlen(text) : 0;
    if (text_bytes > UINT16_MAX) return fail(NW_ARGUMENT, "the name is too long");
    connection->reply_request = ++connection->last_request;
    connection->has_reply = false;
    put(&body, connection->reply_request, 4);
    memcpy(body.bytes + body.len, fields->bytes, fields->len);
    body.len += fields->len;
    if (text) put(&body, text_bytes, 2);
    int outcome = connection_send(connection, kind, &body, text, text_bytes, -1);
    if (outcome == 0) outcome = await_reply(connection, &connection->has_reply);
    if (outcome < 0) return outcome;
    set_refusal_code(connection->reply_code);
    return connection->reply_code ? NW_REFUSED : 0;
}

int connection_request_pair(struct connection *connection, uint8_t kind, const char *first,
                            const char *second) {
    char texts[2 * 1024 + 2];
    struct fields fields = {.len = 0};
    size_t first_bytes = strlen(first), second_bytes = strlen(second);
    if (first_bytes > 1024 || second_bytes > 1024)
        return fail(NW_ARGUMENT, "a name has at most 1024 bytes");
    connection->reply_request = ++connection->last_request;
    connection->has_reply = false;
    put(&fields, connection->reply_request, 4);
    put(&fields, first_bytes, 2);
    memcpy(texts, first, first_bytes);
    texts[first_bytes] = (char)(second_bytes & 255);
    texts[first_bytes + 1] = (char)(second_bytes >> 8);
    memcpy(texts + first_bytes + 2, second, second_bytes);
    size_t bytes = first_bytes + 2 + second_bytes;
    int outcome = connection_send(connection, kind, &fields, texts, bytes, -1);
    if (outcome == 0) outcome = await_reply(connection, &connection->has_reply);
    if (outcome < 0) return outcome;
    set_refusal_code(connection->reply_code);
    return connection->reply_code ? NW_REFUSED : 0;
}

static int connect_to(struct connection *connection, const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t bytes = strlen(path);
    if (bytes >= sizeof address.sun_path)
        return fail(NW_ARGUMENT, "the path is too long: %s", path);
    memcpy(address.sun_path, path, bytes);
    connection->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection->socket >= 0 &&
        connect(connection->socket, (struct sockaddr *)&address, sizeof address) == 0)
        return 0;
    return fail(NW_NO_NODE,
                "no node with publish/subscribe at %s (%s); start one with: nw run, with [pubsub] "
                "enabled = true in its configuration",
                path, strerror(errno));
}

/* `connection->has_page` says whether to create a page. */
int connection_open(struct connection *connection, const char *path, const char *program) {
    bool wants_page = connection->has_page;
    int page_file = -1;
    connection->has_page = false;
    int outcome = connect_to(connection, path);
    if (outcome < 0) return outcome;
    if (wants_page) {
        page_file = page_create(&connection->page);
        if (page_file < 0)
            return fail(NW_NO_MEMORY, "can't create shared memory: %s", strerror(errno));
        connection->has_page = true;
    }
    struct fields hello = {.len = 0};
    size_t bytes = strnlen(program, UINT8_MAX);
    put(&hello, PROTOCOL_VERSION, 2);
    put(&hello, bytes, 2);
    outcome = connection_send(connection, REQUEST_HELLO, &hello, program, bytes, page_file);
    if (page_file >= 0) close(page_file);
    if (outcome == 0) outcome = await_reply(connection, &connection->has_welcome);
    if (outcome == 0 && connection->version != PROTOCOL_VERSION)
        return fail(NW_PROTOCOL, "the node has version %u of the protocol, not %d",
                    connection->version, PROTOCOL_VERSION);
    return outcome;
}

void connection_close(struct connection *connection) {
    if (connection->socket >= 0) close(connection->socket);
    for (unsigned at = 0; at < connection->file_count; at++) close(connection->files[at]);
    if (connection->has_page) page_unmap(&connection->page);
    free(connection->received);
}
