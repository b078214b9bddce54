/* threads.h - the threads of a process as the kernel knows them, and what they wait for. */
#ifndef WEFT_RECORD_THREADS_H
#define WEFT_RECORD_THREADS_H
#include "json.h"

/* The first thread of a process of this user, and Weft's in it: an array of objects. */
void weft__threads_json(weft__json *json, const char *name, int64_t pid);
#endif
