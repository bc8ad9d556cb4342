
# What `afloat hook fish` installs; see hook.bash, which says the same for bash.

function __afloat_hook_find
    set -g __afloat_hook_found ''
    set -l dir $PWD
    while test -n "$dir"
        if test -e $dir/.afloat/env.toml -o -e $dir/devenv.nix -o -e $dir/flake.nix -o -e $dir/.envrc -o -e $dir/mise.toml
            set -g __afloat_hook_found $dir
            return
        end
        set dir (string replace -r '/[^/]*$' '' -- $dir)
    end
end

function __afloat_hook_leave
    if test -n "$__afloat_hook_root"
        set -g __afloat_hook_root ''
        __afloat_load $__afloat_hook_dir/leave
        if test -d $__afloat_hook_dir
            : >$__afloat_hook_dir/stop
        end
    end
end

function __afloat_hook_enter
    set -g __afloat_hook_n 0
    set -g __afloat_hook_pid ''
    set -g __afloat_hook_count (math $__afloat_hook_count + 1)
    set -g __afloat_hook_dir $__afloat_hook_base/$fish_pid-$__afloat_hook_id-$__afloat_hook_count
    set -g __afloat_hook_root $argv[1]
    $__afloat_hook_program env serve fish $__afloat_hook_dir $argv[1] $fish_pid </dev/null >/dev/null 2>&1 &
    disown
end

function __afloat_hook_revive
    set -l root $__afloat_hook_root
    echo 'afloat: the process beside this shell is gone, starting another' >&2
    __afloat_hook_leave
    __afloat_hook_enter $root
end

function __afloat_hook_apply --on-signal SIGURG
    test -n "$__afloat_hook_root"; or return 0
    set -l next (math $__afloat_hook_n + 1)
    test -e $__afloat_hook_dir/env.$next; or return 0
    while test -e $__afloat_hook_dir/env.(math $next + 1)
        set next (math $next + 1)
    end
    set -g __afloat_hook_n $next
    if __afloat_load $__afloat_hook_dir/env.$next
        : >$__afloat_hook_dir/ack.$next
    end
    test -n "$__afloat_hook_pid"; or read -g __afloat_hook_pid 2>/dev/null <$__afloat_hook_dir/pid
end

function __afloat_hook --on-event fish_prompt
    if test "$PWD" != "$__afloat_hook_pwd" -o -z "$__afloat_hook_root" -a -e .afloat/env.toml
        set -g __afloat_hook_pwd $PWD
        __afloat_hook_find
        if test "$__afloat_hook_found" != "$__afloat_hook_root"
            __afloat_hook_leave
            if test -n "$__afloat_hook_found"
                __afloat_hook_enter $__afloat_hook_found
            end
        end
    end
    if test -n "$__afloat_hook_root" -a -n "$__afloat_hook_pid" -a ! -e /proc/$__afloat_hook_pid/exe -a -e /proc/$fish_pid/exe
        __afloat_hook_revive
    end
    __afloat_hook_apply
    if test -n "$__afloat_hook_root" -a -s "$__afloat_hook_dir/note"
        __afloat_load $__afloat_hook_dir/note
        echo -n >$__afloat_hook_dir/note
    end
end

if set -q AFLOAT_SHELL
    functions -e __afloat_hook __afloat_hook_apply
else
    set -q __afloat_hook_root; or set -g __afloat_hook_root ''
    set -q __afloat_hook_pwd; or set -g __afloat_hook_pwd ''
    set -q __afloat_hook_count; or set -g __afloat_hook_count 0
    set -q __afloat_hook_n; or set -g __afloat_hook_n 0
    set -q __afloat_hook_pid; or set -g __afloat_hook_pid ''
end
