/* config.h - what a program and its environment ask weft_init for, looked at before anything is begun. */
#ifndef WEFT_RUNTIME_CONFIG_H
#define WEFT_RUNTIME_CONFIG_H
#include <weft/weft.h>

/* ERR_ARGUMENT names the field or the variable, its value, and what was expected. */
weft_status weft__config_check(const weft_config *config);
#endif
