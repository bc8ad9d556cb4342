# What an Afloat shell does in fish: after the functions of the environment and config.fish. See
# init.bash for the words.

set -g __afloat_file $AFLOAT_RELOAD_FILE
set -g __afloat_dir (string replace -r '/[^/]*$' '' -- $__afloat_file)
set -g __afloat_front $__AFLOAT_FRONT # without reloads no environment file sets it
set -e __AFLOAT_FRONT
set -g __afloat_seen_env 0
set -g __afloat_seen 0
set -g __afloat_path $PATH
set -g __afloat_said
set -g __afloat_failed

# __afloat_ack ID STATUS
function __afloat_ack
    echo $argv[2] 2>/dev/null >$__afloat_dir/ack.$argv[1]
end

# __afloat_needs NAME: false, and says so, when this task failed here
function __afloat_needs
    contains -- $argv[1] $__afloat_failed; or return 0
    echo "afloat: it comes after task $argv[1], which failed" >&2
    return 1
end

# `return` in a file that is read ends the function that reads it.
function __afloat_read
    source $argv[1]
end

# __afloat_task FILE NAME: run a task of the project in this shell. `exit` in a file that is read ends
# the file; the directory is as before afterwards. What is local here has names that no task uses.
function __afloat_task
    set -l __afloat_code 0
    set -l __afloat_here $PWD
    set -g __afloat_failed (string match -v -- $argv[2] $__afloat_failed)
    __afloat_read $__afloat_dir/$argv[1]; or set __afloat_code $status
    builtin cd $__afloat_here 2>/dev/null
    test $__afloat_code -eq 0; and return 0
    set -ga __afloat_failed $argv[2]
    echo "afloat: task $argv[2] failed with $__afloat_code; 'afloat env task $argv[2]' runs it again" >&2
    return $__afloat_code
end

# Show the notices that came while the user may have been typing, at the prompt.
function __afloat_tell
    set -g __afloat_said
    set -l text
    read -lz text <$__afloat_dir/said
    echo -n $text >&2
    echo -n >$__afloat_dir/said
end

# Take over the rendered environment in file $argv[2]; quietly if there is an $argv[1].
function __afloat_take
    if test -z "$argv[1]"
        __afloat_load $argv[2]
        return
    end
    __afloat_load $argv[2] 2>>$__afloat_dir/said
    set -l code $status
    test -s $__afloat_dir/said; and set -g __afloat_said 1
    return $code
end

# Do what is pending; with an argument only what prints nothing, since the user may be typing.
function __afloat_reload_apply
    test -e $__afloat_file; or return 0
    set -l text
    read -lz text <$__afloat_file
    for line in (string split \n -- $text)
        set -l words (string split -m 2 ' ' -- $line)
        set -l code 0
        if test (count $words) -lt 3
            continue
        else if test $words[2] = env -a $words[1] -gt $__afloat_seen_env
            set -g __afloat_seen_env $words[1]
            __afloat_take "$argv[1]" $__afloat_dir/$words[3]; or set code $status
        else if test $words[2] != env -a -z "$argv[1]" -a $words[1] -gt $__afloat_seen
            set -g __afloat_seen $words[1]
            switch $words[2]
                case note
                    echo $words[3] >&2
                case task
                    __afloat_task (string split -m 1 ' ' -- $words[3]); or set code $status
            end
        else
            continue
        end
        __afloat_ack $words[1] $code
    end
end

# Put our directories back into PATH when another hook has dropped them; with "first" to its front.
function __afloat_restore_path
    __afloat_refront $argv
    set -g __afloat_path $PATH
end

function __afloat_reload_hook --on-event fish_prompt
    set -l code $status
    __afloat_reload_apply
    test -z "$__afloat_said"; or __afloat_tell
    test "$PATH" = "$__afloat_path"; or __afloat_restore_path
    return $code
end

# A signal says that something is pending.
function __afloat_on_signal --on-signal URG
    __afloat_reload_apply quiet
end

# Ask for a reload, and apply what is pending already.
function __afloat_reload_key
    echo key 2>/dev/null >$__afloat_dir/ask.reload
    __afloat_reload_apply quiet
end

# `$status` is for the user's own prompt to show.
if test -n "$__afloat_marker"; and functions -q fish_prompt
    functions -c fish_prompt __afloat_user_prompt
    function fish_prompt
        set -l code $status
        echo -n '(afloat) '
        __afloat_return $code
        __afloat_user_prompt
    end
    function __afloat_return
        return $argv[1]
    end
end

__afloat_reload_apply quiet
__afloat_restore_path first
set -q AFLOAT_RELOAD_KEYBIND; or set -l AFLOAT_RELOAD_KEYBIND '\e\C-r'
test -z "$__afloat_file"; or bind (string unescape -- (string replace -a '\C-' '\c' -- $AFLOAT_RELOAD_KEYBIND)) __afloat_reload_key
