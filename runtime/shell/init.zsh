# What an Afloat shell does in zsh: after the functions of the environment, around ~/.zshrc. See
# init.bash for the words; the functions run under zsh's own options, whatever the user has set.

if (( $#__afloat_user_zdotdir )); then
    ZDOTDIR=$__afloat_user_zdotdir[1]
else
    unset ZDOTDIR
fi
[[ ${HISTFILE-} != $__afloat_zdotdir/* ]] || HISTFILE=${ZDOTDIR:-$HOME}/.zsh_history
unset __afloat_user_zdotdir __afloat_zdotdir

typeset -g __afloat_file=$AFLOAT_RELOAD_FILE
typeset -g __afloat_dir=${__afloat_file%/*}
typeset -g __afloat_front=${__AFLOAT_FRONT-} # without reloads no environment file sets it
unset __AFLOAT_FRONT
typeset -gi __afloat_seen_env=0 __afloat_seen=0
typeset -g __afloat_path=$PATH __afloat_said= __afloat_failed=

# __afloat_ack ID STATUS
__afloat_ack() {
    builtin print -r -- $2 2>/dev/null >|$__afloat_dir/ack.$1
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
    local __afloat_name=${1#* } __afloat_code=0 __afloat_exit=${aliases[exit]-}
    local __afloat_had=${options[errexit]} __afloat_here=$PWD __afloat_there=${OLDPWD-}
    __afloat_failed=${__afloat_failed//$'\n'"$__afloat_name"$'\n'/}
    aliases[exit]=return
    builtin source $__afloat_dir/${1%% *} || __afloat_code=$?
    if [[ -n $__afloat_exit ]]; then aliases[exit]=$__afloat_exit; else unset 'aliases[exit]'; fi
    [[ $__afloat_had == on ]] || unsetopt errexit
    builtin cd -q $__afloat_here 2>/dev/null && OLDPWD=$__afloat_there
    (( __afloat_code == 0 )) && return
    __afloat_failed+=$'\n'$__afloat_name$'\n'
    builtin printf 'afloat: task %s failed with %s; "afloat env task %s" runs it again\n' \
        "$__afloat_name" "$__afloat_code" "$__afloat_name" >&2
    return $__afloat_code
}

# Show the notices that came while the user may have been typing, at the prompt.
__afloat_tell() {
    __afloat_said=
    builtin print -r -- "$(<$__afloat_dir/said)" >&2
    : >|$__afloat_dir/said
}

# Take over the rendered environment in file $2; quietly if there is a $1.
__afloat_take() {
    [[ -n $1 ]] || { __afloat_load $2; return }
    __afloat_load $2 2>>|$__afloat_dir/said
    local code=$?
    [[ ! -s $__afloat_dir/said ]] || __afloat_said=1
    return $code
}

# Do what is pending; with an argument only what prints nothing, since the user may be typing.
__afloat_reload_apply() {
    [[ -e $__afloat_file ]] || return 0
    local code line id kind arg
    local -a lines
    lines=("${(@f)$(<$__afloat_file)}")
    for line in "${lines[@]}"; do
        id=${line%% *} arg=${line#* } kind=${line#* }
        kind=${kind%% *} arg=${arg#* } code=0
        if [[ $kind == env && $id -gt $__afloat_seen_env ]]; then
            __afloat_seen_env=$id
            __afloat_take "${1-}" $__afloat_dir/$arg || code=$?
        elif [[ $kind != env && -z ${1-} && $id -gt $__afloat_seen ]]; then
            __afloat_seen=$id
            case $kind in
            (note) builtin print -r -- $arg >&2 ;;
            (task) __afloat_task $arg || code=$? ;;
            esac
        else
            continue
        fi
        __afloat_ack $id $code
    done
}

# Put our directories back into PATH when another hook has dropped them; with "first" to its front.
__afloat_restore_path() {
    __afloat_refront "$@"
    __afloat_path=$PATH
}

# Runs at every prompt, so what it calls is only called when there is a reason.
__afloat_reload_hook() {
    local code=$?
    [[ ! -e $__afloat_file ]] || __afloat_reload_apply
    [[ -z $__afloat_said ]] || __afloat_tell
    [[ $PATH == "$__afloat_path" ]] || __afloat_restore_path
    [[ -z $__afloat_marker || $PROMPT == '(afloat) '* ]] || PROMPT="(afloat) $PROMPT"
    (( ${preexec_functions[(I)__afloat_install]} )) || __afloat_install
    return $code
}

# Two hooks that reinstall each other: a program that empties one list leaves the other.
__afloat_install() {
    typeset -ga precmd_functions preexec_functions
    (( ${precmd_functions[(I)__afloat_reload_hook]} )) || precmd_functions+=(__afloat_reload_hook)
    (( ${preexec_functions[(I)__afloat_install]} )) || preexec_functions+=(__afloat_install)
    builtin trap __afloat_on_signal URG
}

# A signal says that something is pending. It also comes when some rc file has dropped our hook.
__afloat_on_signal() {
    __afloat_install
    __afloat_reload_apply quiet
}

# Ask for a reload, and apply what is pending already.
__afloat_reload_key() {
    builtin print -r key 2>/dev/null >|$__afloat_dir/ask.reload
    __afloat_reload_apply quiet
}

[[ ! -f ${ZDOTDIR:-$HOME}/.zshrc ]] || source "${ZDOTDIR:-$HOME}/.zshrc"

__afloat_install
__afloat_reload_apply quiet
__afloat_restore_path first
if [[ -o zle && -n $__afloat_file ]]; then
    zle -N __afloat_reload_key
    bindkey -- "${AFLOAT_RELOAD_KEYBIND:-\\e\\C-r}" __afloat_reload_key
fi
