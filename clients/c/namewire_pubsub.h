/* Publish/subscribe of a Namewire node, for C.
 *
 * Publications go through a ring in shared memory, as between programs in Rust and Python. A
 * publisher and a subscriber each belong to one thread at a time. Needs Linux 5.1 and a
 * little-endian processor; no library but libc. Tests: tests/pubsub/test_c.py.
 */
#ifndef NAMEWIRE_PUBSUB_H
#define NAMEWIRE_PUBSUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a call returns if it fails; nw_error_text has a sentence. */
enum nw_error {
    NW_NO_NODE = -1,    /* No node listens at the path. */
    NW_CLOSED = -2,     /* The connection to the node is lost. */
    NW_REFUSED = -3,    /* The node refused the request; nw_refusal_code says which way. */
    NW_TIMEOUT = -4,    /* The node does not reply. */
    NW_PROTOCOL = -5,   /* The node is of another version, or sent an invalid message. */
    NW_NO_MEMORY = -6,  /* Memory or shared memory can't be allocated. */
    NW_ARGUMENT = -7    /* An argument is invalid. */
};

/* What nw_receive found. */
enum nw_kind { NW_NOTHING = 0, NW_PUBLICATION = 1, NW_LOSS = 2 };

/* How to connect; fields that are 0 have the default. */
struct nw_options {
    const char *program;          /* Name for the node's status; default "c". */
    bool without_shared_memory;   /* Publications go through the node. */
    uint32_t ring_bytes;          /* A publisher's ring; rounded up to a power of two; 1 MiB. */
    uint32_t wait_ms;             /* How long a publisher waits for a subscriber that reads
                                     nothing; 0: the oldest publications are overwritten, and
                                     the subscriber is told how many it lost. */
    size_t publication_bytes_max; /* Larger publications count as lost; default 256 MiB. */
};

/* What arrived. The pointers are valid until the next call with the same subscriber. */
struct nw_received {
    const char *name;       /* Name of the item. */
    uint64_t sequence;      /* Number within the item, from 1; 0 for a loss. */
    const void *payload;    /* The bytes; not NULL for a publication. */
    size_t payload_bytes;
    uint64_t lost;          /* Publications of this item lost since the one before. */
    bool is_last_value;     /* Whether the publication is older than the subscription. */
};

/* Publications of all items. */
struct nw_counts {
    uint64_t delivered;
    uint64_t lost;
};

typedef struct nw_publisher nw_publisher;
typedef struct nw_subscriber nw_subscriber;

/* Returns a sentence about the last failure of this thread. */
const char *nw_error_text(void);

/* Returns the node's code of the last refusal of this thread: 1 invalid name, 2 exists,
 * 3 missing, 4 forbidden, 5 full, 6 unknown, 7 mismatch. */
int nw_refusal_code(void);

/* Connects a publisher. `options` may be NULL. Returns NULL on failure. */
nw_publisher *nw_publisher_open(const char *path, const struct nw_options *options);

/* Ends the connection and its items. The node keeps last values. NULL is permitted. */
void nw_publisher_close(nw_publisher *publisher);

/* Announces an item with the strategy of its scope. `keeps_last`: late subscribers get the last
 * publication first. Returns its number or an nw_error. */
int64_t nw_announce(nw_publisher *publisher, const char *name, bool keeps_last);

/* Which nodes publications reach. */
enum nw_strategy {
    NW_DOMAIN = 0,    /* All that have subscribed. */
    NW_NODE = 1,      /* The publisher's node. */
    NW_LINK = 2,      /* Nodes on its links that have subscribed. */
    NW_BROADCAST = 3, /* All nodes on its links. */
    NW_INHERITED = 4, /* As for the scope above; else all that have subscribed. */
    NW_IMPLICIT = 5   /* Those that nw_set_route_like or nw_set_route_path says. */
};

/* Announces an item as nw_announce does, with a strategy. */
int64_t nw_announce_with(nw_publisher *publisher, const char *name, bool keeps_last,
                         enum nw_strategy strategy);

/* Which of several publishers of an item serve a subscriber. One that stands by has no
 * subscribers. */
enum nw_choice {
    NW_AS_OTHERS = 0, /* As other publishers of the item have chosen; else all. */
    NW_ALL = 1,       /* All of them. */
    NW_NEAREST = 2,   /* The one with the fewest links to the subscriber's node. */
    NW_STRONGEST = 3  /* The one with the greatest strength. */
};

