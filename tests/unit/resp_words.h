/* Replies of Redis written down in words, so that a test can say what it wants: [0 'a' null], map['proto' 3], error 'ERR x'. */
#ifndef TESTS_UNIT_RESP_WORDS_H
#define TESTS_UNIT_RESP_WORDS_H

#include "base/writer.h"

/* Reads the reply at the front of `rest`, which must hold one, and moves past it. */
void resp_words(struct cdl_writer *writer, struct cdl_slice *rest);

#endif
