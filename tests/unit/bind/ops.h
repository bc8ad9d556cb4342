#pragma once

#include "api/op.h"
#include "unit/bind/rig.h"

// Somebody who runs operations: writes down what he is asked, and answers in the same turn of the loop or when
// the test says so.

struct fake {
    bool slow; // answers wait for fake_answer()
    struct op_call *call;
    const char *json, *why; // what it answers; `why` is not NULL: it fails
    enum problem problem;
    struct buf heard; // "NAME PARAMS", a line each
};
extern struct fake fake;

void fake_open(const char *json); // and a rig
void fake_close(void);
void fake_fails(enum problem p, const char *why);
void fake_answer(void *arg);
/// Load `code` as unit "a" and wait until it has asked; the answer waits.
void fake_ask(const char *code);
