# The script provider: bash runs this with the path of the project's script as $1 ("-": its text is the
# standard input), in the project's directory, with descriptor 3 as the side channel (src/env/wire.h). What
# the script prints is shown; what it leaves in the environment is the answer. When $2 is "exact" only the
# files that follow may be sourced of all those in the project.

__afloat_say_input() {
    local path=$1
    [[ $path == /* ]] || path=$PWD/$path
    path=${path//\\/\\\\}
    path=${path//\"/\\\"}
    path=${path//$'\n'/\\n}
    path=${path//$'\t'/\\t}
    printf '{"inputs":[{"path":"%s"}]}\n' "$path" >&3
}

# watch_file FILE...: a change of these, or their appearing, rebuilds the environment
watch_file() {
    local file
    for file; do
        __afloat_say_input "$file"
    done
}

# path_add DIR...: put directories in front of PATH, the first one foremost
path_add() {
    local i dir
    for ((i = $#; i > 0; i--)); do
        dir=${!i}
        [[ $dir == /* ]] || dir=$PWD/$dir
        PATH=$dir${PATH:+:$PATH}
    done
    export PATH
}

# dotenv [FILE]: set the variables of a dotenv file (.env), one NAME=value a line; nothing in it is run.
# A file that is missing sets nothing and is watched.
dotenv() {
    local file=${1:-.env} line name value
    __afloat_say_input "$file"
    [[ -f $file ]] || return 0
    while IFS= read -r line || [[ -n $line ]]; do
        line=${line%$'\r'}
        [[ $line =~ ^[[:space:]]*(export[[:space:]]+)?([A-Za-z_][A-Za-z0-9_]*)[[:space:]]*=[[:space:]]*(.*)$ ]] ||
            continue
        name=${BASH_REMATCH[2]} value=${BASH_REMATCH[3]}
        case $value in
        \'*\'*) value=${value#\'} value=${value%%\'*} ;;
        \"*\"*) value=${value#\"} value=${value%\"*} ;;
        *)
            value=${value%%[[:space:]]#*}
            value=${value%"${value##*[![:space:]]}"}
            ;;
        esac
        export "$name=$value"
    done <"$file"
}

# all that is exported, without a program: it may be more than one could be started with
__afloat_environ() {
    local name
    while IFS= read -r name; do
        [[ -z ${!name+x} ]] || printf '%s=%s\0' "$name" "${!name}"
    done < <(compgen -e)
}

# the functions that a nix shell has, for those who use bash
__afloat_functions() {
    local name
    while IFS= read -r name; do
        case $name in
        __afloat_* | watch_file | path_add | dotenv | trap) ;;
        *) printf '%s()=%s\0' "$name" "$(declare -f -- "$name")" ;;
        esac
    done < <(compgen -A function)
}

__afloat_answer() {
    local status=$?
    builtin trap - EXIT DEBUG
    if ((status == 0)); then
        printf '{"v":1,"environ":true}\n' >&3
        __afloat_environ >&3
        [[ $__afloat_script != - ]] || __afloat_functions >&3
    fi
    # what runs here is read-only for sandboxed commands; a path that is computed only we know
    if [[ $__afloat_exact != exact && -d ${AFLOAT_STATE-} ]]; then
        printf '%s\n' "${__afloat_sourced[@]}" 2>/dev/null >|"$AFLOAT_STATE/sourced"
    fi
    exec 3>&-
    eval "$__afloat_at_exit"
    exit "$status"
}

# trap: the script may have one for EXIT; ours, which answers, is kept for that
trap() {
    local words=("$@") action=${1-} i
    if [[ $action == -- ]]; then
        words=("${@:2}") action=${2-}
    fi
    if ((${#words[@]} < 2)) || [[ $action == -[lp]* ]]; then
        builtin trap "$@"
        return
    fi
    for ((i = ${#words[@]} - 1; i > 0; i--)); do
        if [[ ${words[i]} == 0 || ${words[i]^^} == @(EXIT|SIGEXIT) ]]; then
            __afloat_at_exit=${action#-}
            words=("${words[@]:0:i}" "${words[@]:i+1}")
        fi
    done
    ((${#words[@]} < 2)) || builtin trap -- "${words[@]}"
}

# Files that are sourced are inputs. Before the first command of one is run, the trap finds it.
__afloat_note_source() {
    local file=$1
    __afloat_sources["$file"]=1
    [[ $file != /dev/* && $file != /proc/* ]] || return 0
    [[ $file == */* ]] || file=./$file
    file=$(builtin cd -P -- "${file%/*}/" && printf %s "$PWD")/${file##*/}
    __afloat_say_input "$file"
    __afloat_sourced+=("$file")
    if [[ $__afloat_exact == exact && $file == "$__afloat_root"/* && -z ${__afloat_allowed["$file"]+x} ]]; then
        printf "afloat: '%s' is sourced, and it is not among the trusted files: write its path without variables, or follow the project ('afloat trust --follow')\n" \
            "${file#"$__afloat_root"/}" >&2
        exit 1
    fi
}

__afloat_at_exit=
__afloat_root=$PWD __afloat_script=$1 __afloat_exact=$2
declare -A __afloat_sources=([x]=1 [main]=1 [environment]=1 [bash]=1 [afloat]=1) __afloat_allowed=()
__afloat_sourced=()
for __afloat_one in "${@:3}"; do
    __afloat_allowed["$__afloat_one"]=1
done
set --
builtin trap __afloat_answer EXIT
if [[ $__afloat_script == - ]]; then
    IFS= read -r -d '' __afloat_text
    exec </dev/null
fi
set -T
builtin trap '[[ -n ${__afloat_sources["${BASH_SOURCE[0]:-x}"]+x} ]] || __afloat_note_source "${BASH_SOURCE[0]}"' DEBUG
if [[ $__afloat_script == - ]]; then
    eval "$__afloat_text"
else
    builtin source "$__afloat_script"
fi
