
# true when TEXT, without its last newline, is a rendered environment, complete to its last line
__afloat_whole() {
    emulate -L zsh -o no_multibyte
    local head=${1%%$'\n'*} body=${1#*$'\n'}
    local -a word=(${(s: :)head})
    [[ $word[2] == afloat && $word[3] == 1 && $word[5] == $(( $#body + 1 )) && $body == *$'\n'": end $word[4]" ]]
}

# __afloat_load FILE
__afloat_load() {
    emulate -L zsh
    local __afloat_text
    [[ -f $1 && -O $1 ]] || return 2
    __afloat_text="$(<$1)" 2>/dev/null || return 2
    __afloat_whole $__afloat_text || return 1
    eval $__afloat_text
}

# As the common ones, a third quicker; and here a variable that is read-only would end everything.
__afloat_set() {
    local __afloat_now=-
    (( ${(P)+1} )) && __afloat_now="=${(P)1}"
    if [[ ${(Pt)1} != *readonly* && ( $__afloat_now == "=$2" || ${@[(Ie)$__afloat_now]} -gt 2 ) ]]; then
        export "$1=$2"
    else
        __afloat_keep $1
    fi
}

__afloat_unset() {
    if (( ! ${(P)+1} )); then
        return 0
    elif [[ ${(Pt)1} != *readonly* && ${@[(Ie)=${(P)1}]} -gt 1 ]]; then
        unset $1
    else
        __afloat_keep $1
    fi
}