/* Options of an item. */
struct nw_item_options {
    bool without_last;         /* Late subscribers do not get the last publication. */
    enum nw_strategy strategy; /* Which nodes its publications reach. */
    enum nw_choice choice;
    uint32_t strength; /* Of this publisher, for NW_STRONGEST. */
};

/* Announces an item as nw_announce does, with options. */
int64_t nw_announce_item(nw_publisher *publisher, const char *name,
                         const struct nw_item_options *options);

/* Withdraws an item. Returns 0 or an nw_error. */
int nw_withdraw(nw_publisher *publisher, uint32_t item);

/* Publishes a scope: items announced below it have its strategy. Returns 0 or an nw_error. */
int nw_publish_scope(nw_publisher *publisher, const char *name, enum nw_strategy strategy);

/* Withdraws a scope, and the parents that this publisher gave it. Returns 0 or an nw_error. */
int nw_withdraw_scope(nw_publisher *publisher, const char *name);

/* Publishes an existing scope, or an item of this publisher, under a further scope. Returns 0 or an
 * nw_error. */
int nw_add_parent(nw_publisher *publisher, const char *name, const char *parent);

/* Ends what nw_add_parent did; other parents stay. Returns 0 or an nw_error. */
int nw_remove_parent(nw_publisher *publisher, const char *name, const char *parent);

/* Sends publications of an item with NW_IMPLICIT to the nodes that subscribe to `name`; NULL: to no
 * other node. Returns 0 or an nw_error. */
int nw_set_route_like(nw_publisher *publisher, uint32_t item, const char *name);

/* Sends publications of an item with NW_IMPLICIT along a forwarding identifier, the bytes that
 * `nw pubsub trace` shows. Returns 0 or an nw_error. */
int nw_set_route_path(nw_publisher *publisher, uint32_t item, const uint8_t path[34]);

/* Bytes of a derived name at most, with the zero at its end. */
#define NW_NAME_BYTES 1025

/* Writes the name of an item that is derived from another one: beside it, with a label of the whole
 * name and a number, which both ends compute. Returns 0 or an nw_error. */
int nw_derived_name(char out[NW_NAME_BYTES], const char *name, uint64_t number);

/* Returns the number of subscribers of an item, applications of this node and other nodes, or an
 * nw_error. */
int64_t nw_subscriber_count(nw_publisher *publisher, uint32_t item);

/* Publishes. Returns the sequence number within the item, or an nw_error. */
int64_t nw_publish(nw_publisher *publisher, uint32_t item, const void *payload, size_t bytes);

/* Waits until all readers have read everything, at most `timeout_ms`. Returns 1 if they have, 0
 * if not, or an nw_error. */
int nw_drain(nw_publisher *publisher, uint32_t timeout_ms);

/* Returns how often readers that waited were woken. */
uint64_t nw_wakeups(const nw_publisher *publisher);

/* Connects a subscriber. `options` may be NULL. Returns NULL on failure. */
nw_subscriber *nw_subscriber_open(const char *path, const struct nw_options *options);

/* Ends the connection. NULL is permitted. */
void nw_subscriber_close(nw_subscriber *subscriber);

/* Subscribes to a name or pattern such as "/sensors/" followed by "**". `wants_last`: the last
 * publication of each item comes first, also of publishers that have ended. Returns the number of
 * the subscription or an nw_error. */
int64_t nw_subscribe(nw_subscriber *subscriber, const char *pattern, bool wants_last);

/* Subscribes as nw_subscribe does; the last `history` publications of each item come first, as far
 * as the ring of its publisher still has them. */
int64_t nw_subscribe_from(nw_subscriber *subscriber, const char *pattern, uint32_t history);

/* Subscribes as nw_subscribe_from does, but other nodes are not told: for items with
 * NW_IMPLICIT, and for those of this node alone. */
int64_t nw_subscribe_here(nw_subscriber *subscriber, const char *pattern, uint32_t history);

/* Ends a subscription. Returns 0 or an nw_error. */
int nw_unsubscribe(nw_subscriber *subscriber, uint32_t subscription);

/* Waits for the next publication or loss, at most `timeout_ms`; forever if negative. Returns an
 * nw_kind, or an nw_error once everything before it is returned. */
int nw_receive(nw_subscriber *subscriber, struct nw_received *received, int timeout_ms);

/* Returns the publications received and lost so far. */
struct nw_counts nw_counts(const nw_subscriber *subscriber);

#ifdef __cplusplus
}
#endif

#endif
