#include "base/near.h"

#define WORD_MAX 40u

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
    unsigned least = a < b ? a : b;
    return least < c ? least : c;
}

static bool same(struct cdl_slice a, size_t i, struct cdl_slice b, size_t j)
{
    return cdl_ascii_lower(a.bytes[i]) == cdl_ascii_lower(b.bytes[j]);
}

/* F. J. Damerau's edits by the usual table, of which three rows are kept: the one before last serves the swaps. */
unsigned cdl_distance(struct cdl_slice a, struct cdl_slice b)
{
    if (a.length > WORD_MAX || b.length > WORD_MAX)
        return CDL_FAR;
    unsigned rows[3][WORD_MAX + 1];
    for (size_t j = 0; j <= b.length; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= a.length; i++) {
        unsigned *row = rows[i % 3];
        const unsigned *above = rows[(i + 2) % 3];
        const unsigned *above2 = rows[(i + 1) % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b.length; j++) {
            row[j] = min3(above[j] + 1, row[j - 1] + 1, above[j - 1] + !same(a, i - 1, b, j - 1));
            bool swapped = i > 1 && j > 1 && same(a, i - 1, b, j - 2) && same(a, i - 2, b, j - 1);
            if (swapped && above2[j - 2] + 1 < row[j])
                row[j] = above2[j - 2] + 1;
        }
    }
    return rows[a.length % 3][b.length];
}

const char *cdl_nearest(struct cdl_slice word, const char *const *names, size_t count)
{
    const char *nearest = NULL;
    unsigned least = CDL_FAR;
    for (size_t i = 0; i < count; i++) {
        unsigned distance = cdl_distance(word, cdl_slice_of(names[i]));
        if (distance < least && distance <= (strlen(names[i]) + 2) / 3) {
            least = distance;
            nearest = names[i];
        }
    }
    return nearest;
}
