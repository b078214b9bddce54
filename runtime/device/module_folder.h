/* module_folder.h - where the modules of this library lie. */
#ifndef WEFT_RUNTIME_MODULE_FOLDER_H
#define WEFT_RUNTIME_MODULE_FOLDER_H
#include "status.h"

#define WEFT__FOLDER_BYTES 4096

/* WEFT_MODULE_DIR, else the folder that is installed with the file this code was loaded from.  Always an
 * absolute path; there need be no such folder.  Fails with a sentence. */
weft_status weft__module_folder(char folder[WEFT__FOLDER_BYTES]);
#endif
