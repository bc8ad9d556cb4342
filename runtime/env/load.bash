
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

# __afloat_function NAME TEXT: define a function of the environment, or take it away without a TEXT. One that
# the user has already stays as it is. Aliases are no part of the text.
__afloat_function() {
    if [[ " ${__afloat_functions-} " != *" $1 "* ]]; then
        [[ -n $2 ]] && ! declare -F "$1" >/dev/null || return 0
        __afloat_functions="${__afloat_functions-} $1"
    fi
    if [[ -z $2 ]]; then
        unset -f "$1"
        __afloat_functions=" ${__afloat_functions} "
        __afloat_functions=${__afloat_functions/ $1 / }
    elif [[ $BASHOPTS == *expand_aliases* ]]; then
        shopt -u expand_aliases
        eval "$2"
        shopt -s expand_aliases
    else
        eval "$2"
    fi
}
