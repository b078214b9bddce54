# rules.awk - weft(7): the rules at the top of weft.h, its constants, what there is, and the table of settings.

# "NAME" | NUMBER | "0" | 0 | (2147483647) | "sentence" " in pieces"
function read_setting(line,    fields, i)
{
    line = trimmed(line)
    if (split(line, fields, / \| /) != 6) fail("a setting is not understood: " line)
    for (i = 1; i <= 6; i++) {
        gsub(/" +"/, "", fields[i])
        gsub(/^["(]|[")]$/, "", fields[i])
        gsub(/\\"/, "\"", fields[i])
    }
    setting_name[++settings] = fields[1]
    is_setting[fields[1]] = 1
    setting_range[settings] = fields[2] == "NUMBER" ? fields[4] " to " fields[5] : "text"
    setting_standard[settings] = fields[3]
    setting_text[settings] = fields[6]
}

function put_constants(    b, open)
{
    put(".Sh CONSTANTS")
    for (b = 1; b <= blocks; b++)
        if (block_kind[b] == "constant")
            put_item(open++, "Dv " block_names[b] " No " quote(block_code[b, 1]), block_text[b])
    put(".El")
}

function put_contents(    b, s, last, names)
{
    put(".Sh FUNCTIONS AND TYPES")
    for (b = 1; b <= blocks; b++) {
        s = block_section[b]
        if (block_kind[b] == "constant") continue
        if (s != last) {
            if (last) put(".El")
            put(".Ss " (section_title[s] ~ /\.h$/ ? "In " section_title[s] : capital(section_title[s])))
            put(".Bl -tag -width 8n")
            last = s
        }
        names = "Xr " block_names[b] " 3"
        gsub(/ weft_/, " 3 , Xr&", names)
        sub(/ 3 , Xr/, "", names)
        put(".It " names)
        put_line(summary(b))
    }
    put(".El")
}

function put_settings(    i)
{
    put(".Sh ENVIRONMENT")
    put_text("Read once, at the first use in the process; weft-info tells which are set.  " \
        "In brackets: the default, and what a number may be.")
    for (i = 1; i <= settings; i++)
        put_item(i > 1, "Ev " setting_name[i] " Bq " quote((setting_standard[i] == "" ? "empty" : setting_standard[i]) \
            (setting_range[i] == "text" ? "" : "; " setting_range[i])), setting_text[i])
    put(".El")
}

function put_rules()
{
    page = DIR "/man7/weft.7"
    page_block = 0
    split("", parameters)
    put_head("weft", 7)
    put(".Nm weft")
    put(".Nd asynchronous collective communication between the ranks of a job")
    put(".Sh SYNOPSIS")
    put(".In " RULES)
    put(".Pp")
    put(".Dl cc program.c $(pkg-config --cflags --libs weft)")
    put(".Sh DESCRIPTION")
    put_comment(without_title(intro[RULES]))
    put_constants()
    put_contents()
    put_settings()
    put(".Sh SEE ALSO")
    put(".Xr weft-bench 1 ,")
    put(".Xr weft-info 1 ,")
    put(".Xr weft-run 1")
    close(page)
}
