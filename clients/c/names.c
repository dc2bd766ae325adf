/* Derived names. A label is the first 8 bytes of the SHA-256 digest (FIPS 180-4) of a component. */
#include "internal.h"
#include "namewire_pubsub.h"

#include <stdio.h>
#include <string.h>

#define COMPONENTS_MAX 32
#define LABEL_BYTES 8

static const uint32_t ROUNDS[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t word, int bits) { return word >> bits | word << (32 - bits); }

static void add_block(uint32_t state[8], const uint8_t block[64]) {
    uint32_t words[64], s[8];
    for (int at = 0; at < 16; at++)
        words[at] = (uint32_t)block[4 * at] << 24 | (uint32_t)block[4 * at + 1] << 16 |
                    (uint32_t)block[4 * at + 2] << 8 | block[4 * at + 3];
    for (int at = 16; at < 64; at++) {
        uint32_t a = words[at - 15], b = words[at - 2];
        words[at] = words[at - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + words[at - 7] +
                    (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    memcpy(s, state, sizeof s);
    for (int at = 0; at < 64; at++) {
        uint32_t one = s[7] + (rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25)) +
                       ((s[4] & s[5]) ^ (~s[4] & s[6])) + ROUNDS[at] + words[at];
        uint32_t two = (rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22)) +
                       ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += one;
        s[0] = one + two;
    }
    for (int at = 0; at < 8; at++) state[at] += s[at];
}

/* Writes the first 8 bytes of the digest of `bytes`. */
static void write_label(uint8_t label[LABEL_BYTES], const uint8_t *bytes, size_t len) {
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    uint8_t last[128] = {0};
    size_t whole = len / 64 * 64, rest = len - whole, end = rest < 56 ? 64 : 128;
    for (size_t at = 0; at < whole; at += 64) add_block(state, bytes + at);
    memcpy(last, bytes + whole, rest);
    last[rest] = 0x80;
    for (int at = 0; at < 8; at++) last[end - 1 - at] = (uint8_t)((uint64_t)len * 8 >> 8 * at);
    for (size_t at = 0; at < end; at += 64) add_block(state, last + at);
    for (int at = 0; at < LABEL_BYTES; at++)
        label[at] = (uint8_t)(state[at / 4] >> (24 - 8 * (at % 4)));
}

static int hex_digit(char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

/* Writes the label of a component: its digest, or what follows "8=". */
static bool read_component(uint8_t label[LABEL_BYTES], const char *component, size_t len) {
    if (len < 2 || memcmp(component, "8=", 2) != 0) {
        write_label(label, (const uint8_t *)component, len);
        return len > 0;
    }
    for (size_t at = 0; at < LABEL_BYTES && len == 18; at++) {
        int high = hex_digit(component[2 + 2 * at]), low = hex_digit(component[3 + 2 * at]);
        if (high < 0 || low < 0) return false;
        label[at] = (uint8_t)(high << 4 | low);
    }
    return len == 18;
}

int nw_derived_name(char out[NW_NAME_BYTES], const char *name, uint64_t number) {
    uint8_t id[1 + COMPONENTS_MAX * LABEL_BYTES + 8] = {0}, label[LABEL_BYTES];
    size_t count = 0, bytes = 1;
    const char *start = name, *scope_end = name;
    while (*start == '/' && count < COMPONENTS_MAX) {
        size_t len = strcspn(start + 1, "/");
        if (!read_component(id + bytes, start + 1, len))
            return fail(NW_ARGUMENT, "%s is no name: 8= must be followed by 16 hexadecimal digits, "
                        "and no component is empty", name);
        scope_end = start;
        start += 1 + len;
        bytes += LABEL_BYTES;
        count += 1;
    }
    size_t scope_bytes = (size_t)(scope_end - name);
    if (*start != 0 || count == 0 || scope_bytes + 20 >= NW_NAME_BYTES)
        return fail(NW_ARGUMENT, "a name begins with a slash and has at most 32 components");
    id[0] = (uint8_t)count;
    for (int at = 0; at < 8; at++) id[bytes++] = (uint8_t)(number >> (56 - 8 * at));
    write_label(label, id, bytes);
    memcpy(out, name, scope_bytes);
    int at = (int)scope_bytes + snprintf(out + scope_bytes, 4, "/8=");
    for (size_t byte = 0; byte < LABEL_BYTES; byte++) at += sprintf(out + at, "%02x", label[byte]);
    return 0;
}
