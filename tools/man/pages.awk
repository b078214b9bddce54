# pages.awk - the manual pages of the library: functions and types (3); rules.awk has the other one (7).
#
#   awk -f mdoc.awk -f comment.awk -f header.awk -f rules.awk -f pages.awk DIR=... DATE=... VERSION=... weft.h settings
#
# Writes DIR/man3 and DIR/man7, which must be there.  `settings` is what the preprocessor makes of settings_rows.h;
# it comes after the headers.

FNR == 1 && FILENAME ~ /\.h$/ { begin_header(FILENAME) }
FILENAME ~ /\.h$/ { sub(/[ \t]+$/, ""); read_line($0); next }
/^setting_row "/ {
    n = split($0, rows, /(^| )setting_row /)
    for (i = 2; i <= n; i++) read_setting(rows[i])
}

END {
    if (failed) exit 1
    if (!blocks || !settings) fail("no function, or no setting, was found")
    for (b = 1; b <= blocks; b++)
        if (block_kind[b] != "constant") put_page(b)
    put_rules()
}

# ---- words ----------------------------------------------------------------------------------------------------------

function is_parameter(word, before, after)
{
    return word in parameters && (word ~ /_/ || before ~ /\*$/ || after ~ /^:/ || " " word " " ~ CRYPTIC)
}

function reference(name)
{
    if (block_of[name] == page_block) return (block_kind[page_block] == "function" ? "Fn " : "Vt ") name
    if (block_kind[block_of[name]] == "constant") return "Dv " name
    seen[first_name(block_of[name])] = 1
    return "Xr " name " 3"
}

# Headers say ERR_TIMEOUT and all_reduce; pages say what the compiler must be told.
function mark(word, before, after)
{
    if (after ~ /^"/ || before ~ /"$/) return ""
    if (before ~ /`$/) return "Fa " word
    if (word ~ /^[a-z_]+(->|\.)[a-z_]+$/ && word !~ /\.h$/) return "Fa " word
    if (word ~ /^weft\/[a-z]+\.h$/) return "In " word
    if (is_parameter(word, before, after)) return "Fa " word
    if (word ~ /\([1-8]\)$/) return "Xr " substr(word, 1, length(word) - 3) " " substr(word, length(word) - 1, 1)
    if (word in block_of) return reference(word)
    if (word ~ /_/ && ("weft_" word) in block_of) return reference("weft_" word)
    if (word ~ /^weft-(run|bench|info|inspect)$/) return "Xr " word " 1"
    if (word ~ /^\$?WEFT_[A-Z_0-9]+(=[a-z_]+)?$/) {
        sub(/^\$/, "", word)
        return ((word in is_setting || word ~ /=/) ? "Ev " : "Dv ") word
    }
    if (word ~ /^(ERR_[A-Z]+|OK|PENDING)$/) return "Dv WEFT_" word
    return ""
}

function first_name(b,    names)
{
    split(block_names[b], names, " ")
    return names[1]
}

# ---- parts of a page of section 3 -----------------------------------------------------------------------------------

# A comment's first clause is what its page is about.
function summary(b,    text)
{
    text = block_text[b]
    gsub(/\n/, " ", text)
    gsub(/  +/, " ", text)
    gsub(/`/, "", text)
    if (match(text, /[.;:](  *|$)| \(/)) text = substr(text, 1, RSTART - 1)
    if (length(text) > 60 && match(text, /, /)) text = substr(text, 1, RSTART - 1)
    if (text ~ /^[A-Z][a-z ]/) text = tolower(substr(text, 1, 1)) substr(text, 2)
    return text
}

function put_names(b,    names, n, i)
{
    n = split(block_names[b], names, " ")
    for (i = 1; i <= n; i++) put(".Nm " names[i] (i < n ? " ," : ""))
    put(".Nd " summary(b))
}

# "TYPE NAME(PARAMETERS);", where a parameter may be a function with parameters of its own.
function put_prototype(code,    name, depth, i, c, parameter)
{
    gsub(/[\n ]+/, " ", code)
    name = name_of(code)
    i = index(code, name "(")
    put(".Ft " quote(trimmed(substr(code, 1, i - 1))))
    put(".Fo " name)
    sub(/ *\) *;$/, ",", code)
    for (i += length(name) + 1; i <= length(code); i++) {
        c = substr(code, i, 1)
        depth += (c == "(") - (c == ")")
        if (c == "," && depth == 0) {
            put(".Fa " quote(trimmed(parameter)))
            note_parameter(parameter)
            parameter = ""
        } else {
            parameter = parameter c
        }
    }
    put(".Fc")
}

