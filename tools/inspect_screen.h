/* inspect_screen.h - the terminal: how large it is, and a page that is shown anew each second. */
#ifndef WEFT_INSPECT_SCREEN_H
#define WEFT_INSPECT_SCREEN_H
#include <stdio.h>

/* 80 letters, and no end of lines (0), where stdout is no terminal. */
void inspect_screen_size(int *width, int *lines);
/* Draws until q is pressed or a signal comes (then the terminal is as it was), or draw returns another code than 0, which
 * is returned. */
int inspect_screen_run(int (*draw)(FILE *to, int width, int lines, void *arg), void *arg);
#endif
