/* info_algorithms.h - which algorithm each operation would go by, for every size, as a group of so many ranks
 * whose lowest were started here would choose; and what that comes from. */
#ifndef WEFT_INFO_ALGORITHMS_H
#define WEFT_INFO_ALGORITHMS_H
#include "choices.h"

#include <stdbool.h>

/* False: WEFT_ALGORITHM or the tuning file is not as it should be; that is
 * printed as well, and what would be chosen without it. */
bool info_algorithms(int ranks, weft__medium medium);
#endif
