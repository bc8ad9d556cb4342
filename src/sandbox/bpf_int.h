#pragma once

#include <assert.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>

// Programs for the kernel's packet filter, as seccomp takes them: written instruction by instruction
// into a fixed array. All of it is inline, because afloat-launch needs it too and links nothing.

#if defined(__x86_64__)
static const uint32_t BPF_OWN_ARCH = AUDIT_ARCH_X86_64;
static const uint32_t BPF_FOREIGN_NR = 0x40000000; // from here on: x32
#elif defined(__aarch64__)
static const uint32_t BPF_OWN_ARCH = AUDIT_ARCH_AARCH64;
static const uint32_t BPF_FOREIGN_NR = INT32_MAX; // there are none
#else
#error "src/sandbox/bpf_int.h: say which architecture this is"
#endif

enum { BPF_CODE_MAX = 512 };

/// Of an argument: whatever, no bit of the value, the value itself.
enum bpf_test { BPF_ANY_ARG, BPF_CLEAR, BPF_EQUAL };

/// What happens to a call whose argument passes; one that does not gets `otherwise`.
struct bpf_rule {
    uint32_t nr;
    uint32_t verdict;
    unsigned arg;
    enum bpf_test test;
    uint32_t value;
    uint32_t otherwise;
    unsigned flags_arg; // the test counts only when this argument
    uint32_t flags;     // has one of these bits; 0: always
};

struct bpf {
    struct sock_filter code[BPF_CODE_MAX];
    unsigned short n;
};

static inline void bpf_emit(struct bpf *b, unsigned code, uint32_t k, unsigned yes, unsigned no)
{
    assert(b->n < BPF_CODE_MAX);
    b->code[b->n++] = (struct sock_filter){(uint16_t)code, (uint8_t)yes, (uint8_t)no, k};
}

static inline void bpf_load(struct bpf *b, size_t offset)
{
    bpf_emit(b, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static inline void bpf_return(struct bpf *b, uint32_t verdict)
{
    bpf_emit(b, BPF_RET | BPF_K, verdict, 0, 0);
}

/// A call of another architecture ends the process: its numbers mean other calls.
static inline void bpf_start(struct bpf *b)
{
    b->n = 0;
    bpf_load(b, offsetof(struct seccomp_data, arch));
    bpf_emit(b, BPF_JMP | BPF_JEQ | BPF_K, BPF_OWN_ARCH, 1, 0);
    bpf_return(b, SECCOMP_RET_KILL_PROCESS);
    bpf_load(b, offsetof(struct seccomp_data, nr));
    bpf_emit(b, BPF_JMP | BPF_JGE | BPF_K, BPF_FOREIGN_NR, 0, 1);
    bpf_return(b, SECCOMP_RET_KILL_PROCESS);
}

/// Number and verdict; a test puts three more instructions between them, which end the program, and its flags two
/// more. No rule changes the number in the accumulator and then continues with the next rule. Tests look at the low
/// half of an argument: all of them are on arguments that the kernel takes as an int or as flags.
static inline void bpf_add(struct bpf *b, const struct bpf_rule *r)
{
    bool plain = r->test == BPF_ANY_ARG;
    bpf_emit(b, BPF_JMP | BPF_JEQ | BPF_K, r->nr, 0, plain ? 1 : r->flags == 0 ? 4 : 6);
    if (!plain && r->flags != 0) {
        bpf_load(b, offsetof(struct seccomp_data, args) + r->flags_arg * sizeof(uint64_t));
        bpf_emit(b, BPF_JMP | BPF_JSET | BPF_K, r->flags, 0, 3);
    }
    if (!plain) {
        bool equal = r->test == BPF_EQUAL;
        bpf_load(b, offsetof(struct seccomp_data, args) + r->arg * sizeof(uint64_t));
        bpf_emit(b, BPF_JMP | (equal ? BPF_JEQ : BPF_JSET) | BPF_K, r->value, equal, !equal);
        bpf_return(b, r->otherwise);
    }
    bpf_return(b, r->verdict);
}

/// Hand it to the kernel, for good. Returns 0, or -1 with errno.
static inline int bpf_enter(struct bpf *b)
{
    const struct sock_fprog prog = {.len = b->n, .filter = b->code};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0);
}
