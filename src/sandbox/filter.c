// The seccomp filter: a program for the kernel's packet filter, made from the table in calls.def.
//
//     arch is ours?  ──no──> kill            (the numbers below mean other calls elsewhere)
//     nr == read?    ──yes─> allow
//     nr == mmap?    ──yes─> argument 2 has PROT_EXEC? ── yes ──> refuse ── no ──> allow
//     ...
//     refuse with EPERM
//
// libseccomp could make it; this is a list with a handful of tests on arguments, and without the
// library the same file can go into static programs. A pointer's target cannot be tested here (it
// could change afterwards), so paths are Landlock's business.

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"
#include "sandbox/bpf_int.h"
#include "sandbox/policy_int.h"

static const uint32_t REFUSE = SECCOMP_RET_ERRNO | EPERM;
static const uint32_t END = SECCOMP_RET_KILL_PROCESS;

int filter__enter(struct err *e)
{
    const struct bpf_rule rules[] = {
#define ALLOW(name) {.nr = __NR_##name, .verdict = SECCOMP_RET_ALLOW},
#define ALLOW_IF(name, arg, test, value)                                                           \
    {__NR_##name, SECCOMP_RET_ALLOW, arg, BPF_##test, value, REFUSE, 0, 0},
#define KILL(name) {.nr = __NR_##name, .verdict = END},
#include "sandbox/calls.def"
#undef ALLOW
#undef ALLOW_IF
#undef KILL
    };
    struct bpf b;
    bpf_start(&b);
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        bpf_add(&b, &rules[i]);
    }
    bpf_return(&b, REFUSE);
    return bpf_enter(&b) == 0 ? 0 : err_sys(e, "cannot enter the filter of system calls");
}
