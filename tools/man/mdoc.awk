# mdoc.awk - writes running text as mdoc(7): each sentence begins a line, and each word that mark() knows is a macro.
#
# Text comes with two spaces, or the end of a line, after a sentence.  `page` is the file that is written.  The program
# that includes this defines mark(word, before, after): the macro with its arguments for a word between that punctuation
# ("Dv WEFT_OK"), or "" where the word is a word.

function put(line)
{
    print line >page
}

# gsub() would do, did all awks agree on what a backslash means to it.
function replaced(text, old, new,    at, done)
{
    while (at = index(text, old)) {
        done = done substr(text, 1, at - 1) new
        text = substr(text, at + length(old))
    }
    return done text
}

function escape(text)
{
    return replaced(text, "\\", "\\e")
}

# An argument of a macro: one word to mdoc, whatever it holds.
function quote(text)
{
    return "\"" replaced(escape(text), "\"", "\\(dq") "\""
}

function put_line(line)
{
    line = escape(line)
    if (line ~ /^[.']/) line = "\\&" line
    if (line != "") put(line)
}

# The head of a page; what DATE and VERSION are is told on awk's command line.
function put_head(name, section)
{
    put(".\\\" Generated; do not edit.")
    put(".Dd " DATE)
    put(".Dt " toupper(name) " " section)
    put(".Os Weft " VERSION)
    put(".Sh NAME")
}

# Splits a word into its punctuation, in the globals word_before and word_after, and returns the rest.
function bare(word)
{
    if (match(word, /^[a-z_-]+\([1-8]\)/)) { # another page
        word_before = ""
        word_after = substr(word, RLENGTH + 1)
        return substr(word, 1, RLENGTH)
    }
    match(word, /^[(\["*&`]*/)
    word_before = substr(word, 1, RLENGTH)
    word = substr(word, RLENGTH + 1)
    match(word, /('s)?(\(\))?[]).,:;!?"`]*$/)
    word_after = substr(word, RSTART)
    sub(/\(\)/, "", word_after)
    return substr(word, 1, RSTART - 1)
}

# mdoc takes closing punctuation as arguments of the macro; anything else is joined to it.
function put_macro(macro, before, after,    line)
{
    if (macro ~ /^Fa / && before ~ /\*$/) {
        macro = "Fa *" substr(macro, 4)
        before = substr(before, 1, length(before) - 1)
    }
    line = "."
    if (before != "") line = line "No \\&" replaced(before, "\"", "\\(dq") " Ns "
    line = line macro
    match(after, /[]).,:;!?]*$/)
    if (RSTART > 1) line = line " Ns No " quote(substr(after, 1, RSTART - 1))
    after = substr(after, RSTART)
    gsub(/./, " &", after)
    put(line after)
}

function put_sentence(text,    words, n, i, line, word, macro, before, after)
{
    n = split(text, words, " ")
    line = ""
    for (i = 1; i <= n; i++) {
        word = bare(words[i])
        before = word_before
        after = word_after
        macro = word == "" ? "" : mark(word, before, after)
        gsub(/`/, "", before)
        gsub(/`/, "", after)
        if (macro != "" || length(line) + length(words[i]) > 76) {
            put_line(line)
            line = ""
        }
        if (macro != "")
            put_macro(macro, before, after)
        else
            line = line == "" ? words[i] : line " " words[i]
    }
    put_line(line)
}

function put_text(text,    sentences, n, i)
{
    gsub(/[.!?]\n/, "&  ", text)
    while (match(text, /[a-z]-\n/)) text = substr(text, 1, RSTART + 1) substr(text, RSTART + 3)
    gsub(/\n/, " ", text)
    n = split(text, sentences, /  +/)
    for (i = 1; i <= n; i++) put_sentence(sentences[i])
}

# An entry of a tagged list, which begins with it where `open` is 0.
function put_item(open, tag, text)
{
    if (!open) put(".Bl -tag -width 8n")
    put(".It " tag)
    put_text(text)
}
