
# What `afloat hook bash` installs: the environment of the project that the shell is in. At an idle
# prompt it compares two words and looks for two files.

# the nearest directory from here up that describes an environment, in __afloat_hook_found
__afloat_hook_find() {
    local dir=$PWD
    __afloat_hook_found=
    while [[ -n $dir ]]; do
        if [[ -e $dir/.afloat/env.toml || -e $dir/devenv.nix || -e $dir/flake.nix || -e $dir/.envrc || -e $dir/mise.toml ]]; then
            __afloat_hook_found=$dir
            return
        fi
        dir=${dir%/*}
    done
}

__afloat_hook_leave() {
    if [[ -n $__afloat_hook_root ]]; then
        __afloat_hook_root= # first: a trap may look in between
        __afloat_load "$__afloat_hook_dir/leave"
        if [[ -d $__afloat_hook_dir ]]; then
            : >|"$__afloat_hook_dir/stop"
        fi
    fi
}

__afloat_hook_enter() {
    __afloat_hook_n=0 __afloat_hook_pid=
    __afloat_hook_dir=$__afloat_hook_base/$$-$__afloat_hook_id-$((++__afloat_hook_count))
    __afloat_hook_root=$1 # last: a trap may look in between
    ("$__afloat_hook_program" env serve bash "$__afloat_hook_dir" "$1" $$ </dev/null >/dev/null 2>&1 &)
}

# the process beside us was killed: what it set goes, and another one sets it again
__afloat_hook_revive() {
    local root=$__afloat_hook_root
    printf 'afloat: the process beside this shell is gone, starting another\n' >&2
    __afloat_hook_pid=
    __afloat_hook_leave
    __afloat_hook_enter "$root"
}

# evaluate the newest file that waits
__afloat_hook_apply() {
    local next=$((__afloat_hook_n + 1))
    if [[ -z $__afloat_hook_root || ! -e $__afloat_hook_dir/env.$next ]]; then
        return
    fi
    while [[ -e $__afloat_hook_dir/env.$((next + 1)) ]]; do
        next=$((next + 1))
    done
    __afloat_hook_n=$next
    if __afloat_load "$__afloat_hook_dir/env.$next"; then
        : >|"$__afloat_hook_dir/ack.$next"
    fi
    [[ -n $__afloat_hook_pid ]] || read -r __afloat_hook_pid 2>/dev/null <"$__afloat_hook_dir/pid"
}

__afloat_hook() {
    local status=$?
    if [[ $PWD != "$__afloat_hook_pwd" || ( -z $__afloat_hook_root && -e .afloat/env.toml ) ]]; then
        __afloat_hook_pwd=$PWD
        __afloat_hook_find
        if [[ $__afloat_hook_found != "$__afloat_hook_root" ]]; then
            __afloat_hook_leave
            if [[ -n $__afloat_hook_found ]]; then
                __afloat_hook_enter "$__afloat_hook_found"
            fi
        fi
    fi
    if [[ -n $__afloat_hook_root && -n $__afloat_hook_pid && ! -e /proc/$__afloat_hook_pid/exe && -e /proc/$$/exe ]]; then
        __afloat_hook_revive
    fi
    __afloat_hook_apply
    if [[ -n $__afloat_hook_root && -s $__afloat_hook_dir/note ]]; then
        __afloat_load "$__afloat_hook_dir/note"
        : >|"$__afloat_hook_dir/note"
    fi
    return "$status"
}

# inside an Afloat shell that one is at work already
if [[ -z ${AFLOAT_SHELL-} ]]; then
    : "${__afloat_hook_root=}" "${__afloat_hook_pwd=}" "${__afloat_hook_count=0}" "${__afloat_hook_n=0}"
    : "${__afloat_hook_pid=}" "${PROMPT_COMMAND=}"
    if [[ ${PROMPT_COMMAND@a} == *a* ]]; then
        if [[ " ${PROMPT_COMMAND[*]} " != *" __afloat_hook "* ]]; then
            PROMPT_COMMAND+=(__afloat_hook)
        fi
    elif [[ $PROMPT_COMMAND != *__afloat_hook* ]]; then
        PROMPT_COMMAND=${PROMPT_COMMAND:+$PROMPT_COMMAND$'\n'}__afloat_hook
    fi
    trap __afloat_hook_apply URG
fi