function note_parameter(parameter)
{
    if (match(parameter, /\(\*[a-z_]+\)/))
        parameter = substr(parameter, RSTART + 2, RLENGTH - 3)
    sub(/^.*[^a-z_0-9]/, "", parameter)
    parameters[parameter] = 1
}

# A type as its header has it, without the comments, which become the description.
function put_type(code,    lines, n, i, line)
{
    code = without_comments(code)
    if (code ~ /^typedef enum/) gsub(/, /, ",\n    ", code)
    n = split(code, lines, "\n")
    put(".Bd -literal")
    for (i = 1; i <= n; i++) {
        line = lines[i]
        sub(/ +$/, "", line)
        gsub(/  +[^ ]/, "&", line)
        if (line != "") put_line(line)
    }
    put(".Ed")
}

function without_comments(code,    from, rest, length_of)
{
    while (from = index(code, "/*")) {
        rest = substr(code, from)
        length_of = index(rest, "*/") + 1
        code = substr(code, 1, from - 1) substr(rest, length_of + 1)
    }
    return code
}

function put_synopsis(b,    i)
{
    put(".Sh SYNOPSIS")
    put(".In " block_header[b])
    for (i = 1; i <= block_size[b]; i++)
        if (block_kind[b] == "function")
            put_prototype(block_code[b, i])
        else
            put_type(block_code[b, i])
}

# Fields of a structure that have a comment, which begins on their line and may go on.
function put_fields(code,    lines, n, i, at, field, text, open, inside)
{
    n = split(code, lines, "\n")
    for (i = 2; i <= n; i++) {
        at = inside ? 1 : index(lines[i], "/*")
        if (!at) continue
        if (!inside) {
            field = trimmed(substr(lines[i], 1, at - 1))
            sub(/;$/, "", field)
            text = ""
        }
        text = text "\n" substr(lines[i], at)
        inside = lines[i] !~ /\*\//
        if (!inside) put_item(open++, "Va " quote(field), comment_text(text))
    }
    if (open) put(".El")
}

function comment_text(text)
{
    gsub(/\/\*|\*\/|[*\/ ]+$/, "", text)
    gsub(/\n */, "\n", text)
    sub(/^[\n ]+/, "", text)
    return text
}

function put_rows(rows,    lines, n, i, fields)
{
    n = split(rows, lines, "\n")
    for (i = 1; i < n; i++) {
        split(lines[i], fields, "\t")
        put_item(i > 1, "Dv " fields[1] " = " fields[2], fields[3])
    }
    put(".El")
}

# The rows "WEFT_ERR_X  why" that end some comments are the errors of their functions.
function split_errors(text)
{
    errors_text = ""
    if (match(text, /\n+WEFT_ERR_[A-Z]+  /)) {
        errors_text = substr(text, RSTART)
        sub(/^\n+/, "", errors_text)
        text = substr(text, 1, RSTART - 1)
    }
    return text
}

