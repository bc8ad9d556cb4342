# What an Afloat shell does in bash: after the functions of the environment, around ~/.bashrc.
#
# `pending` in the session's directory is there exactly while something is to be done; each line is
# "ID KIND ARG". What was done is acknowledged by a file ack.ID that holds its status. Nothing here
# starts a process: an idle prompt costs one look for a file and one comparison.

__afloat_file=$AFLOAT_RELOAD_FILE
__afloat_dir=${__afloat_file%/*}
__afloat_front=${__AFLOAT_FRONT-} # without reloads no environment file sets it
unset __AFLOAT_FRONT
__afloat_seen_env=0
__afloat_seen=0
__afloat_said=
__afloat_settled=
__afloat_failed=

# __afloat_ack ID STATUS
__afloat_ack() {
    builtin echo "$2" 2>/dev/null >|"$__afloat_dir/ack.$1"
}

# __afloat_needs NAME: false, and says so, when this task failed here
__afloat_needs() {
    [[ $__afloat_failed != *$'\n'"$1"$'\n'* ]] && return
    builtin printf 'afloat: it comes after task %s, which failed\n' "$1" >&2
    return 1
}

# Run a task of the project in this shell. `exit` ends the task, not the shell; directory and `set -e`
# are as before afterwards. What is local here has names that no task uses.
__afloat_task() {
    local __afloat_name=${1#* } __afloat_code=0 __afloat_had=$- __afloat_exit=${BASH_ALIASES[exit]-}
    local __afloat_here=$PWD __afloat_there=${OLDPWD-}
    __afloat_failed=${__afloat_failed//$'\n'"$__afloat_name"$'\n'/}
    builtin alias exit=return
    builtin source "$__afloat_dir/${1%% *}" || __afloat_code=$?
    if [[ -n $__afloat_exit ]]; then builtin alias exit="$__afloat_exit"; else builtin unalias exit; fi
    [[ $__afloat_had == *e* ]] || builtin set +e
    builtin cd "$__afloat_here" 2>/dev/null && OLDPWD=$__afloat_there
    (( __afloat_code == 0 )) && return
    __afloat_failed+=$'\n'$__afloat_name$'\n'
    builtin printf 'afloat: task %s failed with %s; "afloat env task %s" runs it again\n' \
        "$__afloat_name" "$__afloat_code" "$__afloat_name" >&2
    return "$__afloat_code"
}

# Show the notices that came while the user may have been typing, at the prompt.
__afloat_tell() {
    local lines
    __afloat_said=
    builtin mapfile -t lines <"$__afloat_dir/said"
    builtin printf '%s\n' "${lines[@]}" >&2
    : >|"$__afloat_dir/said"
}

# Take over the rendered environment in file $2; quietly if there is a $1.
__afloat_take() {
    [[ -n $1 ]] || { __afloat_load "$2"; return; }
    __afloat_load "$2" 2>>"$__afloat_dir/said"
    local code=$?
    [[ ! -s $__afloat_dir/said ]] || __afloat_said=1
    return "$code"
}

# Do what is pending; with an argument only what prints nothing, since the user may be typing.
__afloat_reload_apply() {
    [[ -e $__afloat_file ]] || return 0
    local code lines line id kind arg
    builtin mapfile -t lines <"$__afloat_file"
    for line in "${lines[@]}"; do
        id=${line%% *} arg=${line#* } kind=${line#* }
        kind=${kind%% *} arg=${arg#* } code=0
        if [[ $kind == env && $id -gt $__afloat_seen_env ]]; then
            __afloat_seen_env=$id
            __afloat_take "${1-}" "$__afloat_dir/$arg" || code=$?
        elif [[ $kind != env && -z ${1-} && $id -gt $__afloat_seen ]]; then
            __afloat_seen=$id
            case $kind in
            note) builtin printf '%s\n' "$arg" >&2 ;;
            task) __afloat_task "$arg" || code=$? ;;
            esac
        else
            continue
        fi
        __afloat_ack "$id" "$code"
    done
}

# Put our directories back into PATH when another hook has dropped them; with "first" to its front.
__afloat_restore_path() {
    __afloat_refront "$@"
}

# Something is pending, or PATH or the prompt was changed.
__afloat_settle() {
    __afloat_reload_apply
    [[ -z $__afloat_said ]] || __afloat_tell
    __afloat_restore_path
    [[ -z $__afloat_marker || ${PS1-} == '(afloat) '* ]] || PS1="(afloat) ${PS1-}"
    __afloat_settled=${PS1-}$PATH
}

# Runs at every prompt: one command when there is nothing to do.
__afloat_reload_hook() {
    local code=$?
    [[ ! -e $__afloat_file && $__afloat_said${PS1-}$PATH == "$__afloat_settled" ]] || __afloat_settle
    return "$code"
}

# PROMPT_COMMAND may be a list or a text; a new line ends whatever the text ends with. Where it is
# read-only the signal alone brings environments, before the next command.
__afloat_install() {
    local - kind
    builtin set +u
    kind=${PROMPT_COMMAND@a}
    if [[ ${PROMPT_COMMAND[*]-} != *__afloat_reload_hook* && $kind != *r* ]]; then
        if [[ $kind == *a* ]]; then
            PROMPT_COMMAND+=(__afloat_reload_hook)
        else
            PROMPT_COMMAND=${PROMPT_COMMAND:+$PROMPT_COMMAND$'\n'}__afloat_reload_hook
        fi
    fi
    builtin trap __afloat_on_signal URG
}

# A signal says that something is pending. It also comes when some rc file has dropped our hook.
__afloat_on_signal() {
    __afloat_install
    __afloat_reload_apply quiet
}

# Ask for a reload, and apply what is pending already.
__afloat_reload_key() {
    builtin echo key 2>/dev/null >|"$__afloat_dir/ask.reload"
    __afloat_reload_apply
}

[[ ! -f ~/.bashrc ]] || source ~/.bashrc

__afloat_install
if [[ ${PROMPT_COMMAND[*]-} == *__afloat_reload_hook* ]]; then
    __afloat_reload_apply quiet
else # there will be no other prompt of ours
    __afloat_settle
fi
__afloat_restore_path first
[[ -z $__afloat_file ]] || [[ $SHELLOPTS != *emacs* && $SHELLOPTS != *vi* ]] ||
    bind -x "\"${AFLOAT_RELOAD_KEYBIND:-\\e\\C-r}\": __afloat_reload_key" 2>/dev/null
