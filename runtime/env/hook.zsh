
# What `afloat hook zsh` installs; see hook.bash, which says the same for bash.

__afloat_hook_find() {
    emulate -L zsh
    local dir=$PWD
    typeset -g __afloat_hook_found=
    while [[ -n $dir ]]; do
        if [[ -e $dir/.afloat/env.toml || -e $dir/devenv.nix || -e $dir/flake.nix || -e $dir/.envrc || -e $dir/mise.toml ]]; then
            __afloat_hook_found=$dir
            return
        fi
        dir=${dir%/*}
    done
}

__afloat_hook_leave() {
    emulate -L zsh
    if [[ -n $__afloat_hook_root ]]; then
        typeset -g __afloat_hook_root= # first: a trap may look in between
        __afloat_load $__afloat_hook_dir/leave
        if [[ -d $__afloat_hook_dir ]]; then
            : >|$__afloat_hook_dir/stop
        fi
    fi
}

__afloat_hook_enter() {
    emulate -L zsh -o no_bg_nice
    typeset -g __afloat_hook_n=0 __afloat_hook_pid= __afloat_hook_dir=$__afloat_hook_base/$$-$__afloat_hook_id-$((++__afloat_hook_count))
    typeset -g __afloat_hook_root=$1 # last: a trap may look in between
    $__afloat_hook_program env serve zsh $__afloat_hook_dir $1 $$ </dev/null >/dev/null 2>&1 &!
}

__afloat_hook_revive() {
    emulate -L zsh
    local root=$__afloat_hook_root
    print -u2 'afloat: the process beside this shell is gone, starting another'
    typeset -g __afloat_hook_pid=
    __afloat_hook_leave
    __afloat_hook_enter $root
}

__afloat_hook_apply() {
    emulate -L zsh
    local next=$((__afloat_hook_n + 1))
    if [[ -z $__afloat_hook_root || ! -e $__afloat_hook_dir/env.$next ]]; then
        return 0
    fi
    while [[ -e $__afloat_hook_dir/env.$((next + 1)) ]]; do
        next=$((next + 1))
    done
    typeset -g __afloat_hook_n=$next
    if __afloat_load $__afloat_hook_dir/env.$next; then
        : >|$__afloat_hook_dir/ack.$next
    fi
    [[ -n $__afloat_hook_pid ]] || read -r __afloat_hook_pid 2>/dev/null <$__afloat_hook_dir/pid
    return 0
}

__afloat_hook() {
    if [[ $PWD != $__afloat_hook_pwd || ( -z $__afloat_hook_root && -e .afloat/env.toml ) ]]; then
        typeset -g __afloat_hook_pwd=$PWD
        __afloat_hook_find
        if [[ $__afloat_hook_found != $__afloat_hook_root ]]; then
            __afloat_hook_leave
            if [[ -n $__afloat_hook_found ]]; then
                __afloat_hook_enter $__afloat_hook_found
            fi
        fi
    fi
    if [[ -n $__afloat_hook_root && -n $__afloat_hook_pid && ! -e /proc/$__afloat_hook_pid/exe && -e /proc/$$/exe ]]; then
        __afloat_hook_revive
    fi
    __afloat_hook_apply
    if [[ -n $__afloat_hook_root && -s $__afloat_hook_dir/note ]]; then
        __afloat_load $__afloat_hook_dir/note
        : >|$__afloat_hook_dir/note
    fi
}

if [[ -z ${AFLOAT_SHELL-} ]]; then
    typeset -g __afloat_hook_root=${__afloat_hook_root-} __afloat_hook_pwd=${__afloat_hook_pwd-} __afloat_hook_pid=${__afloat_hook_pid-}
    typeset -gi __afloat_hook_count=${__afloat_hook_count-0} __afloat_hook_n=${__afloat_hook_n-0}
    typeset -ga precmd_functions
    if (( ! ${precmd_functions[(Ie)__afloat_hook]} )); then
        precmd_functions+=(__afloat_hook)
    fi
    TRAPURG() { __afloat_hook_apply }
fi
