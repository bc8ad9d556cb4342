
# Read FILE into __afloat_text; true when it is a rendered environment, complete to its last line. In the
# C locale: in others bash loses bytes that are no characters.
__afloat_read() {
    local LC_ALL=C head body magic version generation bytes
    IFS= read -r -d '' __afloat_text 2>/dev/null <"$1"
    head=${__afloat_text%%$'\n'*} body=${__afloat_text#*$'\n'}
    IFS=' ' read -r _ magic version generation bytes <<<"$head"
    [[ $magic == afloat && $version == 1 && $bytes == "${#body}" && $body == *$'\n'": end $generation"$'\n' ]]
}

# __afloat_load FILE
__afloat_load() {
    local __afloat_text=
    [[ -f $1 && -O $1 ]] || return 2
    __afloat_read "$1" || return 1
    eval "$__afloat_text"
}
