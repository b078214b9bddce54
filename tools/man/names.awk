# names.awk - writes weft-bench's help with what the tables tell that the program goes by, where the text says @names.
#
#   awk -f names.awk OUT=... bench_cases.c words.c weft-bench.txt

# The string after `before` on this line.
function string_after(before,    rest)
{
    rest = substr($0, index($0, before "\"") + length(before) + 1)
    return substr(rest, 1, index(rest, "\"") - 1)
}

function fail(sentence)
{
    print "tools/man: " sentence >"/dev/stderr"
    failed = 1
    exit 1
}

FILENAME ~ /\.txt$/ {
    if ($0 == "@names")
        print_names()
    else
        print >OUT
    next
}

/^};/ { in_cases = list = "" }

# One row after the other: .name stands before .text in each.
/^const struct bench_case bench_cases\[\]/ { in_cases = 1 }

in_cases && /\.name = "/ {
    if (operation != "") fail("bench_cases.c: " operation " has no text")
    operation = string_after(".name = ")
}

in_cases && /\.text = "/ {
    operations = operations sprintf("  %-16s  %s\n", operation, string_after(".text = "))
    operation = ""
}

/^const char \*const word_/ {
    list = /word_dtypes/ ? "types" : "reductions"
    next
}

list != "" {
    n = split($0, words, /, +\[/)
    for (i = 1; i <= n; i++)
        if (match(words[i], /"[a-z0-9_]+"/)) names[list] = names[list] " " substr(words[i], RSTART + 1, RLENGTH - 2)
}

function print_names()
{
    if (operations == "" || operation != "" || names["types"] == "" || names["reductions"] == "")
        fail("bench_cases.c or words.c is not laid out as names.awk reads them")
    printf "OPERATIONS\n%s\nTYPES\n %s\n\nREDUCTIONS\n %s\n", operations, names["types"], names["reductions"] >OUT
}
