-- hub.hooks: observers and interceptors of free events. Protected; written in C (src/bind/hooks.c).
return require "hooks"
