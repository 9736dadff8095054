/* Exact integer arithmetic that C leaves to the programmer: 128 bits, division that rounds down, division by a number known
 * beforehand. No floating point anywhere in a decision. */
#ifndef CDL_BASE_ARITH_H
#define CDL_BASE_ARITH_H

#include <stdbool.h>
#include <stdint.h>

typedef unsigned __int128 cdl_u128;
typedef __int128 cdl_i128;

#define CDL_NS_PER_S INT64_C(1000000000)

static inline uint64_t cdl_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline int64_t cdl_max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* a / b rounded towards minus infinity; b > 0. (C rounds towards zero.) */
static inline cdl_i128 cdl_floor_div(cdl_i128 a, cdl_i128 b)
{
    cdl_i128 q = a / b;
    return a % b < 0 ? q - 1 : q;
}

/* Euclid's; 0 and b have b in common. */
static inline uint64_t cdl_common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The nearest instant that 64 bits can hold. */
static inline int64_t cdl_clamp_i64(cdl_i128 x)
{
    if (x > INT64_MAX)
        return INT64_MAX;
    return x < INT64_MIN ? INT64_MIN : (int64_t)x;
}

/* Division by a divisor that is known long before, as a multiplication.
 *
 * With b the bit width of d, inverse = floor(2^(63+b) / d) lies in (2^63, 2^64] and is cut to 64 bits. For x < 2^63 the
 * product x·inverse / 2^(63+b) is at most x/d and short of it by less than x/2^(63+b) · 2 < 1, so the estimate is the
 * quotient or one less, and one comparison makes it exact. */
struct cdl_divisor {
    uint64_t value;
    uint64_t inverse;
    uint64_t shift; /* 63 + b - 64 */
};

static inline struct cdl_divisor cdl_divisor_make(uint64_t d)
{
    unsigned width = 64u - (unsigned)__builtin_clzll(d);
    cdl_u128 inverse = ((cdl_u128)1 << (63 + width)) / d;
    return (struct cdl_divisor){
        .value = d,
        .inverse = inverse > UINT64_MAX ? UINT64_MAX : (uint64_t)inverse,
        .shift = width - 1,
    };
}

/* floor(x / d) for x < 2^63. */
static inline uint64_t cdl_divide(uint64_t x, const struct cdl_divisor *d)
{
    uint64_t q = (uint64_t)((cdl_u128)x * d->inverse >> 64) >> d->shift;
    return x - q * d->value >= d->value ? q + 1 : q;
}

#endif
