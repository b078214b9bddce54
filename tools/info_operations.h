/* info_operations.h - which operation takes which types and reductions in which memory, as the library itself
 * answers: every combination is called once, in a job of this process alone. */
#ifndef WEFT_INFO_OPERATIONS_H
#define WEFT_INFO_OPERATIONS_H
#include <stdbool.h>

enum info_form { INFO_TEXT, INFO_MARKDOWN };

/* False: the job of one could not be made; that is printed as well. */
bool info_operations(enum info_form form);
#endif
