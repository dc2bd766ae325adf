/* Datagrams over publish/subscribe. */
#include "namewire_datagram.h"
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Items announced at a time; beyond, that used the longest ago is withdrawn. */
enum { PEERS_MAX = 256, NAME_BYTES = 1024 };

struct peer {
    char label[NW_LABEL_BYTES];
    uint32_t item;
    uint64_t used;   /* Count of datagrams sent when this peer got its last one. */
};

struct nw_datagram_socket {
    nw_publisher *publisher;
    nw_subscriber *subscriber;
    char scope[NAME_BYTES];
    char label[NW_LABEL_BYTES];
    struct peer peers[PEERS_MAX];
    size_t peer_count;
    uint64_t sent;
    uint8_t gathered[NW_DATAGRAM_BYTES_MAX];
};

static bool is_label(const char *label) {
    size_t bytes = strnlen(label, NW_LABEL_BYTES);
    return bytes > 0 && bytes < NW_LABEL_BYTES && !strpbrk(label, "/*");
}

static int set_label(nw_datagram_socket *socket, const char *label) {
    uint64_t random;
    if (label && !is_label(label))
        return fail(NW_ARGUMENT, "a label has 1 to %d bytes, none of them / or *",
                    NW_LABEL_BYTES - 1);
    if (!label && getrandom(&random, sizeof random, 0) != sizeof random)
        return fail(NW_NO_MEMORY, "no random bytes");
    if (label)
        snprintf(socket->label, sizeof socket->label, "%s", label);
    else
        snprintf(socket->label, sizeof socket->label, "%016llx", (unsigned long long)random);
    return 0;
}

nw_datagram_socket *nw_datagram_open(const char *path, const char *scope, const char *label) {
    char pattern[NAME_BYTES];
    nw_datagram_socket *socket = calloc(1, sizeof *socket);
    if (!socket) {
        fail(NW_NO_MEMORY, "memory is short");
        return NULL;
    }
    int outcome = set_label(socket, label);
    if (outcome == 0 && strlen(scope) + 2 * NW_LABEL_BYTES + 4 > NAME_BYTES)
        outcome = fail(NW_ARGUMENT, "the scope is too long");
    if (outcome == 0) {
        snprintf(socket->scope, sizeof socket->scope, "%s", scope);
        /* The lengths are known to fit; the precision lets the compiler know as well. */
        snprintf(pattern, sizeof pattern, "%.800s/%s/*", scope, socket->label);
        socket->publisher = nw_publisher_open(path, NULL);
        socket->subscriber = socket->publisher ? nw_subscriber_open(path, NULL) : NULL;
    }
    if (socket->subscriber && nw_subscribe(socket->subscriber, pattern, false) > 0) return socket;
    nw_datagram_close(socket);
    return NULL;
}

void nw_datagram_close(nw_datagram_socket *socket) {
    if (!socket) return;
    nw_publisher_close(socket->publisher);
    nw_subscriber_close(socket->subscriber);
    free(socket);
}

const char *nw_datagram_label(const nw_datagram_socket *socket) { return socket->label; }

uint64_t nw_datagrams_lost(const nw_datagram_socket *socket) {
    return nw_counts(socket->subscriber).lost;
}

/* Returns a free entry for a peer. */
static struct peer *free_peer(nw_datagram_socket *socket) {
    if (socket->peer_count < PEERS_MAX) return &socket->peers[socket->peer_count++];
    struct peer *oldest = socket->peers;
    for (size_t at = 1; at < PEERS_MAX; at++)
        if (socket->peers[at].used < oldest->used) oldest = &socket->peers[at];
    nw_withdraw(socket->publisher, oldest->item);
    return oldest;
}

