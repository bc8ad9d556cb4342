// The table of clusters: open addressing, never more than three quarters full.

#include "vt/cluster.h"

#include <assert.h>

bool clusters_full(const struct clusters *c)
{
    return c->n >= CLUSTER_SLOTS / 4 * 3;
}

static size_t hash(const uint32_t *points)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < CLUSTER_POINTS && points[i] != 0; i++) {
        h = (h ^ points[i]) * 16777619u;
    }
    return (h ^ (h >> 15)) % CLUSTER_SLOTS;
}

uint32_t cluster_add(struct clusters *c, const uint32_t *points)
{
    struct cluster want = {{0}};
    for (size_t i = 0; i < CLUSTER_POINTS && points[i] != 0; i++) {
        want.points[i] = points[i];
    }
    if (want.points[1] == 0) {
        return want.points[0];
    }
    if (c->slots == NULL) {
        c->slots = xcalloc(CLUSTER_SLOTS, sizeof *c->slots);
    }
    for (size_t i = hash(want.points);; i = (i + 1) % CLUSTER_SLOTS) {
        if (c->slots[i].points[0] == 0 && clusters_full(c)) {
            return want.points[0];
        }
        if (c->slots[i].points[0] == 0) {
            c->slots[i] = want;
            c->n++;
        }
        if (memcmp(&c->slots[i], &want, sizeof want) == 0) {
            return CLUSTER_BIT | (uint32_t)i;
        }
    }
}

void cluster_get(const struct clusters *c, uint32_t text, uint32_t points[CLUSTER_POINTS])
{
    memset(points, 0, CLUSTER_POINTS * sizeof *points);
    if ((text & CLUSTER_BIT) == 0) {
        points[0] = text;
        return;
    }
    assert(c->slots != NULL && (text & ~CLUSTER_BIT) < CLUSTER_SLOTS);
    memcpy(points, c->slots[text & ~CLUSTER_BIT].points, sizeof c->slots[0].points);
}
