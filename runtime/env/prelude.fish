# What rendered environments call, for fish; see common.sh, which says the same for the other shells.

function __afloat_is
    set -l __afloat_name $argv[1]
    set -l __afloat_now -
    set -q $__afloat_name; and set __afloat_now "=$$__afloat_name"
    contains -- $__afloat_now $argv[2..-1]
end

function __afloat_keep
    contains -- $argv[1] $__afloat_kept; and return 0
    set -ga __afloat_kept $argv[1]
    echo "afloat: $argv[1] was changed in this shell and stays as it is" >&2
end

function __afloat_set
    if __afloat_is $argv[1] "=$argv[2]" $argv[3..-1]
        set -gx $argv[1] $argv[2]
    else
        __afloat_keep $argv[1]
    end
end

function __afloat_unset
    set -q $argv[1]; or return 0
    if __afloat_is $argv
        set -e $argv[1]
    else
        __afloat_keep $argv[1]
    end
end

# the index in a list at which our elements of PATH begin; 0 when they are not there in this order
function __afloat_front_at
    set -l --path __afloat_first $__afloat_front
    set -l __afloat_i 1
    while test -n "$__afloat_front" -a $__afloat_i -le (count $argv)
        set -l __afloat_end (math $__afloat_i + (count $__afloat_first) - 1)
        if test (string join : $argv[$__afloat_i..$__afloat_end]) = $__afloat_front
            echo $__afloat_i
            return
        end
        set __afloat_i (math $__afloat_i + 1)
    end
    echo 0
end

function __afloat_list
    set -l __afloat_name $argv[1]
    set -l --path __afloat_old $argv[2]
    set -l --path __afloat_front_now $argv[3]
    set -l --path __afloat_back_now $argv[4]
    set -l --path __afloat_now "$$__afloat_name"
    set -l --path __afloat_out
    test -n "$__afloat_now"; or set __afloat_now
    set -l __afloat_at (__afloat_front_at $__afloat_now)
    if test $__afloat_name = PATH -a -z "$argv[6]" -a "$__afloat_at" -gt 1
        set __afloat_out $__afloat_now[1..(math $__afloat_at - 1)] # the user's own stay first
        set -e __afloat_now[1..(math $__afloat_at - 1)]
    end
    test -n "$argv[3]"; and set -a __afloat_out $__afloat_front_now
    for __afloat_one in $__afloat_now
        if test -n "$__afloat_one"; and contains -- $__afloat_one $__afloat_old $__afloat_front_now $__afloat_back_now
            continue
        end
        set -a __afloat_out $__afloat_one
    end
    test -n "$argv[4]"; and set -a __afloat_out $__afloat_back_now
    if test -n "$__afloat_out"
        set -gx $__afloat_name "$__afloat_out"
    else if test $argv[5] != -
        set -gx $__afloat_name
    else
        set -e $__afloat_name
    end
end

function __afloat_back
    set -l __afloat_name $argv[1]
    set -l --path __afloat_now "$$__afloat_name"
    set -l --path __afloat_before $argv[3]
    test -n "$__afloat_now"; or set __afloat_now
    contains -- $argv[2] $__afloat_now; and return 0
    set -l --path __afloat_out
    for __afloat_one in $__afloat_before
        contains -- $__afloat_one $__afloat_now; or continue
        for __afloat_two in $__afloat_now
            set -a __afloat_out $__afloat_two
            test "$__afloat_two" = "$__afloat_one"; and set -a __afloat_out $argv[2]
        end
        set -gx $__afloat_name "$__afloat_out"
        return 0
    end
    set __afloat_out $argv[2] $__afloat_now
    set -gx $__afloat_name "$__afloat_out"
end

function __afloat_own
    set -g __afloat_front $argv[1]
    if test -n "$argv[2]"
        set -gx AFLOAT_ENV_GENERATION $argv[2]
    else
        set -e AFLOAT_ENV_GENERATION
    end
end

function __afloat_refront
    test -n "$__afloat_front"; or return 0
    set -l __afloat_at (__afloat_front_at $PATH)
    test $__afloat_at -eq 1; and return 0
    test $__afloat_at -gt 1 -a -z "$argv[1]"; and return 0
    __afloat_list PATH '' $__afloat_front '' = first
end

function __afloat_load
    test -f $argv[1] -a -O $argv[1]; or return 2
    set -l __afloat_text (string collect -N <$argv[1] 2>/dev/null)
    set -l __afloat_first (string split -m 1 \n -- $__afloat_text)[1]
    set -l __afloat_head (string split ' ' -- $__afloat_first)
    set -l __afloat_bytes (math (string length -- $__afloat_text) - (string length -- $__afloat_first) - 1)
    test "$__afloat_head[2..3]" = "afloat 1" -a "$__afloat_head[5]" = "$__afloat_bytes"; or return 1
    string match -q "*"\n": end $__afloat_head[4]"\n -- $__afloat_text; or return 1
    eval $__afloat_text
end
