/* Datagrams over publish/subscribe, for programs that expect the sockets of UDP.
 *
 * An endpoint has a label below a scope. What endpoint B sends to A is the item /SCOPE/A/B, which
 * A subscribes to; the item of the answers has the labels exchanged, so both ends compute it and
 * nothing is agreed upon. As with UDP, datagrams may be lost, and arrive whole or not at all. Their
 * order is kept, none arrives twice, and losses are counted.
 */
#ifndef NAMEWIRE_DATAGRAM_H
#define NAMEWIRE_DATAGRAM_H

#include "namewire_pubsub.h"

#include <sys/socket.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of a label and its final zero at most, and of a datagram at most, as with UDP. */
#define NW_LABEL_BYTES 64
#define NW_DATAGRAM_BYTES_MAX 65507

typedef struct nw_datagram_socket nw_datagram_socket;

/* Opens an endpoint, such as "server" below "/files". `label` NULL: a random one. Returns NULL on
 * failure. */
nw_datagram_socket *nw_datagram_open(const char *path, const char *scope, const char *label);

/* Ends the endpoint. NULL is permitted. */
void nw_datagram_close(nw_datagram_socket *socket);

/* Returns the endpoint's own label. */
const char *nw_datagram_label(const nw_datagram_socket *socket);

/* Returns the datagrams to this endpoint that were lost. */
uint64_t nw_datagrams_lost(const nw_datagram_socket *socket);

/* Sends a datagram to the endpoint with a label. Returns its bytes, or an nw_error. */
ssize_t nw_sendto(nw_datagram_socket *socket, const void *bytes, size_t count, const char *to);

/* Receives a datagram, at most `timeout_ms`; forever if negative. Bytes beyond `count` are lost.
 * `from` has NW_LABEL_BYTES and gets the sender's label, or is NULL. Returns the bytes received,
 * NW_TIMEOUT if nothing arrived in time, or an nw_error. */
ssize_t nw_recvfrom(nw_datagram_socket *socket, void *bytes, size_t count, char *from,
                    int timeout_ms);

/* As sendmsg: the parts of `message` are one datagram, `msg_name` is the label of the receiver. */
ssize_t nw_sendmsg(nw_datagram_socket *socket, const struct msghdr *message);

/* As recvmsg: fills the parts in their order, `msg_name` with the sender's label, and `msg_flags`
 * with MSG_TRUNC if the datagram was longer. */
ssize_t nw_recvmsg(nw_datagram_socket *socket, struct msghdr *message, int timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
