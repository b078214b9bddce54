# help.awk - help_print() of a tool, from the text that its manual page is made of.
#
#   awk -f help.awk OUT=weft-run_help.c weft-run.txt
#
# NAME and HEADER, where they are given, are those of another function that prints a text, and of the header that declares it.

FNR == 1 {
    print "/* Generated; do not edit. */\n#include \"" (HEADER == "" ? "help.h" : HEADER) "\"\n\n#include <stdio.h>\n" >OUT
    print "static const char *const lines[] = {" >OUT
}

# gsub() would do, did all awks agree on what a backslash means to it.
function c_string(text,    i, c, string)
{
    for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        string = string (c == "\\" || c == "\"" ? "\\" : "") c
    }
    return "\"" string "\""
}

{ print "    " c_string($0) "," >OUT }

END {
    print "};\n\nvoid " (NAME == "" ? "help_print" : NAME) "(void)\n{" >OUT
    print "    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) puts(lines[i]);\n}" >OUT
}
