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
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/vec.h"
#include "sandbox/policy_int.h"

#if defined(__x86_64__)
static const uint32_t OWN_ARCH = AUDIT_ARCH_X86_64;
static const uint32_t FOREIGN_NR = 0x40000000; // from here on: x32
#elif defined(__aarch64__)
static const uint32_t OWN_ARCH = AUDIT_ARCH_AARCH64;
static const uint32_t FOREIGN_NR = INT32_MAX; // there are none
#else
#error "src/sandbox/filter.c: say which architecture this is"
#endif

static const uint32_t REFUSE = SECCOMP_RET_ERRNO | EPERM;
static const uint32_t END = SECCOMP_RET_KILL_PROCESS;

enum test { ANY, CLEAR, EQUAL }; // of an argument: whatever, no bit of the value, the value itself

struct rule {
    uint32_t nr;
    uint32_t verdict;
    unsigned arg;
    enum test test;
    uint32_t value;
};

typedef vec(struct sock_filter) program;

static void emit(program *p, unsigned code, uint32_t k, unsigned yes, unsigned no)
{
    const struct sock_filter f = {(uint16_t)code, (uint8_t)yes, (uint8_t)no, k};
    vec_push(p, f);
}

static void emit_load(program *p, size_t offset)
{
    emit(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void emit_return(program *p, uint32_t verdict)
{
    emit(p, BPF_RET | BPF_K, verdict, 0, 0);
}

/// The low half of an argument: all tests are on what the kernel takes as an int or as flags.
static size_t arg_offset(unsigned arg)
{
    return offsetof(struct seccomp_data, args) + arg * sizeof(uint64_t);
}

/// Number and verdict; where there is a test, four more instructions between them that leave the
/// program with a refusal. No rule changes the number in the accumulator and then goes on.
static void emit_rule(program *p, const struct rule *r)
{
    bool plain = r->test == ANY;
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, r->nr, 0, plain ? 1 : 4);
    if (!plain) {
        emit_load(p, arg_offset(r->arg));
        bool equal = r->test == EQUAL;
        emit(p, BPF_JMP | (equal ? BPF_JEQ : BPF_JSET) | BPF_K, r->value, equal, !equal);
        emit_return(p, REFUSE);
    }
    emit_return(p, r->verdict);
}

static void emit_start(program *p)
{
    emit_load(p, offsetof(struct seccomp_data, arch));
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCH, 1, 0);
    emit_return(p, END);
    emit_load(p, offsetof(struct seccomp_data, nr));
    emit(p, BPF_JMP | BPF_JGE | BPF_K, FOREIGN_NR, 0, 1);
    emit_return(p, END);
}

static void build(program *p)
{
    const struct rule rules[] = {
#define ALLOW(name)                      {__NR_##name, SECCOMP_RET_ALLOW, 0, ANY, 0},
#define ALLOW_IF(name, arg, test, value) {__NR_##name, SECCOMP_RET_ALLOW, arg, test, value},
#define KILL(name)                       {__NR_##name, END, 0, ANY, 0},
#include "sandbox/calls.def"
#undef ALLOW
#undef ALLOW_IF
#undef KILL
    };
    emit_start(p);
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        emit_rule(p, &rules[i]);
    }
    emit_return(p, REFUSE);
}

int filter__enter(struct err *e)
{
    program p = {0};
    build(&p);
    const struct sock_fprog prog = {.len = (unsigned short)p.n, .filter = p.p};
    int rc = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0);
    if (rc != 0) {
        rc = err_sys(e, "cannot enter the filter of system calls");
    }
    vec_fini(&p);
    return rc;
}
