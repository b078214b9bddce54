/* settings_rows.h - for the preprocessor alone, and pages.awk, which reads what becomes of it: a row of the
 * table of settings after each word "setting_row". */
#include "settings.h"

#define ROW(id, variable, type, standard, least, most, sentence) \
    setting_row variable | type | standard | least | most | sentence
WEFT__SETTINGS(ROW)
