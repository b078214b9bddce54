/* port.h - ports of 127.0.0.1 that are free and that no other test takes meanwhile.
 *
 * A port is held by the name of a Unix socket, which the kernel gives to one process only and takes back
 * when its holders have ended; it is the one by which weft-run holds the ports of its jobs.  They lie below
 * the range from which the system takes the ports of connections, so that none of those comes in between.
 * Fails the running test if there is none. */
#ifndef TESTS_SUPPORT_PORT_H
#define TESTS_SUPPORT_PORT_H

int port_take(void);
void port_give(int port); /* only what this process has taken */

#endif