function put_description(b,    text, s)
{
    put(".Sh DESCRIPTION")
    text = split_errors(block_text[b])
    put_comment(capital(text) (text ~ /[.]\n*$|\n  / ? "" : "."))
    if (block_rows[b] != "") put_rows(block_rows[b])
    else if (block_code[b, 1] ~ /struct.*[{]/) put_fields(block_code[b, 1])
    s = block_section[b]
    if (section_text[s] != "") {
        put(".Pp")
        put_comment(section_text[s] (section_text[s] ~ /[.]$/ ? "" : "."))
    }
}

function put_returns(b,    code, i, statuses)
{
    for (i = 1; i <= block_size[b]; i++) {
        code = code block_code[b, i]
        statuses += block_code[b, i] ~ /^weft_status /
    }
    if (block_kind[b] == "function" && statuses) {
        put(".Sh RETURN VALUES")
        put_text("WEFT_OK, or another weft_status as told above." (block_header[b] ~ /mpi/ ? "" : \
            "  Of a failure weft_last_error has a sentence; what holds after any stands in weft(7) under Errors."))
        if (code ~ /weft_request \*\*req/) put_text(last_paragraph(intro[block_header[b]]))
    }
    if (errors_text == "") return
    put(".Sh ERRORS")
    put_comment(errors_text)
}

function last_paragraph(text)
{
    sub(/\n+$/, "", text)
    sub(/^.*\n\n/, "", text)
    gsub(/`/, "", text)
    return text
}

# What its text and its prototypes name, and the rest of its section, in the order that mdoc wants.
function put_see_also(b,    name, i, names, n)
{
    for (name in block_of)
        if (block_kind[block_of[name]] == "type" && mentions(b, name)) seen[name] = 1
    for (i = 1; i <= blocks; i++)
        if (block_kind[i] == "function" && (block_kind[b] == "function" ? block_section[i] == block_section[b] : \
                users(first_name(b)) <= USERS_MAX && mentions(i, first_name(b))))
            seen[first_name(i)] = 1
    delete seen[first_name(b)]
    n = 0
    for (name in seen)
        if (block_kind[block_of[name]] != "constant") names[++n] = name
    sort(names, n)
    put(".Sh SEE ALSO")
    for (i = 1; i <= n; i++) put(".Xr " names[i] " 3 ,")
    put(".Xr weft 7")
}

function mentions(b, name,    i)
{
    for (i = 1; i <= block_size[b]; i++)
        if (block_code[b, i] ~ ("(^|[^a-z_])" name "[^a-z_(]")) return 1
    return 0
}

# How many blocks of functions take or give a type.
function users(name,    b, n)
{
    for (b = 1; b <= blocks; b++) n += block_kind[b] == "function" && mentions(b, name)
    return n
}

function sort(names, n,    i, j, name)
{
    for (i = 2; i <= n; i++) {
        name = names[i]
        for (j = i - 1; j >= 1 && names[j] > name; j--) names[j + 1] = names[j]
        names[j + 1] = name
    }
}

function put_page(b,    names, n, i, of_header)
{
    n = split(block_names[b], names, " ")
    page = DIR "/man3/" names[1] ".3"
    page_block = b
    split("", parameters)
    split("", seen)
    put_head(names[1], 3)
    put_names(b)
    put_synopsis(b)
    put_description(b)
    of_header = without_title(intro[block_header[b]])
    if (block_header[b] != RULES) {
        put(".Ss About this header")
        put_comment(of_header)
    }
    put_returns(b)
    put_see_also(b)
    close(page)
    for (i = 2; i <= n; i++)
        if (system("ln -s " names[1] ".3 " DIR "/man3/" names[i] ".3") != 0) fail("ln -s failed")
}

function capital(text)
{
    return toupper(substr(text, 1, 1)) substr(text, 2)
}

# "weft.h - what it is." becomes "What it is."
function without_title(text)
{
    sub(/^[^ ]+ - /, "", text)
    return capital(text)
}

BEGIN {
    RULES = "weft/weft.h"
    USERS_MAX = 20 # a type of more functions refers to none of them
    CRYPTIC = "^ (ctx|req|reqs|buf|dtype|displs|indices|ptr|comm|n) $" # parameters that are no words of English
}
