# tool.awk - the manual page of a tool, from the text that it prints for --help.
#
#   awk -f mdoc.awk -f comment.awk -f tool.awk DATE=... VERSION=... PAGE=weft-run.1 weft-run.txt
#
# The text: sections, whose titles begin their lines; below, indented by two, what comment.awk describes.  An entry
# "--timeout S      text" is an option; what stands there in capitals is a placeholder everywhere.

/^[^ ]/ { title = $0; titles[++sections] = title; next }
{ sub(/^  /, ""); text[title] = text[title] (text[title] == "" ? "" : "\n") $0 }

END {
    page = PAGE
    match(text["NAME"], / - /)
    tool = substr(text["NAME"], 1, RSTART - 1)
    about = trim(substr(text["NAME"], RSTART + 3))
    note_placeholders()
    put_head(tool, 1)
    put(".Nm " tool)
    put(".Nd " about)
    for (s = 2; s <= sections; s++) {
        put(".Sh " titles[s])
        body = text[titles[s]]
        sub(/\n+$/, "", body)
        if (titles[s] == "SYNOPSIS") put_forms(body)
        else if (titles[s] == "EXAMPLES") put_examples(body)
        else if (titles[s] == "SEE ALSO") put_sentence(body)
        else put_comment(body)
    }
}

function trim(line)
{
    gsub(/^[ \n]+|[ \n]+$/, "", line)
    return line
}

function note_placeholders(    lines, n, i)
{
    note_capitals(text["SYNOPSIS"])
    n = split(text["OPTIONS"], lines, "\n")
    for (i = 1; i <= n; i++)
        if (lines[i] ~ /^-/) note_capitals(tag_of(lines[i]))
}

function note_capitals(line,    words, n, i)
{
    n = split(line, words, /[][ |,\n]+/)
    for (i = 1; i <= n; i++)
        if (words[i] ~ /^[A-Z]+$/) placeholder[words[i]] = 1
}

# A word of a command line as a macro; a bracket opens or closes what may be left out.
function macro_of(word)
{
    if (word == "[") return "Oo"
    if (word == "]") return "Oc"
    if (word == "|") return "|"
    if (word ~ /^-/) return "Fl " substr(word, 2)
    if (word in placeholder) return "Ar " word
    return "Cm " word
}

function command_line(line,    words, n, i, macros)
{
    gsub(/[][|]/, " & ", line)
    n = split(trim(line), words, / +/)
    for (i = 1; i <= n; i++) macros = macros (i > 1 ? " " : "") macro_of(words[i])
    gsub(/ Oc Oo /, " Oc\n.Oo ", macros)
    return macros
}

function put_forms(body,    lines, n, i, rest)
{
    n = split(body, lines, "\n")
    for (i = 1; i <= n; i++) {
        rest = lines[i]
        if (sub("^" tool " ", "", rest)) put(".Nm")
        else if (sub(/^weft-run /, "", rest)) put(".Ic weft-run")
        put("." command_line(rest))
    }
}

function put_examples(body,    lines, n, i)
{
    n = split(body, lines, "\n")
    for (i = 1; i <= n; i++) put(".Dl " escape(lines[i]))
}

# "-b, --begin SIZE", as a tag.
function option_macros(tag,    forms, n, i, macros)
{
    n = split(tag, forms, /, /)
    for (i = 1; i <= n; i++) macros = macros (i > 1 ? " , " : "") command_line(forms[i])
    return macros
}

function mark(word, before, after)
{
    if (after ~ /^"/ || before ~ /"$/) return ""
    if (word ~ /^-+[a-z]/) return word ~ / / ? option_macros(word) : "Fl " substr(word, 2)
    if (match(word, /\([1-8]\)$/)) return "Xr " substr(word, 1, RSTART - 1) " " substr(word, RSTART + 1, 1)
    if (word == tool) return "Nm"
    if (word ~ /^weft-(run|bench|info|inspect)$/) return "Xr " word " 1"
    if (word ~ /^weft_[a-z_]+$/) return "Xr " word " 3"
    if (word in placeholder) return "Ar " word
    return ""
}
