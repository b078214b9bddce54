/* help.h - what a tool prints for --help: help/TOOL.txt, of which its manual page is made too. */
#ifndef WEFT_TOOLS_HELP_H
#define WEFT_TOOLS_HELP_H

/* To stdout.  Generated for each tool from its text: man/help.awk. */
void help_print(void);
#endif
