# Stands for ~/.zshenv while an Afloat shell starts. The user's own runs as always; then zsh has to come
# back to our directory once more, for .zshrc.
__afloat_zdotdir=$ZDOTDIR
if [[ -n ${__AFLOAT_ZDOTDIR+x} ]]; then
    ZDOTDIR=$__AFLOAT_ZDOTDIR
    unset __AFLOAT_ZDOTDIR
else
    unset ZDOTDIR
fi
[[ ! -f ${ZDOTDIR:-$HOME}/.zshenv ]] || source "${ZDOTDIR:-$HOME}/.zshenv"
__afloat_user_zdotdir=(${ZDOTDIR+"$ZDOTDIR"})
ZDOTDIR=$__afloat_zdotdir
