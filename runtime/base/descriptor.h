/* descriptor.h - descriptors that a child of fork is rid of.  It shares them with its parent: as long as it
 * held them, a connection of the parent would not end with the parent, and the others would take that for
 * alive. */
#ifndef WEFT_BASE_DESCRIPTOR_H
#define WEFT_BASE_DESCRIPTOR_H

/* From here on a child of fork closes it, before fork returns there.  -1: nothing. */
void weft__descriptor_own(int fd);
void weft__descriptor_disown(int fd); /* before it is closed: its number may be somebody else's then */
#endif
