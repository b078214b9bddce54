# comment.awk - writes the text of a comment in the layouts that the headers have: paragraphs, with an empty line
# between them; entries "Word   text", whose other lines are indented further; and lines of C, indented by four and
# more.

function indent_of(line)
{
    match(line, /^ */)
    return RLENGTH
}

# The tag of a line that begins an entry, or "": two spaces after a sentence make none.
function tag_of(line,    tag)
{
    if (!match(line, /[^ ]   *[^ ]/) || RSTART > 24) return ""
    tag = substr(line, 1, RSTART)
    sub(/^ */, "", tag)
    return tag ~ /[.:;!?)*"]$/ ? "" : tag
}

function tag_macro(tag,    macro)
{
    macro = mark(tag, "", "")
    return macro != "" ? macro : "Sy " quote(tag)
}

# What has been gathered is written when something else begins.
function end_text()
{
    if (gathered != "") put_text(gathered)
    gathered = ""
}

function end_list()
{
    end_text()
    if (list_open) put(".El")
    list_open = 0
}

# The room for tags of the list that begins at line i, up to 16 letters.
function tag_width(lines, n, i,    indent, width)
{
    indent = indent_of(lines[i])
    width = 6
    for (; i <= n && !(indent_of(lines[i]) <= indent && tag_of(lines[i]) == "" && lines[i] != ""); i++)
        if (indent_of(lines[i]) <= indent && length(tag_of(lines[i])) > width) width = length(tag_of(lines[i]))
    return width > 16 ? 8 : width
}

function begin_entry(line, tag, width)
{
    end_text()
    if (!list_open) put(".Bl -tag -width " width "n")
    list_open = 1
    list_indent = indent_of(line)
    put(".It " tag_macro(tag))
    sub(/^ */, "", line)
    gathered = substr(line, length(tag) + 1)
}

function put_code(line)
{
    if (!code_open) {
        end_text()
        put(".Bd -literal -offset indent")
    }
    code_open = 1
    put_line(substr(line, 5))
}

function end_code()
{
    if (code_open) put(".Ed")
    code_open = 0
}

function put_comment(text,    lines, n, i, line, tag, gap)
{
    n = split(text, lines, "\n")
    gap = 0
    for (i = 1; i <= n; i++) {
        line = lines[i]
        if (line ~ /^ *$/) {
            end_text()
            end_code()
            gap = i > 1
            continue
        }
        if (list_open && indent_of(line) <= list_indent && tag_of(line) == "") {
            end_list()
            gap = 1
        }
        if ((tag = tag_of(line)) != "" && (!list_open || indent_of(line) <= list_indent)) {
            begin_entry(line, tag, tag_width(lines, n, i))
        } else if (!list_open && indent_of(line) >= 4) {
            put_code(line)
        } else {
            end_code()
            if (gap && !list_open) put(".Pp")
            sub(/^ */, "", line)
            gathered = gathered (gathered == "" ? "" : "\n") line
        }
        gap = 0
    }
    end_list()
    end_code()
}