/* Returns the peer with a label; announces its item with the first datagram. */
static struct peer *find_peer(nw_datagram_socket *socket, const char *label) {
    char name[NAME_BYTES];
    for (size_t at = 0; at < socket->peer_count; at++)
        if (strcmp(socket->peers[at].label, label) == 0) return &socket->peers[at];
    snprintf(name, sizeof name, "%.800s/%s/%s", socket->scope, label, socket->label);
    struct peer *peer = free_peer(socket);
    /* A datagram is for those who wait for it, so the node keeps no last value. */
    int64_t item = nw_announce(socket->publisher, name, false);
    if (item < 0) {
        *peer = socket->peers[--socket->peer_count];
        return NULL;
    }
    snprintf(peer->label, sizeof peer->label, "%s", label);
    peer->item = (uint32_t)item;
    return peer;
}

ssize_t nw_sendto(nw_datagram_socket *socket, const void *bytes, size_t count, const char *to) {
    if (!to || !is_label(to)) return fail(NW_ARGUMENT, "the label of the receiver is invalid");
    if (count > NW_DATAGRAM_BYTES_MAX)
        return fail(NW_ARGUMENT, "a datagram has at most %d bytes", NW_DATAGRAM_BYTES_MAX);
    struct peer *peer = find_peer(socket, to);
    if (!peer) return NW_REFUSED;
    peer->used = ++socket->sent;
    int64_t outcome = nw_publish(socket->publisher, peer->item, bytes, count);
    return outcome < 0 ? (ssize_t)outcome : (ssize_t)count;
}

ssize_t nw_sendmsg(nw_datagram_socket *socket, const struct msghdr *message) {
    size_t count = 0;
    for (size_t at = 0; at < message->msg_iovlen; at++) {
        const struct iovec *part = &message->msg_iov[at];
        if (part->iov_len > NW_DATAGRAM_BYTES_MAX - count)
            return fail(NW_ARGUMENT, "a datagram has at most %d bytes", NW_DATAGRAM_BYTES_MAX);
        if (part->iov_len) memcpy(socket->gathered + count, part->iov_base, part->iov_len);
        count += part->iov_len;
    }
    return nw_sendto(socket, socket->gathered, count, message->msg_name);
}

/* Copies a datagram into the parts of a message. Returns the bytes that fit. */
static size_t scatter(const struct nw_received *received, struct msghdr *message) {
    size_t done = 0;
    for (size_t at = 0; at < message->msg_iovlen && done < received->payload_bytes; at++) {
        struct iovec *part = &message->msg_iov[at];
        size_t left = received->payload_bytes - done;
        size_t count = part->iov_len < left ? part->iov_len : left;
        if (count) memcpy(part->iov_base, (const uint8_t *)received->payload + done, count);
        done += count;
    }
    message->msg_flags = done < received->payload_bytes ? MSG_TRUNC : 0;
    return done;
}

ssize_t nw_recvmsg(nw_datagram_socket *socket, struct msghdr *message, int timeout_ms) {
    uint64_t deadline = now_us() + 1000ull * (unsigned)(timeout_ms < 0 ? 0 : timeout_ms);
    for (;;) {
        struct nw_received received;
        uint64_t now = now_us();
        int left_ms = timeout_ms;
        if (timeout_ms >= 0) left_ms = now < deadline ? (int)((deadline - now + 999) / 1000) : 0;
        int found = nw_receive(socket->subscriber, &received, left_ms);
        if (found < 0) return found;
        if (found == NW_NOTHING) return fail(NW_TIMEOUT, "nothing arrived in time");
        if (found == NW_LOSS) continue;
        const char *from = strrchr(received.name, '/');
        if (message->msg_name && message->msg_namelen)
            snprintf(message->msg_name, message->msg_namelen, "%s", from ? from + 1 : "");
        return (ssize_t)scatter(&received, message);
    }
}

ssize_t nw_recvfrom(nw_datagram_socket *socket, void *bytes, size_t count, char *from,
                    int timeout_ms) {
    struct iovec part = {bytes, count};
    struct msghdr message = {.msg_name = from, .msg_namelen = from ? NW_LABEL_BYTES : 0,
                             .msg_iov = &part, .msg_iovlen = 1};
    return nw_recvmsg(socket, &message, timeout_ms);
}
