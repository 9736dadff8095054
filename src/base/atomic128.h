/* Sixteen bytes read together and changed together.
 *
 * x86-64: cmpxchg16b. Reads by one aligned 16-byte vector load, which Intel and AMD document as atomic on every processor that
 * has AVX; elsewhere by cmpxchg16b. aarch64: casp, or a load/store-exclusive pair on processors before ARMv8.1 (the compiler's
 * outline atomics choose at run time); reads likewise. Under ThreadSanitizer through the compiler's atomics, which it can
 * follow. All of them are sequentially consistent or stronger than acquire/release; a relaxed order would be enough for the
 * word itself, since an entry points to nothing else. */
#ifndef CDL_BASE_ATOMIC128_H
#define CDL_BASE_ATOMIC128_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__SANITIZE_THREAD__)
#define CDL_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CDL_THREAD_SANITIZER 1
#endif
#endif

/* The order of the halves is that of struct cdl_pair in memory, on the little-endian systems that we build for. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "pairs are laid out little-endian");

struct cdl_pair {
    uint64_t first;
    uint64_t second;
} __attribute__((aligned(16)));

/* May alias: a pair is read by halves elsewhere. */
typedef unsigned __int128 cdl_word128 __attribute__((may_alias, aligned(16)));

static inline cdl_word128 cdl_pair_word(struct cdl_pair pair)
{
    return (cdl_word128)pair.second << 64 | pair.first;
}

static inline struct cdl_pair cdl_word_pair(cdl_word128 word)
{
    return (struct cdl_pair){(uint64_t)word, (uint64_t)(word >> 64)};
}

/* Replaces *at by `desired` if it is `expected`; says whether it did. */
static inline bool cdl_pair_swap(struct cdl_pair *at, struct cdl_pair expected, struct cdl_pair desired)
{
#if defined(__SANITIZE_THREAD__)
    cdl_word128 old = cdl_pair_word(expected);
    return __atomic_compare_exchange_n((cdl_word128 *)at, &old, cdl_pair_word(desired), false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
#else
    return __sync_bool_compare_and_swap((cdl_word128 *)at, cdl_pair_word(expected), cdl_pair_word(desired));
#endif
}

static inline struct cdl_pair cdl_pair_load(struct cdl_pair *at)
{
#if defined(CDL_THREAD_SANITIZER)
    return cdl_word_pair(__atomic_load_n((cdl_word128 *)at, __ATOMIC_ACQUIRE));
#else
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx")) {
        typedef uint64_t two_words __attribute__((vector_size(16)));
        two_words both;
        __asm__ volatile("movdqa %1, %0" : "=x"(both) : "m"(*at) : "memory");
        return (struct cdl_pair){both[0], both[1]};
    }
#endif
    return cdl_word_pair(__sync_val_compare_and_swap((cdl_word128 *)at, 0, 0));
#endif
}

/* One half, for looking around; what it says is believed only after cdl_pair_load or cdl_pair_swap. What it does not say is
 * believed, too (the pair is not there), if something is looked at afterwards that its writer wrote before: so, acquire. */
static inline uint64_t cdl_pair_peek_first(const struct cdl_pair *at)
{
    return __atomic_load_n(&at->first, __ATOMIC_ACQUIRE);
}

static inline uint64_t cdl_pair_peek_second(const struct cdl_pair *at)
{
    return __atomic_load_n(&at->second, __ATOMIC_RELAXED);
}

#endif
