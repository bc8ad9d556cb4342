#pragma once

#include "vt/vt.h"

// Characters of several code points (letters with marks). A cell has room for one; such a cell holds the
// number of an entry here.

enum { CLUSTER_POINTS = 6, CLUSTER_SLOTS = 2048 };

#define CLUSTER_BIT 0x80000000u

struct cluster {
    uint32_t points[CLUSTER_POINTS]; // 0 after the last; an empty slot has none
};

struct clusters {
    struct cluster *slots; // CLUSTER_SLOTS, made with the first entry; found by hash
    size_t n;
};

/// The `text` of a cell that shows these code points, 0 at the end or CLUSTER_POINTS of them. When the
/// table is full it is the first code point alone: the owner sweeps it before.
uint32_t cluster_add(struct clusters *c, const uint32_t *points);
/// True when another entry may not fit.
bool clusters_full(const struct clusters *c);
/// The code points of a cell's `text`, 0 at the end unless there are CLUSTER_POINTS.
void cluster_get(const struct clusters *c, uint32_t text, uint32_t points[CLUSTER_POINTS]);
