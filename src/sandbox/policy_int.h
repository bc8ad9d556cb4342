#pragma once

#include "sandbox/policy.h"

// The two halves of a policy: what may be opened, and which system calls there are.

/// Confine the file system, TCP, abstract sockets and signals. Needs no_new_privs.
int landlock__enter(const struct policy *p, struct err *e) MUST_CHECK;

/// Allow the system calls of calls.def, for good. Needs no_new_privs.
int filter__enter(struct err *e) MUST_CHECK;
