# header.awk - reads the public headers into blocks.  A block is a comment with the declarations that follow it without
# an empty line between them, or a declaration with a comment on its last line; what is declared without either ends
# the program with a sentence.  A comment that stands between a declaration and an empty line belongs to that block.
#
#   block_text[b]  block_kind[b]  block_header[b]  block_section[b]        b from 1 to blocks
#   block_names[b]                                 separated by spaces
#   block_code[b, i]                               its declarations, i from 1 to block_size[b]
#   block_of[name]                                 where a name is declared
#   section_title[s]  section_text[s]              of the comment "---- TITLE: TEXT ----" before some blocks
#   intro[header]                                  the comment at the top of a header

function fail(sentence)
{
    print "tools/man: " FILENAME ":" FNR ": " sentence >"/dev/stderr"
    failed = 1
    exit 1
}

function trimmed(text)
{
    gsub(/^[ \t]+|[ \t]+$/, "", text)
    return text
}

function begin_block(text, kind)
{
    blocks++
    block_text[blocks] = text
    block_kind[blocks] = kind
    block_header[blocks] = header
    block_section[blocks] = sections
    block_size[blocks] = 0
}

function add_to_block(name, code)
{
    if (name in block_of) fail(name " is declared twice")
    block_of[name] = blocks
    block_names[blocks] = block_names[blocks] (block_names[blocks] == "" ? "" : " ") name
    block_code[blocks, ++block_size[blocks]] = code
}

# The rule of blocks, in one place.
function declare(kind, name, code, trailing)
{
    if (pending ~ /^Private/) {
        pending = ""
        joinable = 0
        return
    }
    if (pending != "") {
        begin_block(pending, kind)
        pending = ""
        joinable = 1
    } else if (trailing != "") {
        begin_block(trailing, kind)
        joinable = 0
        trailing = ""
    } else if (kind == "constant") {
        return
    } else if (!joinable || block_kind[blocks] != kind) {
        fail(name " has no docstring: a comment before it, or at the end of its line")
    }
    add_to_block(name, code)
    if (trailing != "") block_text[blocks] = block_text[blocks] "\n" name ": " trailing
}

function begin_section(text)
{
    gsub(/^---*|[- ]*$/, "", text)
    text = trimmed(text)
    sections++
    section_title[sections] = text
    section_text[sections] = ""
    if (match(text, /[.:] /)) {
        section_title[sections] = substr(text, 1, RSTART - 1)
        section_text[sections] = toupper(substr(text, RSTART + 2, 1)) substr(text, RSTART + 3)
        sub(/^ */, "", section_text[sections])
    }
}

function end_comment(text)
{
    if (!(header in intro))
        intro[header] = text
    else if (text ~ /^----/)
        begin_section(text)
    else
        pending = text
}

# Lines of a comment that stands by itself; its decoration goes, its indentation stays.
function read_comment(line,    ends)
{
    ends = line ~ /\*\/ *$/
    sub(/ *\*\/ *$/, "", line)
    if (in_comment) sub(/^ \* ?/, "", line)
    else sub(/^\/\* ?/, "", line)
    comment = in_comment ? comment "\n" line : line
    in_comment = !ends
    if (ends) end_comment(comment)
}

function name_of(code,    name)
{
    name = code
    if (code ~ /^typedef/ && code ~ /[a-z_]+;$/) {
        sub(/;$/, "", name)
        sub(/^.*[^a-z0-9_]/, "", name)
        return name
    }
    if (!match(name, /weft_[a-z0-9_]+ *\(/)) fail("not understood: " code)
    name = substr(name, RSTART, RLENGTH - 1)
    return trimmed(name)
}

# A declaration is whole at a semicolon, or at the body of an inline function, outside all braces of a type.
function read_declaration(line,    trailing)
{
    trailing = ""
    if (code !~ /[{]/ && line !~ /[{] *(\/\*|$)/ && match(line, /; *\/\*.*\*\/ *$/)) {
        trailing = substr(line, RSTART + 1)
        line = substr(line, 1, RSTART)
        sub(/^ *\/\* */, "", trailing)
        sub(/ *\*\/ *$/, "", trailing)
    }
    code = code == "" ? line : code "\n" line
    if (code ~ /^static inline/) {
        if (line !~ /\)$/) return
        in_body = 1
    } else if (code ~ /[{]/ ? line !~ /^}/ : line !~ /;$/) {
        return
    }
    sub(/^WEFT_API /, "", code)
    sub(/^static inline /, "", code)
    if (in_body) code = code ";"
    if (name_of(code) != "weft_status")
        declare(code ~ /^typedef/ ? "type" : "function", name_of(code), code, trailing)
    code = ""
}

# #define NAME VALUE, with a comment; or a list of rows, which documents the enumeration that is made of it.
function read_define(line,    name, value, trailing)
{
    trailing = ""
    if (match(line, /\/\*.*\*\/ *$/)) {
        trailing = substr(line, RSTART + 2)
        line = trimmed(substr(line, 1, RSTART - 1))
        sub(/ *\*\/ *$/, "", trailing)
    }
    sub(/^#define +/, "", line)
    match(line, /^[A-Za-z_0-9]+/)
    name = substr(line, 1, RLENGTH)
    if (name ~ /_MAP$/) {
        sub(/_MAP$/, "", name)
        name = tolower(name)
        declare("type", name, "typedef enum " name " " name ";", trailing)
        rows_of = blocks
    } else {
        value = trimmed(substr(line, RLENGTH + 1))
        declare("constant", name, value, trimmed(trailing))
    }
}

# X(ERR_TIMEOUT, -3, "the operation's time ran out")
function read_row(line,    fields)
{
    if (match(line, /X\(.*\)/)) {
        line = substr(line, RSTART + 2, RLENGTH - 3)
        split(line, fields, /, /)
        sub(/^[^"]*"/, "", line)
        sub(/"$/, "", line)
        block_rows[rows_of] = block_rows[rows_of] "WEFT_" fields[1] "\t" fields[2] "\t" line "\n"
    }
}

function read_line(line)
{
    if (in_cplusplus) {
        if (line ~ /^#(else|endif)/) in_cplusplus = 0
    } else if (in_body) {
        if (line ~ /^}/) in_body = 0
    } else if (in_comment || (code == "" && line ~ /^\/\*/)) {
        read_comment(line)
    } else if (in_define) {
        if (rows_of) read_row(line)
        in_define = line ~ /\\$/
        if (!in_define) rows_of = 0
    } else if (code != "") {
        read_declaration(line)
    } else if (line ~ /^ *$/) {
        if (pending != "" && blocks && pending !~ /^Private/)
            block_text[blocks] = block_text[blocks] "\n\n" pending
        pending = ""
        joinable = 0
    } else if (line ~ /^#ifdef __cplusplus/) {
        in_cplusplus = 1
    } else if (line ~ /^#define /) {
        in_define = line ~ /\\$/
        read_define(line)
    } else if (line !~ /^#/) {
        read_declaration(line)
    }
}

function begin_header(path)
{
    header = path
    sub(/.*include\//, "", header)
    sections++
    section_title[sections] = header
    section_text[sections] = ""
    pending = ""
    joinable = in_define = rows_of = 0
}
