# What rendered environments call, for bash, zsh and POSIX shells. Nothing here forks. A value that is
# expected is written "=value", "-" when the variable is expected not to be set.

# __afloat_keep NAME: the user changed it, so keep it; print a notice once
__afloat_keep() {
    case " ${__afloat_kept-} " in
    *" $1 "*) ;;
    *)
        __afloat_kept="${__afloat_kept-} $1"
        printf 'afloat: %s was changed in this shell and stays as it is\n' "$1" >&2
        ;;
    esac
}

# __afloat_set NAME VALUE EXPECTED...
__afloat_set() {
    eval "__afloat_now=\"\${$1+=\$$1}\""
    __afloat_name=$1
    __afloat_value=$2
    shift
    set -- "=$@"
    for __afloat_one in "$@"; do
        if [ "${__afloat_now:--}" = "$__afloat_one" ]; then
            export "$__afloat_name=$__afloat_value"
            return 0
        fi
    done
    __afloat_keep "$__afloat_name"
}

# __afloat_unset NAME EXPECTED...
__afloat_unset() {
    eval "__afloat_now=\"\${$1+=\$$1}\""
    if [ -z "$__afloat_now" ]; then
        return 0
    fi
    __afloat_name=$1
    shift
    for __afloat_one in "$@"; do
        if [ "$__afloat_now" = "$__afloat_one" ]; then
            unset "$__afloat_name"
            return 0
        fi
    done
    __afloat_keep "$__afloat_name"
}

# __afloat_list NAME OLD FRONT BACK OUTER [first]: take the elements OLD out and put FRONT and BACK around
# what is left; OUTER is "-" when the variable was not set outside. What the user has put before our
# elements of PATH stays before them, unless they are to be "first".
__afloat_list() {
    eval "__afloat_now=\"\${$1-}\""
    __afloat_before=
    if [ "$1" = PATH ] && [ -n "${__afloat_front-}" ] && [ -z "${6-}" ]; then
        case :$__afloat_now: in
        *":$__afloat_front:"*)
            __afloat_before=:$__afloat_now:
            __afloat_before=${__afloat_before%%":$__afloat_front:"*}
            __afloat_now=${__afloat_now#"${__afloat_before#:}"}
            __afloat_now=${__afloat_now#:}
            ;;
        esac
    fi
    __afloat_rest=${__afloat_now:+$__afloat_now:}
    __afloat_out=
    while [ -n "$__afloat_rest" ]; do
        __afloat_one=${__afloat_rest%%:*}
        __afloat_rest=${__afloat_rest#*:}
        case ":$2:$3:$4:" in
        *":$__afloat_one:"*)
            if [ -n "$__afloat_one" ]; then
                continue
            fi
            ;;
        esac
        __afloat_out=$__afloat_out:$__afloat_one
    done
    __afloat_out=$__afloat_before${3:+:$3}$__afloat_out${4:+:$4}
    __afloat_out=${__afloat_out#:}
    if [ -n "$__afloat_out" ] || [ "$5" != - ]; then
        export "$1=$__afloat_out"
    else
        unset "$1"
    fi
}

# __afloat_back NAME ELEMENT BEFORE: put back an element that was there before us, after the first element of
# BEFORE that is still there
__afloat_back() {
    eval "__afloat_now=\"\${$1-}\""
    case ":$__afloat_now:" in
    *":$2:"*) return 0 ;;
    esac
    __afloat_rest=${3:+$3:}
    while [ -n "$__afloat_rest" ]; do
        __afloat_one=${__afloat_rest%%:*}
        __afloat_rest=${__afloat_rest#*:}
        __afloat_out=:$__afloat_now:
        case $__afloat_out in
        *":$__afloat_one:"*)
            __afloat_out="${__afloat_out%%":$__afloat_one:"*}:$__afloat_one:$2:${__afloat_out#*":$__afloat_one:"}"
            __afloat_out=${__afloat_out#:}
            export "$1=${__afloat_out%:}"
            return 0
            ;;
        esac
    done
    export "$1=$2${__afloat_now:+:$__afloat_now}"
}

# __afloat_own FRONT GENERATION: our elements in front of PATH; the number of environments applied so far ("": none)
__afloat_own() {
    __afloat_front=$1
    if [ -n "$2" ]; then
        export "AFLOAT_ENV_GENERATION=$2"
    else
        unset AFLOAT_ENV_GENERATION
    fi
}

# put our elements in front of PATH again where one is missing; with "first" also where others have come
# before them
__afloat_refront() {
    if [ -n "${__afloat_front-}" ]; then
        case $PATH:/${1-} in
        "$__afloat_front:"*) ;;
        *":$__afloat_front:"*/) ;;
        *) __afloat_list PATH '' "$__afloat_front" '' = first ;;
        esac
    fi
}
