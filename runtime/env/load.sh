
# __afloat_load FILE
__afloat_load() {
    [ -f "$1" ] && [ -O "$1" ] || return 2
    __afloat_text=
    __afloat_one=
    while IFS= read -r __afloat_rest; do
        __afloat_one=$__afloat_rest
        __afloat_text=$__afloat_text$__afloat_rest'
'
    done <"$1"
    __afloat_rest=${__afloat_text#*'
'}
    __afloat_now="${__afloat_text%%'
'*}"
    __afloat_now=${__afloat_now#": afloat 1 "}
    if [ "$__afloat_one" != ": end ${__afloat_now%% *}" ] ||
        [ "$(LC_ALL=C; printf %s "${#__afloat_rest}")" != "${__afloat_now#* }" ]; then
        return 1
    fi
    eval "$__afloat_text"
}
